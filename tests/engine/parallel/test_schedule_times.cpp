#include "engine/parallel/schedule_times.h"

#include <gtest/gtest.h>

namespace benchsuite {
namespace {

ScheduleShape interleaved(std::int64_t p, std::int64_t m, std::int64_t v, std::int64_t g) {
  return {ScheduleKind::interleaved, p, v, m, g};
}

// With equal stages the step lasts m v (F + B) of a chunk and a bubble of (p - 1)(F + B) chunk times (Narayanan et al. 2021,
// section 2.2); here a chunk's forward is 1 and its backward 2.
TEST(ScheduleTimes, MakespanIsTheClosedFormula) {
  for (const ScheduleShape& shape :
       {ScheduleShape{ScheduleKind::one_f_one_b, 4, 1, 8, 1}, ScheduleShape{ScheduleKind::one_f_one_b, 8, 1, 16, 1},
        ScheduleShape{ScheduleKind::gpipe, 4, 1, 6, 1}, interleaved(2, 4, 2, 2), interleaved(4, 8, 2, 4),
        interleaved(4, 10, 2, 6), interleaved(8, 64, 4, 8)}) {
    EXPECT_EQ(ScheduleTimes(shape).makespan(), 3 * (shape.micro_batches * shape.chunks + shape.pipeline - 1));
  }
}

TEST(ScheduleTimes, ResultsGoToTheNeighbourAndWrapIntoTheNextChunk) {
  const ScheduleTimes times(interleaved(2, 4, 2, 2));
  const auto next = times.consumer_of(1, {Step::Kind::forward, 3, 0});
  EXPECT_EQ(next.rank, 0);
  EXPECT_EQ(next.step, (Step{Step::Kind::forward, 3, 1}));
  EXPECT_EQ(times.consumer_of(1, {Step::Kind::forward, 3, 1}).rank, -1);
  const auto back = times.consumer_of(0, {Step::Kind::backward, 3, 1});
  EXPECT_EQ(back.rank, 1);
  EXPECT_EQ(back.step, (Step{Step::Kind::backward, 3, 0}));
  EXPECT_EQ(times.consumer_of(0, {Step::Kind::backward, 3, 0}).rank, -1);
}

TEST(ScheduleTimes, AConsumerStartsAfterItsInputEnds) {
  const ScheduleShape shape = interleaved(4, 9, 3, 5);
  const ScheduleTimes times(shape);
  for (std::int64_t rank = 0; rank < shape.pipeline; ++rank) {
    for (std::size_t k = 0; k < times.steps(rank).size(); ++k) {
      const auto consumer = times.consumer_of(rank, times.steps(rank)[k]);
      if (consumer.rank < 0) continue;
      const std::size_t index = times.index_of(consumer.rank, consumer.step);
      ASSERT_EQ(times.steps(consumer.rank)[index], consumer.step);
      EXPECT_GE(times.at(consumer.rank, index).start, times.at(rank, k).end);
    }
  }
}

}  // namespace
}  // namespace benchsuite
