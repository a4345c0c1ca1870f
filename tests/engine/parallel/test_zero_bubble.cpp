#include "engine/parallel/zero_bubble.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "engine/core/error.h"

namespace benchsuite {
namespace {

// Bytes a token of a layer saves without fused attention, 34 h + 5 a s (Korthikanti et al. 2022, equation 2), of which the
// weight gradients need 32 h (Qi et al. 2024, Table 1).
ZeroBubbleMemory memory_of(std::int64_t hidden, std::int64_t heads, std::int64_t sequence, std::int64_t forwards) {
  const std::int64_t saved = 34 * hidden + 5 * heads * sequence;
  return {saved, 32 * hidden, forwards * saved};
}

struct PublishedRate {
  std::int64_t pipeline, micro_batches;
  ZeroBubbleTimes times;  // microseconds, Table 6
  std::int64_t hidden, heads;
  double one, two;  // bubble rates of ZB-1p and ZB-2p, Table 5; 0: not compared
};

// Qi et al. 2024, Tables 5 and 6: the share of the step that is no compute, by the search, from the profiled times.
TEST(ZeroBubble, BubbleRatesAreThePublishedOnes) {
  const PublishedRate rows[] = {{8, 64, {18546, 18097, 9321, 762}, 2304, 24, 0, 0.0026},
                                {8, 24, {29718, 29444, 19927, 527}, 4096, 32, 0.1323, 0.0029},
                                {8, 32, {29802, 29428, 19530, 577}, 4096, 32, 0, 0.0022},
                                {8, 64, {29935, 29621, 19388, 535}, 4096, 32, 0.0554, 0.0010},
                                {16, 48, {11347, 11248, 8132, 377}, 5120, 40, 0.1397, 0},
                                {16, 128, {11325, 11308, 8109, 378}, 5120, 40, 0.0576, 0.0028},
                                {32, 96, {10419, 10207, 7715, 408}, 6144, 48, 0.1421, 0.0038},
                                {32, 128, {10408, 10204, 7703, 408}, 6144, 48, 0.1106, 0}};
  for (const PublishedRate& row : rows) {
    const std::int64_t work =
        row.micro_batches * (row.times.forward + row.times.input_gradient + row.times.weight_gradient);
    const auto rate = [&](std::int64_t forwards) {
      const ZeroBubbleSchedule schedule =
          zero_bubble_schedule(row.pipeline, row.micro_batches, row.times, memory_of(row.hidden, row.heads, 1024, forwards));
      return 1 - static_cast<double>(work) / static_cast<double>(schedule.span());
    };
    if (row.one > 0) {
      EXPECT_NEAR(rate(row.pipeline), row.one, 0.00006) << row.hidden << " m " << row.micro_batches;
    }
    if (row.two > 0) {
      EXPECT_NEAR(rate(2 * row.pipeline), row.two, 0.00006) << row.hidden << " m " << row.micro_batches;
    }
  }
}

// Section 2.3 and Table 2: with equal passes, (p - 1)(F + B - W) of bubble in 1F1B's memory, none in (2 p - 1) of it.
TEST(ZeroBubble, EqualPassesLeaveTheBubbleOfTheFormula) {
  for (const std::int64_t p : {2, 4, 8}) {
    const std::int64_t m = 4 * p;
    EXPECT_EQ(zero_bubble_schedule(p, m, {1, 1, 1, 0}, {1, 1, p}).span(), 3 * m + p - 1);
    EXPECT_EQ(zero_bubble_schedule(p, m, {1, 1, 1, 0}, {1, 1, 2 * p - 1}).span(), 3 * m);
  }
}

TEST(ZeroBubble, PassesWaitForTheirInputsAndKeepTheLimit) {
  const ZeroBubbleTimes times{7, 9, 4, 2};
  const std::size_t p = 5, m = 13;
  for (const std::int64_t limit : {5, 7, 10}) {
    const ZeroBubbleMemory memory{10, 6, 10 * limit};
    const ZeroBubbleSchedule schedule = zero_bubble_schedule(p, m, times, memory);
    ASSERT_EQ(schedule.ranks.size(), p);
    std::vector<std::vector<std::int64_t>> ends[3];
    for (auto& kind : ends) kind.assign(p, std::vector<std::int64_t>(m, -1));
    for (std::size_t rank = 0; rank < p; ++rank) {
      std::int64_t clock = 0, held = 0;
      for (const ZeroBubblePass& pass : schedule.ranks[rank]) {
        EXPECT_GE(pass.start, clock);
        clock = pass.end;
        auto& end = ends[static_cast<int>(pass.kind)][rank][static_cast<std::size_t>(pass.micro_batch)];
        EXPECT_EQ(end, -1);
        end = pass.end;
        held += pass.kind == ZeroBubblePass::Kind::forward ? 10 : pass.kind == ZeroBubblePass::Kind::input_gradient ? -4 : -6;
        EXPECT_LE(held, memory.limit);
      }
      EXPECT_EQ(schedule.ranks[rank].size(), 3 * m);
      EXPECT_EQ(held, 0);
    }
    for (std::size_t rank = 0; rank < p; ++rank) {
      for (std::size_t i = 0; i < m; ++i) {
        EXPECT_GE(ends[1][rank][i] - times.input_gradient, ends[0][rank][i]);
        EXPECT_GE(ends[2][rank][i] - times.weight_gradient, ends[1][rank][i]);
        if (rank == 0) continue;
        EXPECT_GE(ends[0][rank][i] - times.forward, ends[0][rank - 1][i] + times.travel);
        EXPECT_GE(ends[1][rank - 1][i] - times.input_gradient, ends[1][rank][i] + times.travel);
      }
    }
  }
}

TEST(ZeroBubble, ALimitBelowOneForwardIsRefused) {
  EXPECT_THROW(zero_bubble_schedule(4, 8, {1, 1, 1, 0}, {10, 6, 9}), Error);
}

}  // namespace
}  // namespace benchsuite
