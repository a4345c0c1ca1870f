// The parts of the bubble against schedules whose makespan is worked out by hand.
#include "suite/measure/bubble.h"

#include <gtest/gtest.h>

namespace benchsuite {
namespace {

constexpr ScheduleShape kTwoStages{.kind = ScheduleKind::one_f_one_b, .pipeline = 2, .chunks = 1, .micro_batches = 2};

/// One rank with passes of `forward` and `backward` picoseconds each, two micro-batches.
RoleMetrics role(Picoseconds forward, Picoseconds backward, Picoseconds end, Picoseconds travel = 0) {
  RoleMetrics metrics;
  metrics.passes.time = {{2 * forward, 2 * backward}};
  metrics.passes.end = end;
  metrics.passes.travel = 2 * travel;
  metrics.passes.sends = 2;
  metrics.ranks = 1;
  return metrics;
}

double seconds(const std::vector<BubblePart>& parts, const std::string& name) {
  for (const BubblePart& part : parts) {
    if (part.name == name) return part.seconds / kSecondsPerPicosecond;
  }
  ADD_FAILURE() << "no part " << name;
  return -1;
}

double sum(const std::vector<BubblePart>& parts) {
  double total = 0;
  for (const BubblePart& part : parts) total += part.seconds;
  return total / kSecondsPerPicosecond;
}

TEST(Bubble, EqualStagesAreTheFormulaAlone) {
  // F = 10, B = 20: 3 (F + B) = 90 long, 60 of work: each rank waits 30 = 1/2 of 60.
  const auto parts = bubble_parts(kTwoStages, {role(10, 20, 90), role(10, 20, 70)}, {0, 1}, 30e-12);
  EXPECT_DOUBLE_EQ(seconds(parts, "formula"), 30);
  for (const char* name : {"unequal stages", "transfers", "exposed transfers", "launches", "end of the step", "rest"})
    EXPECT_EQ(seconds(parts, name), 0) << name;
}

TEST(Bubble, AHeavyLastStageIsUnequalStages) {
  // Stage 1 takes 20 + 40. F0 ends at 10 and 20; stage 1 runs F 10-30, B 30-70, F 70-90, B 90-130; stage 0 runs B 70-90 and
  // 130-150. Work 60 and 120, so 90 on average, and ranks wait (90 + 30)/2 = 60, of which the formula explains 45.
  const auto parts = bubble_parts(kTwoStages, {role(10, 20, 150), role(20, 40, 130)}, {0, 1}, 60e-12);
  EXPECT_DOUBLE_EQ(seconds(parts, "formula"), 45);
  EXPECT_NEAR(seconds(parts, "unequal stages"), 15, 1e-9);
  EXPECT_NEAR(seconds(parts, "rest"), 0, 1e-9);
}

TEST(Bubble, TransfersDelayTheWayThereAndBack) {
  // F 0-10, travels 5, F 15-25, B 25-45, travels 5, stage 0: B 50-70; stage 1: F 45-55 (its input is there), B 55-75, travels,
  // stage 0: B 80-100. 100 long, 10 more than without transfers.
  const auto parts = bubble_parts(kTwoStages, {role(10, 20, 100, 5), role(10, 20, 75, 5)}, {0, 1}, 40e-12);
  EXPECT_DOUBLE_EQ(seconds(parts, "formula"), 30);
  EXPECT_NEAR(seconds(parts, "transfers"), 10, 1e-9);
  EXPECT_NEAR(seconds(parts, "rest"), 0, 1e-9);
}

TEST(Bubble, WaitingAfterTheLastPassOfAllIsTheEndOfTheStep) {
  RoleMetrics first = role(10, 20, 90), last = role(10, 20, 70);
  first.passes.idle_after = {{Category::bubble, -1, -1, 100, 108}};
  last.passes.idle_after = {{Category::bubble, -1, -1, 70, 94}};  // 20 of the pipeline's own, 4 after the end of all
  const auto parts = bubble_parts(kTwoStages, {first, last}, {0, 1}, 36e-12);
  EXPECT_DOUBLE_EQ(seconds(parts, "end of the step"), (8 + 4) / 2.0);
  EXPECT_NEAR(seconds(parts, "rest"), 0, 1e-9);
}

TEST(Bubble, TransfersThatComputeWaitsForAreTakenOff) {
  RoleMetrics first = role(10, 20, 90), last = role(10, 20, 70);
  first.ranks = 3;
  first.passes.exposed = 4;
  const auto parts = bubble_parts(kTwoStages, {first, last}, {0, 1}, 27e-12);
  EXPECT_DOUBLE_EQ(seconds(parts, "exposed transfers"), -3);
  EXPECT_NEAR(seconds(parts, "rest"), 0, 1e-9);
}

TEST(Bubble, LaunchesAreAPartOfTheirOwn) {
  RoleMetrics first = role(10, 20, 97), last = role(10, 20, 77);
  first.passes.launches = 6;
  last.passes.launches = 8;
  last.ranks = 3;
  const auto parts = bubble_parts(kTwoStages, {first, last}, {0, 1}, 37.5e-12);
  EXPECT_DOUBLE_EQ(seconds(parts, "launches"), (6 + 3 * 8) / 4.0) << "mean over the ranks";
  EXPECT_NEAR(seconds(parts, "rest"), 0, 1e-9);
}

TEST(Bubble, PartsAddUpToTheWaitingTimeWhateverItIs) {
  const auto parts = bubble_parts(kTwoStages, {role(11, 23, 150, 3), role(19, 37, 130, 1)}, {0, 1}, 123e-12);
  EXPECT_NEAR(sum(parts), 123, 1e-9);
  EXPECT_EQ(parts.back().name, "rest");
}

TEST(Bubble, AStageIsTheMeanOfItsRanks) {
  // Three ranks with F 10 and one with F 14 on stage 0 are a stage with F 11.
  RoleMetrics three = role(10, 20, 90), one = role(14, 20, 90);
  three.ranks = 3;
  RoleMetrics last = role(11, 20, 70);
  last.ranks = 4;
  const auto parts = bubble_parts(kTwoStages, {three, one, last}, {0, 0, 1}, 31e-12);
  EXPECT_NEAR(seconds(parts, "formula"), 31, 1e-9);
  EXPECT_NEAR(seconds(parts, "unequal stages"), 0, 1e-9);
}

TEST(Bubble, OneStageThatNeverWaitsHasNone) {
  const ScheduleShape one{.kind = ScheduleKind::one_f_one_b, .pipeline = 1, .chunks = 1, .micro_batches = 2};
  EXPECT_TRUE(bubble_parts(one, {role(10, 20, 60)}, {0}, 0).empty());
}

}  // namespace
}  // namespace benchsuite
