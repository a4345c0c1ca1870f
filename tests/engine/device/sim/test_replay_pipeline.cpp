// Pipelines built by hand: with free communication their makespans are known in closed form.
#include <gtest/gtest.h>

#include "tests/engine/device/sim/toy.h"

namespace benchsuite {
namespace {

using toy::Builder;

constexpr Picoseconds kUnit = 48;  // a full-stage forward; divisible by every chunk count below

struct Pass {
  bool forward = true;
  int micro_batch = 0, chunk = 0;
};

/// Warm-up, one forward and one backward in turn, cool-down; chunks take turns in groups of g micro-batches.
std::vector<Pass> passes(int p, int m, int v, int g, int rank) {
  std::vector<Pass> forward;
  for (int first = 0; first < m; first += g) {
    for (int c = 0; c < v; ++c) {
      for (int i = first; i < std::min(first + g, m); ++i) forward.push_back({true, i, c});
    }
  }
  const int total = m * v;
  const int warmup = std::min(v == 1 ? p - rank - 1 : 2 * (p - rank - 1) + (v - 1) * g, total);
  const auto backward = [&](int k) {
    const Pass& f = forward[static_cast<std::size_t>(k)];
    return Pass{false, f.micro_batch, v - 1 - f.chunk};
  };
  std::vector<Pass> order(forward.begin(), forward.begin() + warmup);
  for (int k = 0; k + warmup < total; ++k) {
    order.push_back(forward[static_cast<std::size_t>(k + warmup)]);
    order.push_back(backward(k));
  }
  for (int k = total - warmup; k < total; ++k) order.push_back(backward(k));
  return order;
}

Builder stage(int p, int m, int v, int g, int rank) {
  Builder out(rank);
  const int next = (rank + 1) % p, previous = (rank + p - 1) % p;
  for (const Pass& pass : passes(p, m, v, g, rank)) {
    const int global = pass.chunk * p + rank, last = p * v - 1;
    std::vector<OpId> waits;
    const toy::At at{pass.forward ? Phase::forward : Phase::backward, pass.micro_batch,
                     static_cast<std::int16_t>(pass.chunk)};
    const GroupKind kind = pass.forward ? GroupKind::pipeline_forward : GroupKind::pipeline_backward;
    const int source = pass.forward ? previous : next, target = pass.forward ? next : previous;
    if (global != (pass.forward ? 0 : last)) {
      waits.push_back(out.transfer(
          OpKind::receive, pass.forward ? StreamKind::pipeline_receive_previous : StreamKind::pipeline_receive_next,
          {kind, {source, rank}}, {0}, {}, at));
    }
    const OpId work = out.compute((pass.forward ? kUnit : 2 * kUnit) / v, waits, at);
    if (global != (pass.forward ? last : 0)) {
      out.transfer(OpKind::send, pass.forward ? StreamKind::pipeline_send_next : StreamKind::pipeline_send_previous,
                   {kind, {rank, target}}, {0}, {work}, at);
    }
  }
  return out;
}

struct Golden {
  int p, m, v, g;
  double makespan;  // in forward times of a full stage; backward takes two
};

class Pipeline : public testing::TestWithParam<Golden> {};

TEST_P(Pipeline, TakesTheGoldenTime) {
  const auto [p, m, v, g, makespan] = GetParam();
  std::vector<Builder> ranks;
  for (int r = 0; r < p; ++r) ranks.push_back(stage(p, m, v, g, r));
  EXPECT_EQ(toy::run_whole(ranks).step, static_cast<Picoseconds>(makespan * kUnit));
}

// With F = 1 and B = 2 the step takes 3m plus a bubble of 3(p - 1)/v: Narayanan et al. 2021, section 2.2. The group
// size doesn't matter, nor whether the last group is full.
INSTANTIATE_TEST_SUITE_P(Makespan, Pipeline,
                         testing::Values(Golden{4, 8, 1, 1, 33}, Golden{4, 2, 1, 1, 15}, Golden{8, 16, 1, 1, 69},
                                         Golden{2, 4, 2, 2, 13.5}, Golden{4, 8, 2, 4, 28.5}, Golden{4, 4, 2, 4, 16.5},
                                         Golden{4, 8, 4, 4, 26.25}, Golden{4, 12, 2, 6, 40.5}, Golden{2, 5, 2, 3, 16.5},
                                         Golden{4, 10, 2, 6, 34.5}, Golden{8, 64, 4, 8, 197.25}));

TEST(Pipeline, TransfersDelayEachHop) {
  // One micro-batch, four stages, no overlap possible: every pass and every hop in a row.
  std::vector<Builder> ranks;
  for (int r = 0; r < 4; ++r) ranks.push_back(stage(4, 1, 1, 1, r));
  const CostSource slow{[](const OpShape& shape, Site) { return ComputeCost{shape.dims[1]}; },
                        [](const OpShape&, const Group&) {
                          return TransferCost{0, 5, 0, 0, {}};
                        }};
  EXPECT_EQ(replay(price(whole_world(toy::programs_of(ranks)), slow)).step, 4 * 3 * kUnit + 6 * 5);
}

TEST(Pipeline, TwoReplaysGiveTheSameBits) {
  std::vector<Builder> ranks;
  for (int r = 0; r < 4; ++r) ranks.push_back(stage(4, 8, 2, 4, r));
  const auto first = toy::run_whole(ranks), second = toy::run_whole(ranks);
  for (std::size_t r = 0; r < 4; ++r) {
    for (std::size_t i = 0; i < first.timelines[r].spans.size(); ++i) {
      const Span &a = first.timelines[r].spans[i], &b = second.timelines[r].spans[i];
      ASSERT_TRUE(a.ready == b.ready && a.start == b.start && a.end == b.end) << "rank " << r << " op " << i;
      ASSERT_TRUE(a.ready >= 0 && a.ready <= a.start && a.start <= a.end);
    }
  }
}

}  // namespace
}  // namespace benchsuite
