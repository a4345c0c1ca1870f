// Ops a second of pricing, of the flat replay and of taking the timelines apart, one core. Target: 5 million a second
// for pricing and replay together.
#include <benchmark/benchmark.h>

#include "suite/measure/gantt.h"
#include "suite/measure/metrics.h"
#include "tests/engine/device/sim/toy.h"

namespace benchsuite {
namespace {

using toy::Builder;

/// The density of a transformer step: eight compute ops and two overlapped or awaited collectives a layer and pass, one
/// hop between stages a pass; 24 layers a stage. Stage r of p; ranks_per_role spread the tensor group.
Builder stage(int p, int micro_batches, int rank, int tensor, int world_stride) {
  Builder out(rank);
  const int r = rank / world_stride;
  const int first = rank - rank % tensor;
  Group tensor_group{GroupKind::tensor, {}};
  for (int i = 0; i < tensor; ++i) tensor_group.ranks.push_back(first + i);
  OpId last = kNone;
  for (int i = 0; i < micro_batches; ++i) {
    for (const bool forward : {true, false}) {
      const int from = forward ? rank - world_stride : rank + world_stride;
      const int to = forward ? rank + world_stride : rank - world_stride;
      const GroupKind kind = forward ? GroupKind::pipeline_forward : GroupKind::pipeline_backward;
      const toy::At at{forward ? Phase::forward : Phase::backward, i};
      std::vector<OpId> waits;
      if (forward ? r > 0 : r + 1 < p) {
        waits.push_back(out.transfer(
            OpKind::receive, forward ? StreamKind::pipeline_receive_previous : StreamKind::pipeline_receive_next,
            {kind, {from, rank}}, {50'000'000}, {}, at));
      }
      for (int layer = 0; layer < 24; ++layer) {
        for (int k = 0; k < 8; ++k) {
          last = out.compute(10'000'000 + 1'000'000 * k, waits, at);
          waits.clear();
          if (k == 3) {
            waits.push_back(
                out.transfer(OpKind::all_gather, StreamKind::tensor, tensor_group, {5'000'000, 0, 100}, {last}, at));
          }
          if (k == 7) {
            out.transfer(OpKind::reduce_scatter, StreamKind::tensor, tensor_group, {5'000'000, 0, 100}, {last}, at);
          }
        }
      }
      if (forward ? r + 1 < p : r > 0) {
        out.transfer(OpKind::send, forward ? StreamKind::pipeline_send_next : StreamKind::pipeline_send_previous,
                     {kind, {rank, to}}, {50'000'000}, {last}, at);
      }
    }
  }
  return out;
}

std::vector<Builder> stages(int p, int micro_batches, int tensor, bool whole) {
  std::vector<Builder> ranks;
  for (int r = 0; r < p * tensor; r += whole ? 1 : tensor) ranks.push_back(stage(p, micro_batches, r, tensor, tensor));
  return ranks;
}

World world_of(const std::vector<Builder>& ranks, int p, int tensor, bool whole) {
  if (whole) return whole_world(toy::programs_of(ranks));
  World world{toy::programs_of(ranks), {}};
  for (int r = 0; r < p * tensor; ++r) world.role_of_rank.push_back(r / tensor);
  return world;
}

std::int64_t ops_of(const World& world) {
  std::int64_t ops = 0;
  for (const Program* program : world.programs) ops += static_cast<std::int64_t>(program->ops.size());
  return ops;
}

void price_and_replay(benchmark::State& state, int p, int micro_batches, int tensor, bool whole) {
  const auto ranks = stages(p, micro_batches, tensor, whole);
  const World world = world_of(ranks, p, tensor, whole);
  for (auto _ : state) benchmark::DoNotOptimize(replay(price(world, toy::costs())).step);
  state.SetItemsProcessed(state.iterations() * ops_of(world));
}

void only_price(benchmark::State& state, int p, int micro_batches, int tensor, bool whole) {
  const auto ranks = stages(p, micro_batches, tensor, whole);
  const World world = world_of(ranks, p, tensor, whole);
  for (auto _ : state) benchmark::DoNotOptimize(price(world, toy::costs()).links);
  state.SetItemsProcessed(state.iterations() * ops_of(world));
}

void measure(benchmark::State& state, int p, int micro_batches, int tensor) {
  const auto ranks = stages(p, micro_batches, tensor, false);
  const World world = world_of(ranks, p, tensor, false);
  const ReplayResult replayed = replay(price(world, toy::costs()));
  for (auto _ : state) {
    for (std::size_t r = 0; r < world.programs.size(); ++r) {
      const RankMetrics metrics = measure_rank(*world.programs[r], replayed.timelines[r], replayed.step);
      benchmark::DoNotOptimize(simplify(metrics.spans, replayed.step).size());
    }
  }
  state.SetItemsProcessed(state.iterations() * ops_of(world));
}

BENCHMARK_CAPTURE(price_and_replay, collapsed_8_stages_250k_ops, 8, 64, 8, false)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(price_and_replay, whole_64_ranks, 8, 8, 8, true)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(only_price, collapsed_8_stages_250k_ops, 8, 64, 8, false)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(measure, collapsed_8_stages_250k_ops, 8, 64, 8)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace benchsuite

BENCHMARK_MAIN();
