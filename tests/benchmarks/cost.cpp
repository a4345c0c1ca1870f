// What one operator time costs: warm (the shape is known, as in every step after its first micro-batch; target: under
// 100 ns) and cold.
#include <benchmark/benchmark.h>

#include "engine/device/sim/cost_model.h"

namespace benchsuite {
namespace {

OpShape shape_of(OpKind kind, std::array<std::int64_t, 6> dims) {
  OpShape shape;
  shape.kind = kind;
  shape.dtype = shape.out_dtype = DType::bf16;
  shape.dims = dims;
  return shape;
}

struct Machine {
  HardwareProfile profile = load_hardware(std::string(BENCHSUITE_SOURCE_DIR) + "/cases/hardware/dgx-a100-80g.json");
  Placement placement{8, {0, 0, 0, 0, 0, 0, 0, 0}, {0, 1, 2, 3, 4, 5, 6, 7}};
  CostModel costs{profile, placement};
};

const OpShape kShapes[] = {
    shape_of(OpKind::gemm, {8192, 5120, 1280, 1}), shape_of(OpKind::attention_scores, {2048, 4, 10, 128}),
    shape_of(OpKind::flash_attention, {2048, 4, 10, 128, 0, 1}), shape_of(OpKind::layernorm, {8192, 5120})};

void warm(benchmark::State& state) {
  const Machine machine;
  const OpShape& shape = kShapes[state.range(0)];
  for (auto _ : state) benchmark::DoNotOptimize(machine.costs.compute(shape, Site::mlp));
  state.SetLabel(std::string(name_of(shape.kind)));
}

void cold(benchmark::State& state) {
  const Machine machine;
  OpShape shape = kShapes[state.range(0)];
  const std::int64_t rows = shape.dims[0];
  for (auto _ : state) {
    shape.dims[0] = rows + (shape.dims[0] + 1) % 100'000;
    benchmark::DoNotOptimize(machine.costs.compute(shape, Site::mlp));
  }
  state.SetLabel(std::string(name_of(shape.kind)));
}

void collective(benchmark::State& state) {
  const Machine machine;
  const CollectiveSpan span = even_span(machine.profile, 32, 4);
  double bytes = 1;
  for (auto _ : state) {
    bytes = bytes < 1e9 ? bytes * 1.001 : 1;
    benchmark::DoNotOptimize(collective_time(machine.profile, Collective::all_reduce, bytes, span));
  }
}

BENCHMARK(warm)->DenseRange(0, 3);
BENCHMARK(cold)->DenseRange(0, 3);
BENCHMARK(collective);

}  // namespace
}  // namespace benchsuite

BENCHMARK_MAIN();
