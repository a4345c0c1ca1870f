#include "engine/parallel/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <sstream>

namespace benchsuite {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

constexpr ScheduleShape one_f_one_b(std::int64_t p, std::int64_t m) { return {ScheduleKind::one_f_one_b, p, 1, m, 1}; }
constexpr ScheduleShape interleaved(std::int64_t p, std::int64_t m, std::int64_t v, std::int64_t g) {
  return {ScheduleKind::interleaved, p, v, m, g};
}

std::string text_of(const std::vector<Step>& steps, bool with_chunk) {
  std::ostringstream out;
  for (const Step& step : steps) {
    if (out.tellp() > 0) out << ' ';
    out << (step.kind == Step::Kind::forward ? 'F' : 'B') << step.micro_batch;
    if (with_chunk) out << '.' << step.chunk;
  }
  return out.str();
}

/// What a schedule takes when nothing but passes costs time: an evaluator of its own, by relaxation.
struct Evaluated {
  double makespan = 0;
  double bubble = 0;  ///< idle time of each rank (equal on all: equal work)
  bool complete = false;
};

Evaluated evaluate(const ScheduleShape& shape, double forward, double backward) {
  const auto [kind, p, v, m, g] = shape;
  const double unset = -1;
  // End of pass [direction][micro-batch][global stage], global stage = chunk p + rank.
  std::vector<double> ends[2];
  for (auto& of : ends) of.assign(static_cast<std::size_t>(m * v * p), unset);
  const auto end_of = [&, p = p, v = v](int direction, std::int64_t i, std::int64_t stage) -> double& {
    return ends[direction][static_cast<std::size_t>(i * v * p + stage)];
  };
  std::vector<std::vector<Step>> orders;
  for (std::int64_t rank = 0; rank < p; ++rank) orders.push_back(schedule(shape, rank));
  std::vector<std::size_t> next(static_cast<std::size_t>(p), 0);
  std::vector<double> clock(static_cast<std::size_t>(p), 0);

  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t rank = 0; rank < next.size(); ++rank) {
      while (next[rank] < orders[rank].size()) {
        const Step step = orders[rank][next[rank]];
        const std::int64_t stage = step.chunk * p + static_cast<std::int64_t>(rank);
        const bool is_forward = step.kind == Step::Kind::forward;
        double ready = 0;
        if (is_forward && stage > 0) ready = end_of(0, step.micro_batch, stage - 1);
        if (!is_forward) {
          ready = stage == p * v - 1 ? end_of(0, step.micro_batch, stage) : end_of(1, step.micro_batch, stage + 1);
          if (end_of(0, step.micro_batch, stage) == unset) ready = unset;
        }
        if (ready == unset) break;
        const double cost = (is_forward ? forward : backward) / static_cast<double>(v);
        clock[rank] = std::max(clock[rank], ready) + cost;
        end_of(is_forward ? 0 : 1, step.micro_batch, stage) = clock[rank];
        ++next[rank];
        moved = true;
      }
    }
  }
  Evaluated result;
  result.complete = true;
  for (std::size_t rank = 0; rank < next.size(); ++rank) result.complete &= next[rank] == orders[rank].size();
  result.makespan = *std::max_element(clock.begin(), clock.end());
  result.bubble = result.makespan - static_cast<double>(m) * (forward + backward);
  return result;
}

/// Forwards before the first backward and largest number awaiting their backward, counted in the order itself.
std::pair<std::int64_t, std::int64_t> counted(const std::vector<Step>& steps) {
  std::int64_t before = 0, waiting = 0, peak = 0;
  bool backward_seen = false;
  for (const Step& step : steps) {
    if (step.kind == Step::Kind::forward) {
      before += backward_seen ? 0 : 1;
      peak = std::max(peak, ++waiting);
    } else {
      backward_seen = true;
      --waiting;
    }
  }
  return {before, peak};
}

/// Every pass of every chunk once, every backward after its forward.
void expect_complete(const std::vector<Step>& steps, const ScheduleShape& shape) {
  std::vector<int> state(static_cast<std::size_t>(shape.micro_batches * shape.chunks), 0);
  for (const Step& step : steps) {
    int& passes = state.at(static_cast<std::size_t>(step.micro_batch * shape.chunks + step.chunk));
    EXPECT_EQ(passes, step.kind == Step::Kind::forward ? 0 : 1);
    ++passes;
  }
  EXPECT_TRUE(std::all_of(state.begin(), state.end(), [](int passes) { return passes == 2; }));
}

struct Golden {
  ScheduleShape shape;
  std::vector<std::int64_t> warmup, peak;
  double makespan, bubble;
};

// F = 1, B = 2 for a full stage, a chunk costs 1/v of it, communication nothing.
const Golden kGolden[] = {
    {one_f_one_b(4, 8), {3, 2, 1, 0}, {4, 3, 2, 1}, 33, 9},
    {one_f_one_b(4, 2), {2, 2, 1, 0}, {2, 2, 2, 1}, 15, 9},
    {one_f_one_b(8, 16), {7, 6, 5, 4, 3, 2, 1, 0}, {8, 7, 6, 5, 4, 3, 2, 1}, 69, 21},
    {interleaved(2, 4, 2, 2), {4, 2}, {5, 3}, 13.5, 1.5},
    {interleaved(4, 8, 2, 4), {10, 8, 6, 4}, {11, 9, 7, 5}, 28.5, 4.5},
    {interleaved(4, 4, 2, 4), {8, 8, 6, 4}, {8, 8, 7, 5}, 16.5, 4.5},
    {interleaved(4, 8, 4, 4), {18, 16, 14, 12}, {19, 17, 15, 13}, 26.25, 2.25},
    {interleaved(4, 12, 2, 6), {12, 10, 8, 6}, {13, 11, 9, 7}, 40.5, 4.5},
    {interleaved(2, 5, 2, 3), {5, 3}, {6, 4}, 16.5, 1.5},
    {interleaved(4, 10, 2, 6), {12, 10, 8, 6}, {13, 11, 9, 7}, 34.5, 4.5},
    {interleaved(8, 64, 4, 8), {38, 36, 34, 32, 30, 28, 26, 24}, {39, 37, 35, 33, 31, 29, 27, 25}, 197.25, 5.25},
};

TEST(Schedule, GoldenWarmupPeakMakespanAndBubble) {
  for (const Golden& golden : kGolden) {
    SCOPED_TRACE(::testing::Message() << "p " << golden.shape.pipeline << " m " << golden.shape.micro_batches << " v "
                                      << golden.shape.chunks << " g " << golden.shape.group);
    std::vector<std::int64_t> warmup, peak;
    for (std::int64_t rank = 0; rank < golden.shape.pipeline; ++rank) {
      warmup.push_back(warmup_forwards(golden.shape, rank));
      peak.push_back(peak_in_flight(golden.shape, rank));
      const std::vector<Step> steps = schedule(golden.shape, rank);
      expect_complete(steps, golden.shape);
      const auto [before, waiting] = counted(steps);
      const std::int64_t passes = golden.shape.micro_batches * golden.shape.chunks;
      EXPECT_EQ(before, std::min(golden.warmup[static_cast<std::size_t>(rank)] + 1, passes));
      EXPECT_EQ(waiting, golden.peak[static_cast<std::size_t>(rank)]);
    }
    EXPECT_THAT(warmup, ElementsAreArray(golden.warmup));
    EXPECT_THAT(peak, ElementsAreArray(golden.peak));
    const Evaluated evaluated = evaluate(golden.shape, 1, 2);
    EXPECT_TRUE(evaluated.complete);
    EXPECT_DOUBLE_EQ(evaluated.makespan, golden.makespan);
    EXPECT_DOUBLE_EQ(evaluated.bubble, golden.bubble);
  }
}

TEST(Schedule, GoldenOrders) {
  EXPECT_EQ(text_of(schedule(interleaved(2, 4, 2, 2), 0), true),
            "F0.0 F1.0 F0.1 F1.1 F2.0 B0.1 F3.0 B1.1 F2.1 B0.0 F3.1 B1.0 B2.1 B3.1 B2.0 B3.0");
  EXPECT_EQ(text_of(schedule(interleaved(2, 4, 2, 2), 1), true),
            "F0.0 F1.0 F0.1 B0.1 F1.1 B1.1 F2.0 B0.0 F3.0 B1.0 F2.1 B2.1 F3.1 B3.1 B2.0 B3.0");
  EXPECT_EQ(text_of(schedule(interleaved(4, 8, 2, 4), 0), true),
            "F0.0 F1.0 F2.0 F3.0 F0.1 F1.1 F2.1 F3.1 F4.0 F5.0 F6.0 B0.1 F7.0 B1.1 F4.1 B2.1 F5.1 B3.1 F6.1 B0.0 F7.1 "
            "B1.0 B2.0 B3.0 B4.1 B5.1 B6.1 B7.1 B4.0 B5.0 B6.0 B7.0");
  EXPECT_EQ(text_of(schedule(one_f_one_b(4, 8), 1), false), "F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 F6 B4 F7 B5 B6 B7");
}

TEST(Schedule, GpipeRunsAllForwardsFirstAndBackwardInTheSameOrder) {
  const ScheduleShape shape{ScheduleKind::gpipe, 4, 1, 3, 1};
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(text_of(schedule(shape, rank), false), "F0 F1 F2 B0 B1 B2");
    EXPECT_EQ(warmup_forwards(shape, rank), 3);
    EXPECT_EQ(peak_in_flight(shape, rank), 3);
  }
  EXPECT_DOUBLE_EQ(evaluate(shape, 1, 2).bubble, 9);  // (p - 1) (F + B)
}

TEST(Schedule, WithoutAPipelineEachBackwardFollowsItsForward) {
  EXPECT_EQ(text_of(schedule(one_f_one_b(1, 3), 0), false), "F0 B0 F1 B1 F2 B2");
  EXPECT_DOUBLE_EQ(evaluate(one_f_one_b(1, 3), 1, 2).bubble, 0);
}

TEST(Schedule, BubbleIsTheFormulaForEveryPlainShape) {
  for (const ScheduleKind kind : {ScheduleKind::gpipe, ScheduleKind::one_f_one_b}) {
    for (std::int64_t p = 1; p <= 6; ++p) {
      for (std::int64_t m = 1; m <= 12; ++m) {
        const ScheduleShape shape{kind, p, 1, m, 1};
        const Evaluated evaluated = evaluate(shape, 1, 2);
        ASSERT_TRUE(evaluated.complete);
        EXPECT_DOUBLE_EQ(evaluated.bubble, 3.0 * static_cast<double>(p - 1)) << "p " << p << " m " << m;
      }
    }
  }
}

TEST(Schedule, BubbleIsTheFormulaForEveryInterleavedShapeThatIsAccepted) {
  int accepted = 0;
  for (std::int64_t p = 2; p <= 5; ++p) {
    for (std::int64_t m = 1; m <= 13; ++m) {
      for (std::int64_t v = 2; v <= 4; ++v) {
        for (std::int64_t g = 1; g <= m + 1; ++g) {
          const ScheduleShape shape = interleaved(p, m, v, g);
          if (!schedule_violations(shape).empty()) continue;
          ++accepted;
          const Evaluated evaluated = evaluate(shape, 1, 2);
          ASSERT_TRUE(evaluated.complete) << "p " << p << " m " << m << " v " << v << " g " << g;
          EXPECT_NEAR(evaluated.bubble, 3.0 * static_cast<double>(p - 1) / static_cast<double>(v), 1e-9)
              << "p " << p << " m " << m << " v " << v << " g " << g;
        }
      }
    }
  }
  EXPECT_GT(accepted, 300);
}

TEST(Schedule, BubbleFractions) {
  // Of 33 units 9 are bubble; the ideal time is 24.
  EXPECT_DOUBLE_EQ(bubble_over_ideal(one_f_one_b(4, 8)), 9.0 / 24);
  EXPECT_DOUBLE_EQ(bubble_over_step(one_f_one_b(4, 8)), 9.0 / 33);
  EXPECT_DOUBLE_EQ(bubble_over_ideal(interleaved(4, 8, 2, 4)), 4.5 / 24);
  EXPECT_DOUBLE_EQ(bubble_over_step(interleaved(4, 8, 2, 4)), 4.5 / 28.5);
  EXPECT_EQ(bubble_over_ideal(one_f_one_b(1, 8)), 0);
}

TEST(Schedule, LongStepsStayLinear) {
  // 2 m v entries and no more; a quadratic builder would not end in any reasonable time.
  const auto steps = schedule(interleaved(8, 400'000, 4, 8), 0);
  EXPECT_EQ(steps.size(), 2u * 400'000 * 4);
}

// Rules -------------------------------------------------------------------------------------------------------------

std::vector<std::string> lines(const ScheduleShape& shape) {
  std::vector<std::string> texts;
  for (const Violation& violation : schedule_violations(shape)) texts.push_back(to_string(violation));
  return texts;
}

TEST(ScheduleRules, AcceptsTheWholeRuleAndNothingElse) {
  for (std::int64_t p = 2; p <= 4; ++p) {
    for (std::int64_t m = 1; m <= 12; ++m) {
      for (std::int64_t g = 1; g <= 14; ++g) {
        const bool allowed = p <= g && g <= m && (m % g == 0 || m % g >= p);
        EXPECT_EQ(schedule_violations(interleaved(p, m, 2, g)).empty(), allowed)
            << "p " << p << " m " << m << " g " << g;
      }
    }
  }
}

TEST(ScheduleRules, TwoStagesMayInterleave) { EXPECT_THAT(lines(interleaved(2, 2, 2, 2)), ElementsAre()); }

TEST(ScheduleRules, ChunksNeedTheInterleavedSchedule) {
  EXPECT_THAT(lines({ScheduleKind::one_f_one_b, 4, 2, 8, 4}),
              ElementsAre("layout.vpp = 2: only the interleaved schedule has several chunks per stage; set "
                          "layout.schedule to \"interleaved\" or layout.vpp to 1"));
  EXPECT_EQ(lines({ScheduleKind::gpipe, 4, 2, 8, 4}).size(), 1u);
}

TEST(ScheduleRules, TheInterleavedScheduleNeedsChunks) {
  EXPECT_THAT(
      lines(interleaved(4, 8, 1, 4)),
      ElementsAre("layout.vpp = 1: the interleaved schedule needs at least two chunks per stage; set layout.vpp "
                  "to 2 or more, or layout.schedule to \"1f1b\""));
}

TEST(ScheduleRules, ChunksNeedAPipeline) {
  EXPECT_THAT(
      lines(interleaved(1, 8, 2, 1)),
      ElementsAre("layout.vpp = 2: several chunks per stage need a pipeline, and layout.pp is 1; set layout.vpp "
                  "to 1 or layout.pp to 2 or more"));
}

TEST(ScheduleRules, TooFewMicroBatches) {
  EXPECT_THAT(lines(interleaved(4, 3, 2, 4)),
              ElementsAre("layout.global_batch = 3: gives 3 micro-batches a step, too few for 4 pipeline stages when "
                          "interleaved; give every replica at least 4 micro-batches, or lower layout.pp"));
}

TEST(ScheduleRules, Groups) {
  EXPECT_THAT(lines(interleaved(4, 8, 2, 3)),
              ElementsAre("layout.microbatch_group = 3: smaller than the 4 pipeline stages; set it to 4"));
  EXPECT_THAT(lines(interleaved(4, 8, 2, 9)),
              ElementsAre("layout.microbatch_group = 9: larger than the 8 micro-batches of a step; set it to 4"));
  EXPECT_THAT(lines(interleaved(4, 6, 2, 4)),
              ElementsAre("layout.microbatch_group = 4: the last group of the 6 micro-batches would have 2, fewer than "
                          "the 4 pipeline stages; set it to 6, or choose layout.global_batch so that every replica has "
                          "a multiple of 4"));
}

TEST(ScheduleRules, Positive) {
  EXPECT_THAT(
      lines({ScheduleKind::one_f_one_b, 0, 0, 0, 1}),
      ElementsAre("layout.pp = 0: must be at least 1; use 1 for no pipeline",
                  "layout.vpp = 0: must be at least 1; use 1 for one model chunk per stage",
                  "layout.global_batch = 0: leaves no micro-batch; give every replica at least one micro-batch"));
}

TEST(ScheduleRules, SeveralAtOnce) { EXPECT_EQ(lines(interleaved(1, 8, 2, 9)).size(), 2u); }

TEST(ScheduleRules, ScheduleThrowsThem) {
  try {
    schedule(interleaved(4, 3, 2, 4), 0);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::config);
    EXPECT_THAT(error.what(), HasSubstr("layout.global_batch"));
  }
  EXPECT_THROW(schedule(one_f_one_b(4, 8), 4), Error);
  EXPECT_THROW(schedule(one_f_one_b(4, 8), -1), Error);
}

}  // namespace
}  // namespace benchsuite
