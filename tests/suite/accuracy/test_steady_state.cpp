#include "suite/accuracy/steady_state.h"

#include <gtest/gtest.h>

#include <utility>

#include "suite/cases/data_root.h"
#include "suite/measure/simulate.h"

namespace benchsuite {
namespace {

struct Machine {
  Machine() : root(BENCHSUITE_SOURCE_DIR), a100(load_hardware(root.file_of(DataKind::hardware, "dgx-a100-80g"))) {}
  Stack stack(const std::string& name) const {
    std::vector<Violation> problems;
    const std::string file = root.file_of(DataKind::stack, name);
    return read_stack(parse_json_file(file), file, "", problems);
  }
  DataRoot root;
  HardwareProfile a100;
};

TrainConfig gpt(const Machine& machine, const char* stack, std::int64_t layers) {
  TrainConfig config;
  config.model.layers = layers;
  config.model.hidden = 2048;
  config.model.ffn_hidden = 8192;
  config.model.heads = config.model.kv_heads = 16;
  config.model.seq = 2048;
  config.model.vocab = 51200;
  config.stack = machine.stack(stack);
  config.layout.attention = AttentionKernel::unfused;
  return config;
}

/// Seconds of matrix products and of launches on the longest chain.
double products_on(const StepPath& path) {
  double seconds = path.launch_s;
  for (const PathEntry& entry : path.entries) {
    if (entry.shape.kind <= OpKind::attention_context_backward_v) seconds += entry.seconds;
  }
  return seconds;
}

/// What continuing costs: the difference between a continued and a whole step, in percent.
void expect_continued_equals_whole(const TrainConfig& config, const HardwareProfile& hardware, double percent) {
  ASSERT_TRUE(validate(config, "", Wanted::times).empty()) << to_string(validate(config, "", Wanted::times).front());
  const StepEstimate whole = estimate_step(config, hardware, {.whole = true, .paths = true});
  const StepEstimate continued = estimate_step(config, hardware, {.paths = true});
  EXPECT_EQ(whole.samples, "whole");
  EXPECT_NE(continued.samples, "whole");
  EXPECT_NEAR(continued.iteration_s / whole.iteration_s, 1, percent / 100) << continued.samples;
  EXPECT_NEAR(continued.peak_gib / whole.peak_gib, 1, 1e-3) << "inputs of all micro-batches; " << continued.samples;
  double sum = 0;
  for (const double seconds : continued.seconds) sum += seconds;
  EXPECT_NEAR(sum, continued.iteration_s, 1e-6 * continued.iteration_s);
  EXPECT_EQ(continued.fits, whole.fits);
  for (const StepEstimate* estimate : {&whole, &continued}) {
    ASSERT_EQ(estimate->paths.size(), 1u);
    EXPECT_NEAR(estimate->paths[0].seconds() / estimate->iteration_s, 1, 1e-9) << estimate->samples;
  }
  EXPECT_NEAR(products_on(continued.paths[0]) / products_on(whole.paths[0]), 1, 0.02) << continued.samples;
}

TEST(SteadyState, PipelineOfManyMicroBatches) {
  const Machine machine;
  TrainConfig config = gpt(machine, "megatron-2021", 8);
  config.layout.tp = 2;
  config.layout.pp = 4;
  config.layout.dp = 2;
  config.layout.global_batch = 64;
  config.layout.recompute.granularity = RecomputeGranularity::full;
  expect_continued_equals_whole(config, machine.a100, 0.3);
}

TEST(SteadyState, DeepModelWithoutPipeline) {
  const Machine machine;
  TrainConfig config = gpt(machine, "megatron-2022", 20);
  config.layout.tp = 4;
  config.layout.sequence_parallel = true;
  config.layout.global_batch = 12;
  config.layout.recompute.granularity = RecomputeGranularity::selective;
  expect_continued_equals_whole(config, machine.a100, 0.3);
}

TEST(SteadyState, Interleaved) {
  const Machine machine;
  TrainConfig config = gpt(machine, "megatron-2022", 16);
  config.layout.pp = 4;
  config.layout.vpp = 4;
  config.layout.schedule = ScheduleKind::interleaved;
  config.layout.global_batch = 32;
  expect_continued_equals_whole(config, machine.a100, 0.5);
}

TEST(SteadyState, FullySharded) {
  const Machine machine;
  TrainConfig config = gpt(machine, "llm-foundry-fsdp", 16);
  config.layout.dp = 16;
  config.layout.zero_stage = 3;
  config.layout.global_batch = 16 * 8;
  config.layout.attention = AttentionKernel::flash;
  expect_continued_equals_whole(config, machine.a100, 0.5);
}

TEST(SteadyState, WholeStepIsTheSimulatedStep) {
  const Machine machine;
  TrainConfig config = gpt(machine, "megatron-2022", 4);
  config.layout.pp = 2;
  config.layout.global_batch = 4;
  const StepEstimate estimate = estimate_step(config, machine.a100);
  const VariantResult simulated = simulate(config, machine.a100, {});
  EXPECT_DOUBLE_EQ(estimate.iteration_s, simulated.iteration_s);
  EXPECT_NEAR(estimate.peak_gib, simulated.peak_memory_gib, 1e-9);
}

TEST(SteadyState, OneRecordingServesEveryMachine) {
  const Machine machine;
  TrainConfig config = gpt(machine, "megatron-2022", 24);
  config.layout.pp = 1;
  config.layout.global_batch = 16;
  HardwareProfile slow_host = machine.a100, fast = machine.a100;
  slow_host.host_eager_s *= 20;
  fast.host_eager_s = fast.host_graph_s = 0;
  fast.gemm.wave_share = 0;
  StepEstimator estimator(config);
  const HardwareProfile& usual = machine.a100;
  for (const HardwareProfile* profile : {&usual, &std::as_const(slow_host), &std::as_const(fast), &usual}) {
    const StepEstimate together = estimator.on(*profile), alone = estimate_step(config, *profile);
    EXPECT_EQ(together.samples, alone.samples);
    EXPECT_EQ(together.iteration_s, alone.iteration_s);
    EXPECT_EQ(together.seconds, alone.seconds);
    EXPECT_EQ(together.host_s, alone.host_s);
    EXPECT_EQ(together.peak_gib, alone.peak_gib);
    EXPECT_EQ(together.reserved_gib, alone.reserved_gib);
    EXPECT_EQ(together.saved_gib, alone.saved_gib);
    EXPECT_EQ(together.paths.size(), alone.paths.size());
  }
}

// A device that waits on its only stage waits for launches; between stages it is the pipeline's bubble.
TEST(SteadyState, IdleTimeIsABubbleOnlyBetweenStages) {
  StepEstimate estimate;
  estimate.iteration_s = 1;
  estimate.seconds[static_cast<std::size_t>(Category::bubble)] = 0.3;
  EXPECT_EQ(dominant_term(estimate, 1), "host launches");
  EXPECT_EQ(dominant_term(estimate, 2), "bubble");
  estimate.seconds[static_cast<std::size_t>(Category::tensor)] = 0.4;
  EXPECT_EQ(dominant_term(estimate, 1), "tensor communication");
}

}  // namespace
}  // namespace benchsuite
