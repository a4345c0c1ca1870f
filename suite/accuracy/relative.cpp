#include "suite/accuracy/relative.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/parallel/schedule_times.h"
#include "engine/parallel/zero_bubble.h"

namespace benchsuite {

namespace {

constexpr double kTicksPerMs = 1e6;  // of a schedule: nanoseconds

bool same_work(const PublishedRow& a, const PublishedRow& b) {
  return PublishedRow::text(a.model, "name") == PublishedRow::text(b.model, "name") &&
         row_value(a, "layout.micro_batch") == row_value(b, "layout.micro_batch");
}

/// How far apart two rows' numbers of micro-batches are, as a ratio; rows without one are equally near.
double distance(const PublishedRow& a, const PublishedRow& b) {
  const auto x = PublishedRow::number(a.layout, "num_microbatches"), y = PublishedRow::number(b.layout, "num_microbatches");
  return x && y ? std::abs(std::log(*x / *y)) : 0;
}

std::int64_t ticks(const PublishedRow& row, const char* key) {
  return std::llround(PublishedRow::number(row.measured, key).value_or(0) * kTicksPerMs);
}

const PublishedRow* stage_times_of(const PublishedRow& row, const std::vector<PublishedRow>& all) {
  const PublishedRow* nearest = nullptr;
  for (const PublishedRow& other : all) {
    if (!PublishedRow::number(other.measured, "stage_forward_ms") || !same_work(row, other)) continue;
    if (!nearest || distance(row, other) < distance(row, *nearest)) nearest = &other;
  }
  return nearest;
}

/// The value a relative score compares; nullopt where a row has none.
std::optional<double> predicted_of(const PublishedRow& row, const RowResult& result, const RelativeSet& set,
                                   const std::vector<PublishedRow>& all) {
  if (set.compares == RelativeSet::Compares::schedule) return schedule_seconds(row, all);
  return result.predicted && result.predicted_seconds() > 0 ? std::optional(result.predicted_seconds()) : std::nullopt;
}

double published_of(const PublishedRow& row, const RowResult& result) {
  return result.mapped ? result.published_seconds() : PublishedRow::number(row.measured, "iteration_s").value_or(0);
}

struct Member {
  std::size_t row = 0;
  double published = 0, predicted = 0;
  bool reference = false;
};

const Member* reference_of(const Member& member, const std::vector<Member>& members, const std::vector<PublishedRow>& rows) {
  const Member* nearest = nullptr;
  for (const Member& other : members) {
    if (!other.reference || !same_work(rows[member.row], rows[other.row])) continue;
    if (!nearest || distance(rows[member.row], rows[other.row]) < distance(rows[member.row], rows[nearest->row])) nearest = &other;
  }
  return nearest;
}

/// Of the ensemble's draws, the share in which the mean of the ratios' errors meets the target. Schedules aren't drawn.
std::optional<double> share_of_draws(const std::vector<std::pair<const Member*, const Member*>>& pairs,
                                     const std::vector<std::vector<double>>& draws, double target) {
  std::size_t count = pairs.empty() ? 0 : SIZE_MAX, meeting = 0;
  for (const auto& [member, reference] : pairs) count = std::min({count, draws[member->row].size(), draws[reference->row].size()});
  for (std::size_t d = 0; d < count; ++d) {
    double sum = 0;
    for (const auto& [member, reference] : pairs) {
      const double ratio = draws[member->row][d] / draws[reference->row][d];
      sum += std::abs(100 * (ratio * reference->published / member->published - 1));
    }
    meeting += sum / static_cast<double>(pairs.size()) <= target ? 1 : 0;
  }
  return count > 0 ? std::optional(static_cast<double>(meeting) / static_cast<double>(count)) : std::nullopt;
}

Score score_of(const RelativeSet& set, const std::vector<PublishedRow>& rows, const std::vector<RowResult>& results,
               const std::vector<std::vector<double>>& draws) {
  std::vector<Member> members;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!set.covers(rows[i], results[i].set)) continue;
    const double published = published_of(rows[i], results[i]);
    const std::optional<double> predicted = published > 0 ? predicted_of(rows[i], results[i], set, rows) : std::nullopt;
    if (predicted) members.push_back({i, published, *predicted, set.is_reference(rows[i])});
  }
  Score score;
  score.name = set.set;
  score.relative_to = set.why;
  score.rows = members.size();
  score.mapped = members.size();
  score.target_mean_pct = set.mean_abs_pct;
  score.residual = set.residual;
  std::vector<std::pair<const Member*, const Member*>> pairs;
  for (const Member& member : members) {
    const Member* reference = member.reference ? nullptr : reference_of(member, members, rows);
    if (!reference) continue;
    pairs.emplace_back(&member, reference);
    RelativeRow row{rows[member.row].id, rows[reference->row].id, member.published / reference->published,
                    member.predicted / reference->predicted, 0};
    row.error_pct = 100 * (row.predicted / row.published - 1);
    score.mean_abs_pct += std::abs(row.error_pct);
    score.bias_pct += row.error_pct;
    if (score.worst.empty() || std::abs(row.error_pct) > score.max_abs_pct) {
      score.max_abs_pct = std::abs(row.error_pct);
      score.worst = row.id;
    }
    score.relative_rows.push_back(std::move(row));
  }
  score.compared = pairs.size();
  if (pairs.empty()) return score;
  score.mean_abs_pct /= static_cast<double>(pairs.size());
  score.bias_pct /= static_cast<double>(pairs.size());
  if (set.compares == RelativeSet::Compares::step) score.share_of_draws = share_of_draws(pairs, draws, set.mean_abs_pct);
  return score;
}

}  // namespace

std::optional<double> schedule_seconds(const PublishedRow& row, const std::vector<PublishedRow>& all) {
  const PublishedRow* times = stage_times_of(row, all);
  const auto p = PublishedRow::integer(row.layout, "pp"), m = PublishedRow::integer(row.layout, "num_microbatches");
  if (!times || !p || !m) return std::nullopt;
  const std::int64_t forward = ticks(*times, "stage_forward_ms"), input = ticks(*times, "stage_backward_input_ms"),
                     weight = ticks(*times, "stage_backward_weight_ms"), travel = ticks(*times, "stage_p2p_ms");
  const std::string name = PublishedRow::text(row.layout, "schedule");
  if (name == "1f1b" || name == "1f1b-i") {
    const std::int64_t v = PublishedRow::integer(row.layout, "vpp").value_or(1);
    const ScheduleShape shape{v > 1 ? ScheduleKind::interleaved : ScheduleKind::one_f_one_b, *p, v, *m, *p};
    if (!schedule_violations(shape).empty()) return std::nullopt;
    const ScheduleTimes schedule(
        shape,
        [&](std::int64_t, const Step& step) { return (step.kind == Step::Kind::forward ? forward : input + weight) / v; },
        [&](std::int64_t, const Step&) { return travel; });
    return static_cast<double>(schedule.makespan()) / kTicksPerMs * 1e-3;
  }
  if (name != "zb-1p" && name != "zb-2p") return std::nullopt;
  // Of a token and layer a forward saves 34 h + 5 a s bytes, of which weight gradients need 32 h (arXiv:2401.10241, Table 1).
  const std::int64_t hidden = PublishedRow::integer(row.model, "hidden").value_or(0);
  const std::int64_t scores = PublishedRow::text(row.layout, "attention") == "flash"
                                  ? 0
                                  : 5 * PublishedRow::integer(row.model, "heads").value_or(0) *
                                        PublishedRow::integer(row.model, "seq").value_or(0);
  const std::int64_t saved = 34 * hidden + scores;
  const ZeroBubbleSchedule schedule = zero_bubble_schedule(*p, *m, {forward, input, weight, travel},
                                                           {saved, 32 * hidden, (name == "zb-1p" ? 1 : 2) * *p * saved});
  return static_cast<double>(schedule.span()) / kTicksPerMs * 1e-3;
}

std::vector<Score> relative_scores(const std::vector<PublishedRow>& rows, const std::vector<RowResult>& results,
                                   const std::vector<std::vector<double>>& draws, const SourceRules& rules) {
  std::vector<Score> scores;
  for (const RelativeSet& set : rules.relative) {
    Score score = score_of(set, rows, results, draws);
    if (score.compared > 0) scores.push_back(std::move(score));
  }
  return scores;
}

}  // namespace benchsuite
