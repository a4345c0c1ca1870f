// The parts of the bubble against schedules whose makespan is worked out by hand.
#include "suite/measure/bubble.h"

#include <gtest/gtest.h>

namespace benchsuite {
namespace {

constexpr ScheduleShape kTwoStages{.kind = ScheduleKind::one_f_one_b, .pipeline = 2, .chunks = 1, .micro_batches = 2};

/// One rank with passes of `forward` and `backward` picoseconds each, two micro-batches.
RoleMetrics role(Picoseconds forward, Picoseconds backward, Picoseconds end, Picoseconds travel = 0) {
  RoleMetrics metrics;
  metrics.passes.time = {{std::vector<Picoseconds>{forward, forward}, std::vector<Picoseconds>{backward, backward}}};
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
  for (const char* name : {"unequal stages", "varying passes", "transfers", "launches", "other work", "end of the step", "rest"})
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

TEST(Bubble, LaunchesDelayTheEnd) {
  // As EqualStages, but the host was late by 8 on each rank, and the last pass ended at 98.
  RoleMetrics first = role(10, 20, 98), last = role(10, 20, 78);
  first.passes.launches = last.passes.launches = 8;
  const auto parts = bubble_parts(kTwoStages, {first, last}, {0, 1}, 38e-12);
  EXPECT_DOUBLE_EQ(seconds(parts, "launches"), 8);
  EXPECT_NEAR(seconds(parts, "rest"), 0, 1e-9);
}

TEST(Bubble, WorkBesideThePassesIsTakenOff) {
  // Each rank spends 4 of the 30 it would wait in a reduction.
  const auto parts = bubble_parts(kTwoStages, {role(10, 20, 90), role(10, 20, 70)}, {0, 1}, 26e-12);
  EXPECT_DOUBLE_EQ(seconds(parts, "other work"), -4);
  EXPECT_NEAR(seconds(parts, "rest"), 0, 1e-9);
}

TEST(Bubble, PassesThatDifferAmongMicroBatchesDelayOthers) {
  // Stage 0 takes 10 and 20 for its forwards, stage 1 always 15; backwards 30. F 0-10, 10-30; stage 1: F 10-25, B 25-55,
  // F 55-70, B 70-100; stage 0: B 55-85, 100-130. With 15 for both forwards of stage 0: F 15-30, B 30-60, F 60-75, B 75-105, and
  // stage 0 B 105-135.
  RoleMetrics first = role(15, 30, 130), last = role(15, 30, 100);
  first.passes.time[0][0] = {10, 20};
  const auto parts = bubble_parts(kTwoStages, {first, last}, {0, 1}, 40e-12);
  EXPECT_DOUBLE_EQ(seconds(parts, "formula"), 45);
  EXPECT_NEAR(seconds(parts, "varying passes"), -5, 1e-9);
  EXPECT_NEAR(seconds(parts, "rest"), 0, 1e-9);
}

TEST(Bubble, WhatEndsLaterThanTheScheduleIsRest) {
  const auto parts = bubble_parts(kTwoStages, {role(10, 20, 97), role(10, 20, 70)}, {0, 1}, 37e-12);
  EXPECT_DOUBLE_EQ(seconds(parts, "rest"), 7);
  EXPECT_NEAR(sum(parts), 37, 1e-9);
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

TEST(Bubble, OneStageHasNone) {
  const ScheduleShape one{.kind = ScheduleKind::one_f_one_b, .pipeline = 1, .chunks = 1, .micro_batches = 2};
  EXPECT_TRUE(bubble_parts(one, {role(10, 20, 60)}, {0}, 0).empty());
  EXPECT_TRUE(bubble_parts(one, {role(10, 20, 60)}, {0}, 5e-12).empty()) << "it may wait, but for no other stage";
}

}  // namespace
}  // namespace benchsuite
