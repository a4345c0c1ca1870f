// Recording, pricing and replaying whole steps, and the schedules they follow.
#include <benchmark/benchmark.h>

#include <string>

#include "engine/device/sim/replay.h"
#include "engine/parallel/schedule_times.h"
#include "engine/program/memory_summary.h"
#include "engine/train/step.h"

namespace benchsuite {
namespace {

/// GPT-175B, TP8 PP8 with three chunks a stage, 64 micro-batches: the step the speed target names.
TrainConfig gpt_175b() {
  TrainConfig config;
  config.model = {.name = "gpt-175b", .layers = 96, .hidden = 12288, .ffn_hidden = 49152, .heads = 96, .kv_heads = 96,
                  .seq = 2048, .vocab = 51200};
  Layout& layout = config.layout;
  layout.tp = layout.pp = 8;
  layout.vpp = 3;
  layout.schedule = ScheduleKind::interleaved;
  layout.global_batch = 64;
  layout.sequence_parallel = true;
  layout.recompute.granularity = RecomputeGranularity::selective;
  return config;
}

std::vector<Program> record_stages(const TrainConfig& config) {
  const RankGrid grid(config.layout);
  std::vector<Program> programs;
  for (int stage = 0; stage < config.layout.pp; ++stage) {
    programs.push_back(record_step(config, grid.rank_at({.pp = stage})).program);
  }
  return programs;
}

std::int64_t ops_of(const std::vector<Program>& programs) {
  std::int64_t ops = 0;
  for (const Program& program : programs) ops += static_cast<std::int64_t>(program.ops.size());
  return ops;
}

void Record175B(benchmark::State& state) {
  const TrainConfig config = gpt_175b();
  std::int64_t ops = 0;
  for (auto _ : state) ops += ops_of(record_stages(config));
  state.SetItemsProcessed(ops);
}
BENCHMARK(Record175B)->Unit(benchmark::kMillisecond);

void RecordAndReplay175B(benchmark::State& state) {
  const TrainConfig config = gpt_175b();
  const HardwareProfile hardware =
      load_hardware(std::string(BENCHSUITE_SOURCE_DIR) + "/cases/hardware/dgx-a100-80g.json");
  const Placement placement = place(config.layout, hardware.gpus_per_node);
  const RankGrid grid(config.layout);
  std::int64_t ops = 0;
  for (auto _ : state) {
    const CostModel costs(hardware, placement);
    const std::vector<Program> programs = record_stages(config);
    World world;
    for (const Program& program : programs) world.programs.push_back(&program);
    for (int rank = 0; rank < grid.world(); ++rank) world.role_of_rank.push_back(grid.coordinates(rank).pp);
    benchmark::DoNotOptimize(replay(world, costs).step);
    ops += ops_of(programs);
  }
  state.SetItemsProcessed(ops);
}
BENCHMARK(RecordAndReplay175B)->Unit(benchmark::kMillisecond);

void SummariseMemory(benchmark::State& state) {
  const TrainConfig config = gpt_175b();
  const Program program = record_step(config, 0).program;
  for (auto _ : state) benchmark::DoNotOptimize(summarise_memory(program).peak_bytes);
}
BENCHMARK(SummariseMemory)->Unit(benchmark::kMillisecond);

void Schedules(benchmark::State& state) {
  const ScheduleShape shape{ScheduleKind::interleaved, state.range(0), 4, state.range(1), state.range(0)};
  for (auto _ : state) benchmark::DoNotOptimize(ScheduleTimes(shape).makespan());
}
BENCHMARK(Schedules)->Args({8, 64})->Args({64, 512})->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace benchsuite

BENCHMARK_MAIN();
