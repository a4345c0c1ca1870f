#include "suite/accuracy/ensemble.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <optional>

#include "suite/cases/data_root.h"

namespace benchsuite {
namespace {

struct Bench {
  DataRoot root{BENCHSUITE_SOURCE_DIR};
  HardwareProfile profile(const std::string& name) const { return load_hardware(root.file_of(DataKind::hardware, name)); }
  Stack stack(const std::string& name) const {
    std::vector<Violation> problems;
    const std::string file = root.file_of(DataKind::stack, name);
    return read_stack(parse_json_file(file), file, "", problems);
  }
};

TrainConfig gpt(const Bench& bench, const char* stack, std::int64_t layers, std::int64_t hidden) {
  TrainConfig config;
  config.model.layers = layers;
  config.model.hidden = hidden;
  config.model.ffn_hidden = 4 * hidden;
  config.model.heads = config.model.kv_heads = hidden / 128;
  config.model.seq = 2048;
  config.model.vocab = 51200;
  config.stack = bench.stack(stack);
  config.layout.attention = AttentionKernel::unfused;
  return config;
}

TrainConfig with(TrainConfig config, const std::function<void(Layout&)>& change) {
  change(config.layout);
  return config;
}

/// The profile with other JSON.
HardwareProfile changed(const HardwareProfile& base, const std::function<void(Json&)>& change) {
  Json raw = base.raw;
  raw.erase("based_on");
  change(raw);
  std::vector<Violation> problems;
  HardwareProfile made = read_hardware(raw, "changed", problems);
  EXPECT_TRUE(problems.empty()) << to_string(problems.front());
  return made;
}

/// Takes ranges and errors out, but for what lies below the paths (or at the path) in `kept`.
void strip(Json& json, const std::string& path, const std::string& kept) {
  if (path == kept) return;
  if (json.is_array()) {
    for (Json& one : json) strip(one, path + "[]", kept);
  }
  if (!json.is_object()) return;
  for (const char* key : {"range", "held_back", "other_machines", "fit_error"}) {
    if (path + "." + key != kept) json.erase(key);
  }
  for (auto item = json.begin(); item != json.end(); ++item) {
    strip(item.value(), path.empty() ? item.key() : path + "." + item.key(), kept);
  }
}

HardwareProfile with_only(const HardwareProfile& base, const std::string& kept) {
  return changed(base, [&](Json& raw) { strip(raw, "", kept); });
}

/// Steps of the draws over the undrawn step: the least and the most.
std::pair<double, double> spread_of(const TrainConfig& config, const HardwareProfile& hardware, int draws = 24) {
  const std::vector<Violation> problems = validate(config, "", Wanted::times);
  EXPECT_TRUE(problems.empty()) << to_string(problems.front());
  const Corners corners = corners_of(hardware);
  const StepEstimate estimate = estimate_step(config, hardware, options_for(corners));
  const Repricer repricer(estimate, config, corners);
  std::pair<double, double> ends{1e9, 0};
  for (int draw = 0; draw < draws; ++draw) {
    const double ratio = repricer.step(*drawn_machine(hardware, 1, draw)) / estimate.iteration_s;
    ends = {std::min(ends.first, ratio), std::max(ends.second, ratio)};
  }
  return ends;
}

double width(const std::pair<double, double>& ends) { return ends.second - ends.first; }

TEST(Ensemble, DrawsLieInTheirRangesAndRepeat) {
  const Bench bench;
  const HardwareProfile a100 = bench.profile("dgx-a100-80g");
  for (const RangedConstant& constant : ranged_constants(a100)) {
    EXPECT_LE(constant.low, constant.value) << constant.path;
    EXPECT_GE(constant.high, constant.value) << constant.path;
  }
  const auto one = drawn_machine(a100, 7, 3), again = drawn_machine(a100, 7, 3);
  EXPECT_EQ(one->hardware().gemm.efficiency, again->hardware().gemm.efficiency);
  EXPECT_EQ(one->hardware().host_eager_s, again->hardware().host_eager_s);
  double low = 1e9, high = 0;
  for (int draw = 0; draw < 200; ++draw) {
    const double value = drawn_machine(a100, 7, draw)->hardware().gemm.accumulate_exposed;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  EXPECT_GE(low, 0);
  EXPECT_LE(high, 1);
  EXPECT_LT(low, 0.05);
  EXPECT_GT(high, 0.95);
  EXPECT_NE(uniform_by(7, 3, "a"), uniform_by(8, 3, "a"));
  EXPECT_NE(uniform_by(7, 3, "a"), uniform_by(7, 4, "a"));
}

TEST(Ensemble, ConstantsOfOneCauseAreDrawnTogether) {
  const Bench bench;
  const HardwareProfile a100 = bench.profile("dgx-a100-80g");
  for (int draw = 0; draw < 8; ++draw) {
    const auto machine = drawn_machine(a100, 7, draw);
    const HardwareProfile& drawn = machine->hardware();
    const auto share = [&](const char* op) { return drawn.memory_ops.at(op).share; };
    EXPECT_DOUBLE_EQ(share("bias_gelu_backward"), share("gelu"));
    EXPECT_DOUBLE_EQ(share("layernorm_backward"), share("layernorm"));
    EXPECT_DOUBLE_EQ(share("ce_backward"), share("ce_max"));
    EXPECT_DOUBLE_EQ(share("adamw"), share("add"));
    EXPECT_NE(share("softmax"), share("layernorm"));
    EXPECT_DOUBLE_EQ(drawn.attention_floor_s, drawn.memory_ops.at("add").floor_s);
  }
}

TEST(Ensemble, AConstantLiesBelowItsValueAsOftenAsAbove) {
  const Bench bench;
  const HardwareProfile uneven = changed(bench.profile("dgx-a100-80g"), [](Json& raw) {
    const double value = raw["gemm"]["burst_efficiency"]["value"];
    raw["gemm"]["burst_efficiency"]["range"] = {value / 2, value + 0.01};
  });
  int above = 0;
  for (int draw = 0; draw < 400; ++draw) {
    above += drawn_machine(uneven, 7, draw)->hardware().gemm.efficiency > uneven.gemm.efficiency ? 1 : 0;
  }
  EXPECT_NEAR(above, 200, 30);  // binomial: three standard deviations of 400 fair coins
}

PathEntry product(std::int64_t m, std::int64_t n, std::int64_t k) {
  PathEntry entry;
  entry.shape.kind = OpKind::gemm;
  entry.shape.dtype = entry.shape.out_dtype = DType::bf16;
  entry.shape.dims = {m, n, k, 1};
  return entry;
}

TEST(Ensemble, EveryShapeOfAProductErrsByItself) {
  const Bench bench;
  const HardwareProfile shapes = changed(with_only(bench.profile("dgx-a100-80g"), "nothing"), [](Json& raw) {
    raw["gemm"]["other_machines"] = {{"rows", 1}, {"median", 0.05}, {"p90", 0.1}};
  });
  const Machine undrawn(shapes);
  int apart = 0;
  for (int draw = 0; draw < 8; ++draw) {
    const auto drawn = drawn_machine(shapes, 7, draw);
    const auto factor = [&](const PathEntry& entry) { return drawn->seconds(entry, 0) / undrawn.seconds(entry, 0); };
    apart += std::abs(factor(product(4096, 8192, 4096)) - factor(product(8192, 4096, 4096))) > 1e-3 ? 1 : 0;
  }
  EXPECT_GE(apart, 6);
}

TEST(Ensemble, ProductsOfOneSizeShareAFactor) {
  const Bench bench;
  const HardwareProfile sizes = changed(with_only(bench.profile("dgx-a100-80g"), "nothing"), [](Json& raw) {
    raw["gemm"]["other_machines"] = {{"rows", 1}, {"median", 0}, {"p90", 0}, {"of_size", {{"median", 0.05}, {"p90", 0.1}}}};
  });
  const Machine undrawn(sizes);
  int apart = 0;
  for (int draw = 0; draw < 8; ++draw) {
    const auto drawn = drawn_machine(sizes, 7, draw);
    const auto factor = [&](const PathEntry& entry) { return drawn->seconds(entry, 0) / undrawn.seconds(entry, 0); };
    const double one = factor(product(4096, 8192, 4096));
    EXPECT_GT(std::abs(one - 1), 1e-6);
    EXPECT_NEAR(factor(product(8192, 4096, 4096)), one, 1e-6);  // as many FLOPs, 2^38
    EXPECT_NEAR(factor(product(8192, 8192, 4096)), one, 1e-6);  // twice as many: sizes go by factors of four
    apart += std::abs(factor(product(8192, 16384, 8192)) - one) > 1e-3 ? 1 : 0;  // eight times as many
  }
  EXPECT_GE(apart, 6);
}

TEST(Ensemble, CornersStandAtTheEndsOfTheirRanges) {
  const Bench bench;
  const HardwareProfile a100 = bench.profile("dgx-a100-80g");
  const auto compute = corner_machine(a100, SlowPart::compute), moving = corner_machine(a100, SlowPart::communication);
  const auto constant = [&](const std::string& path) {
    for (const RangedConstant& one : ranged_constants(a100)) {
      if (one.path == path) return one;
    }
    ADD_FAILURE() << path << " has no range";
    return RangedConstant{};
  };
  EXPECT_DOUBLE_EQ(compute->hardware().gemm.efficiency, constant("gemm.burst_efficiency").low);
  EXPECT_DOUBLE_EQ(moving->hardware().gemm.efficiency, constant("gemm.burst_efficiency").high);
  EXPECT_DOUBLE_EQ(compute->hardware().inter_node_time_factor, constant("fabric.time_factor").low);
  EXPECT_DOUBLE_EQ(moving->hardware().inter_node_time_factor, constant("fabric.time_factor").high);
  EXPECT_DOUBLE_EQ(compute->hardware().host_eager_s * 1e6, constant("host.eager_op").low);
  EXPECT_DOUBLE_EQ(corner_machine(a100, SlowPart::host)->hardware().host_eager_s * 1e6, constant("host.eager_op").high);
}

TEST(Ensemble, AMachineWithoutRangesHasNoWidth) {
  const Bench bench;
  const TrainConfig config = with(gpt(bench, "megatron-2022", 4, 2048), [](Layout& layout) {
    layout.tp = layout.pp = 2;
    layout.dp = 4;
    layout.global_batch = 16;
  });
  for (const HardwareProfile& hardware : {bench.profile("ideal"), with_only(bench.profile("dgx-a100-80g"), "nothing")}) {
    const auto [low, high] = spread_of(config, hardware);
    EXPECT_NEAR(low, 1, 1e-9) << hardware.name;
    EXPECT_NEAR(high, 1, 1e-9) << hardware.name;
  }
}

TEST(Ensemble, AWiderRangeWidens) {
  const Bench bench;
  const HardwareProfile narrow = with_only(bench.profile("dgx-a100-80g"), "gemm.burst_efficiency.range");
  const HardwareProfile wide = changed(narrow, [](Json& raw) { raw["gemm"]["burst_efficiency"]["range"] = {0.7, 0.95}; });
  const TrainConfig config = gpt(bench, "megatron-2022", 2, 4096);
  EXPECT_GT(width(spread_of(config, narrow)), 0.01);
  EXPECT_GT(width(spread_of(config, wide)), 2 * width(spread_of(config, narrow)));
}

/// What is drawn, a configuration whose step depends on it, and one whose step doesn't.
struct Kind {
  const char* drawn;
  TrainConfig moved;
  std::optional<TrainConfig> still;
};

TEST(Ensemble, EachKindMovesWhatDependsOnItAlone) {
  const Bench bench;
  const HardwareProfile a100 = bench.profile("dgx-a100-80g");
  const TrainConfig one = gpt(bench, "megatron-2022", 2, 4096);
  TrainConfig flash = one;
  flash.layout.attention = AttentionKernel::flash;
  TrainConfig flash_2 = flash, flash_1 = flash, triton = flash;
  flash_2.stack.fused_attention = FusedAttention::flash_2;
  flash_1.stack.fused_attention = FusedAttention::flash_1;
  triton.stack.fused_attention = FusedAttention::triton;
  const TrainConfig tensor = with(one, [](Layout& layout) { layout.tp = 2; });
  const TrainConfig in_node = with(one, [](Layout& layout) { layout.pp = 2, layout.global_batch = 4; });
  const TrainConfig pipeline = with(one, [](Layout& layout) { layout.tp = 8, layout.pp = 2, layout.global_batch = 4; });
  const TrainConfig data = with(one, [](Layout& layout) { layout.tp = 8, layout.dp = 2, layout.global_batch = 2; });
  TrainConfig small = gpt(bench, "megatron-2022", 4, 512);
  small.model.seq = 512;
  TrainConfig graphs = small;
  graphs.stack.cuda_graphs = true;
  const Kind kinds[] = {
      {"gemm.burst_efficiency.range", one, {}},
      {"gemm.other_machines", one, {}},
      {"memory_ops.shares.layernorm.range", one, {}},
      {"attention.time_factor.range", flash, one},
      {"attention.time_factor.range", flash_2, flash_1},
      {"attention.kernel_time_factors.flash-attention-triton.range", triton, flash_1},
      {"attention.held_back", flash, one},
      {"slowest_gpu.range", one, {}},
      {"nvlink.time_factor.range", tensor, one},
      {"nvlink.other_machines", tensor, one},
      {"nvlink.sm_share.range", tensor, one},
      {"fabric.time_factor.range", data, tensor},
      {"fabric.ring.held_back", data, tensor},
      {"fabric.send_latency.range", pipeline, in_node},
      {"fabric.send_wire_factor.range", pipeline, in_node},
      {"host.eager_op.range", small, graphs},
  };
  for (const Kind& kind : kinds) {
    const HardwareProfile hardware = with_only(a100, kind.drawn);
    EXPECT_GT(width(spread_of(kind.moved, hardware)), 1e-5) << kind.drawn << " moves nothing";
    if (!kind.still) continue;
    EXPECT_LT(width(spread_of(*kind.still, hardware)), 1e-9) << kind.drawn << " moves what has none of it";
  }
}

/// How far a repriced step is from the step simulated whole on the drawn machine, at most, in percent.
double worst_of(const TrainConfig& config, const HardwareProfile& hardware, int draws) {
  const std::vector<Violation> problems = validate(config, "", Wanted::times);
  EXPECT_TRUE(problems.empty()) << to_string(problems.front());
  const Corners corners = corners_of(hardware);
  const StepEstimate estimate = estimate_step(config, hardware, options_for(corners));
  const Repricer repricer(estimate, config, corners);
  EXPECT_NEAR(repricer.step(*corners[0]) / estimate.iteration_s, 1, 1e-9) << "on the machine itself";
  double worst = 0;
  for (int draw = 0; draw < draws; ++draw) {
    const auto drawn = drawn_machine(hardware, 1, draw);
    const double simulated = estimate_step(config, drawn->hardware()).iteration_s;
    worst = std::max(worst, 100 * std::abs(repricer.step(*drawn) / simulated - 1));
  }
  return worst;
}

TEST(Ensemble, RepricedStepIsNearTheOneSimulatedOnTheDrawnMachine) {
  const Bench bench;
  const HardwareProfile a100 = bench.profile("dgx-a100-80g"), narrow = bench.profile("dgx-a100-80g-1x100g");
  // What chains leave out: waits that move between chains, links and memory shared otherwise. 2 % of a step, where the
  // draws themselves span 10 to 40.
  const double bound = 2;
  TrainConfig tensor = gpt(bench, "megatron-2022", 8, 6144);
  tensor.layout.tp = 8;
  tensor.layout.pp = 4;
  tensor.layout.sequence_parallel = true;
  tensor.layout.micro_batch = 2;
  tensor.layout.global_batch = 32;
  EXPECT_LT(worst_of(tensor, a100, 6), bound) << "tensor and pipeline parallel";

  TrainConfig data = gpt(bench, "megatron-core", 8, 2048);
  data.layout.attention = AttentionKernel::flash;
  data.layout.dp = 16;
  data.layout.zero_stage = 1;
  data.layout.global_batch = 32;
  EXPECT_LT(worst_of(data, a100, 6), bound) << "data parallel, reduction exposed";
  data.stack.overlaps_gradient_reduction = data.stack.overlaps_parameter_gather = true;
  EXPECT_LT(worst_of(data, a100, 6), bound) << "data parallel, overlapped";
  EXPECT_LT(worst_of(data, narrow, 6), bound) << "data parallel on one NIC, overlapped";

  TrainConfig sharded = gpt(bench, "llm-foundry-fsdp", 8, 4096);
  sharded.layout.attention = AttentionKernel::flash;
  sharded.layout.dp = 16;
  sharded.layout.zero_stage = 3;
  sharded.layout.global_batch = 32;
  EXPECT_LT(worst_of(sharded, a100, 6), bound) << "fully sharded";

  TrainConfig launched = gpt(bench, "megatron-2022", 8, 1024);
  launched.model.seq = 1024;
  launched.layout.tp = launched.layout.pp = 2;
  launched.layout.global_batch = 8;
  EXPECT_LT(worst_of(launched, a100, 6), bound) << "bound by launches in some draws";
  launched.stack.launch_blocking = true;
  launched.stack.overlaps_tensor_backward = launched.stack.overlaps_pipeline_interleaved = false;
  EXPECT_LT(worst_of(launched, a100, 6), bound) << "launches block";
}

}  // namespace
}  // namespace benchsuite
