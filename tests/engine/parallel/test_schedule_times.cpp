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

// Qi et al. 2024 (arXiv:2401.10241), Tables 5 and 6: the bubble rate of 1F1B from profiled times of a stage's passes (here in
// microseconds, the two backward passes together) and of a transfer.
TEST(ScheduleTimes, PublishedBubbleRatesOf1F1B) {
  struct Row {
    std::int64_t p, m, forward, backward, travel;
    double rate;
  };
  for (const Row& row : {Row{8, 24, 29718, 49371, 527, 0.2347}, Row{8, 32, 29802, 48958, 577, 0.1898},
                         Row{8, 64, 29935, 49009, 535, 0.1091}, Row{16, 48, 11347, 19380, 377, 0.2552},
                         Row{16, 64, 11307, 19355, 379, 0.2082}, Row{16, 128, 11325, 19417, 378, 0.1251},
                         Row{32, 96, 10419, 17922, 408, 0.2646}, Row{32, 128, 10408, 17907, 408, 0.2168}}) {
    const ScheduleTimes times(
        {ScheduleKind::one_f_one_b, row.p, 1, row.m, 1},
        [&](std::int64_t, const Step& step) { return step.kind == Step::Kind::forward ? row.forward : row.backward; },
        [&](std::int64_t, const Step&) { return row.travel; });
    const double work = static_cast<double>(row.m * (row.forward + row.backward));
    EXPECT_NEAR(1 - work / static_cast<double>(times.makespan()), row.rate, 0.00006) << row.p << " stages, m " << row.m;
  }
}

}  // namespace
}  // namespace benchsuite
