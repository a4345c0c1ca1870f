#include "engine/parallel/zero_bubble.h"

#include <algorithm>
#include <optional>

#include "engine/core/error.h"

namespace benchsuite {

namespace {

using Kind = ZeroBubblePass::Kind;

/// The search's choices.
struct Rules {
  bool bubble_before_backward = false;  ///< one more forward may delay the first backward
  bool backward_first = false;          ///< a forward that would delay the next stage's backward may be put off
  bool fills_every_gap = false;         ///< a weight gradient may start in a gap that it overruns
};

class Search {
 public:
  Search(std::int64_t pipeline, std::int64_t micro_batches, const ZeroBubbleTimes& times, const ZeroBubbleMemory& memory, Rules rules)
      : m_(micro_batches), times_(times), memory_(memory), rules_(rules), stages_(static_cast<std::size_t>(pipeline)) {}

  /// Nothing when the memory limit can't be kept.
  std::optional<ZeroBubbleSchedule> run() {
    if (memory_.saved > memory_.limit) return std::nullopt;
    warm_up();
    for (std::int64_t i = 1; i < m_; ++i) {
      if (!forwards(wanted_forwards()) || !backwards(i)) return std::nullopt;
    }
    ZeroBubbleSchedule schedule;
    for (std::size_t j = 0; j < stages_.size(); ++j) {
      while (stages_[j].done[2] < m_) put(j, Kind::weight_gradient);
      schedule.ranks.push_back(std::move(stages_[j].passes));
    }
    return schedule;
  }

 private:
  struct Stage {
    std::int64_t done[3] = {0, 0, 0};  // passes by kind
    std::int64_t held = 0, end = 0, bubble = 0;
    std::vector<std::int64_t> ends[2];  // of forwards and input gradients
    std::vector<ZeroBubblePass> passes;

    std::int64_t forwards() const { return done[0]; }
    std::int64_t backwards() const { return done[1]; }
    bool has_weights() const { return done[2] < done[1]; }
  };

  std::int64_t length(Kind kind) const {
    return kind == Kind::forward ? times_.forward : kind == Kind::input_gradient ? times_.input_gradient : times_.weight_gradient;
  }

  /// When the input of the stage's next pass of this kind is there; 0: it comes from the stage itself.
  std::int64_t arrival(std::size_t j, Kind kind) const {
    const auto next = static_cast<std::size_t>(stages_[j].done[static_cast<int>(kind)]);
    if (kind == Kind::forward && j > 0) return stages_[j - 1].ends[0][next] + times_.travel;
    if (kind == Kind::input_gradient && j + 1 < stages_.size()) return stages_[j + 1].ends[1][next] + times_.travel;
    return 0;
  }

  void put(std::size_t j, Kind kind) {
    Stage& stage = stages_[j];
    const int k = static_cast<int>(kind);
    const std::int64_t start = std::max(stage.end, arrival(j, kind));
    if (stage.forwards() > 0) stage.bubble += start - stage.end;
    stage.end = start + length(kind);
    stage.passes.push_back({kind, static_cast<std::int32_t>(stage.done[k]), start, stage.end});
    if (kind != Kind::weight_gradient) stage.ends[k].push_back(stage.end);
    stage.held += kind == Kind::forward          ? memory_.saved
                  : kind == Kind::input_gradient ? memory_.kept_for_weights - memory_.saved
                                                 : -memory_.kept_for_weights;
    ++stage.done[k];
  }

  std::int64_t largest_bubble() const {
    return std::max_element(stages_.begin(), stages_.end(), [](const auto& a, const auto& b) { return a.bubble < b.bubble; })->bubble;
  }

  /// Forwards up to the first backward of every stage, and these backwards.
  void warm_up() {
    const std::size_t p = stages_.size();
    for (std::size_t j = 0; j < p; ++j) put(j, Kind::forward);
    std::vector<std::int64_t> more(p, 0);
    std::int64_t backward_end = stages_[p - 1].end + times_.input_gradient;
    for (std::size_t j = p - 1; j-- > 0;) {
      std::int64_t held = stages_[j].held, end = stages_[j].end;
      const std::int64_t gradient = backward_end + times_.travel;
      while (1 + more[j] < m_ && held + memory_.saved <= memory_.limit) {
        if (rules_.bubble_before_backward ? end >= gradient : end + times_.forward > gradient) break;
        held += memory_.saved;
        end += times_.forward;
        ++more[j];
      }
      backward_end = std::max(end, gradient) + times_.input_gradient;
    }
    for (std::size_t j = 1; j < p; ++j) {  // a stage can't have as many as the one that feeds it
      while (more[j] > 0 && more[j] >= more[j - 1] && 1 + more[j] < m_) --more[j];
    }
    for (std::size_t j = 0; j < p; ++j) {
      for (std::int64_t i = 0; i < more[j]; ++i) put(j, Kind::forward);
    }
    for (std::size_t j = p; j-- > 0;) put(j, Kind::input_gradient);
  }

  /// Which stages take one more forward before their next backward.
  std::vector<bool> wanted_forwards() const {
    const std::size_t p = stages_.size();
    std::vector<bool> wanted(p, false);
    for (std::size_t j = 0; j < p; ++j) wanted[j] = stages_[j].forwards() < m_ && !puts_off(j);
    for (std::size_t j = p - 1; j-- > 0;) wanted[j] = wanted[j] && wanted[j + 1];
    return wanted;
  }

  bool puts_off(std::size_t j) const {
    if (!rules_.backward_first || j + 1 == stages_.size()) return false;
    const Stage &stage = stages_[j], &next = stages_[j + 1];
    if (stage.forwards() < next.forwards() + 2) return false;
    const std::int64_t gradient = next.end + times_.forward + times_.input_gradient + times_.travel;
    if (stage.end >= gradient) return true;
    std::int64_t end = stage.end + times_.forward, held = stage.held + memory_.saved;
    for (std::int64_t w = stage.done[2]; held > memory_.limit && w < stage.backwards(); ++w) {
      end += times_.weight_gradient;
      held -= memory_.kept_for_weights;
    }
    return end > gradient && gradient - stage.end <= largest_bubble() - stage.bubble;
  }

  /// Weight gradients for the time until `until`: those that end by then, and one that overruns where a longer bubble hurts.
  void fill(std::size_t j, std::int64_t until) {
    Stage& stage = stages_[j];
    while (stage.has_weights() && stage.end + times_.weight_gradient <= until) put(j, Kind::weight_gradient);
    if (!stage.has_weights() || stage.end >= until) return;
    if (rules_.fills_every_gap || until - stage.end > largest_bubble() - stage.bubble) put(j, Kind::weight_gradient);
  }

  bool forwards(const std::vector<bool>& wanted) {
    for (std::size_t j = 0; j < stages_.size(); ++j) {
      if (!wanted[j]) continue;
      while (stages_[j].held + memory_.saved > memory_.limit) {
        if (!stages_[j].has_weights()) return false;
        put(j, Kind::weight_gradient);
      }
      if (j > 0) fill(j, arrival(j, Kind::forward));
      put(j, Kind::forward);
    }
    return true;
  }

  bool backwards(std::int64_t micro_batch) {
    for (std::size_t j = stages_.size(); j-- > 0;) {
      if (stages_[j].forwards() <= micro_batch) return false;  // put off for good: no schedule by these rules
      if (j + 1 < stages_.size()) fill(j, arrival(j, Kind::input_gradient));
      if (j == 0 && stages_[j].forwards() == m_) {
        while (stages_[j].has_weights()) put(j, Kind::weight_gradient);
      }
      put(j, Kind::input_gradient);
    }
    return true;
  }

  std::int64_t m_;
  ZeroBubbleTimes times_;
  ZeroBubbleMemory memory_;
  Rules rules_;
  std::vector<Stage> stages_;
};

}  // namespace

std::int64_t ZeroBubbleSchedule::makespan() const {
  std::int64_t end = 0;
  for (const auto& passes : ranks) end = std::max(end, passes.back().end);
  return end;
}

std::int64_t ZeroBubbleSchedule::span() const {
  std::int64_t longest = 0;
  for (const auto& passes : ranks) longest = std::max(longest, passes.back().end - passes.front().start);
  return longest;
}

ZeroBubbleSchedule zero_bubble_schedule(std::int64_t pipeline, std::int64_t micro_batches, const ZeroBubbleTimes& times,
                                        const ZeroBubbleMemory& memory) {
  CHECK(pipeline >= 1 && micro_batches >= 1) << pipeline << " stages, " << micro_batches << " micro-batches";
  CHECK(memory.kept_for_weights >= 0 && memory.kept_for_weights <= memory.saved) << "kept " << memory.kept_for_weights << " of "
                                                                                 << memory.saved;
  std::optional<ZeroBubbleSchedule> best;
  for (int choice = 0; choice < 8; ++choice) {
    const Rules rules{(choice & 4) != 0, (choice & 2) != 0, (choice & 1) != 0};
    std::optional<ZeroBubbleSchedule> one = Search(pipeline, micro_batches, times, memory, rules).run();
    if (one && (!best || one->span() < best->span())) best = std::move(one);
  }
  CHECK(best) << "no zero-bubble schedule keeps " << memory.limit << " a stage when a forward saves " << memory.saved;
  return *std::move(best);
}

}  // namespace benchsuite
