// Training in bf16 (fp32 accumulation, masters and gradients): the layouts that must give the same bits do, the others stay
// within bf16's rounding, and it learns what fp32 learns.
#include <functional>

#include "engine/core/bf16.h"
#include "engine/device/cpu/run_ranks.h"
#include "tests/engine/train/parity.h"

namespace benchsuite {
namespace {

using testing_train::largest_difference;
using testing_train::train;

TrainConfig tiny() {
  TrainConfig config = testing_train::tiny_gpt();
  config.layout.precision = DType::bf16;
  return config;
}

const CpuTrainingResult& baseline() {
  static const CpuTrainingResult result = train(tiny());
  return result;
}

struct LayoutChange {
  const char* name;
  std::function<void(TrainConfig&)> change;
  bool bits;  ///< must equal the baseline bit for bit
};

const LayoutChange kLayouts[] = {
    {"full_2",
     [](auto& c) { c.layout.recompute = {.granularity = RecomputeGranularity::full, .num_layers = 2}; }, true},
    {"core_attn", [](auto& c) { c.layout.recompute.granularity = RecomputeGranularity::selective; }, true},
    {"layernorm_mlp",
     [](auto& c) {
       c.layout.recompute = {.granularity = RecomputeGranularity::selective,
                             .modules = {RecomputeModule::layernorm, RecomputeModule::mlp}};
     },
     true},
    {"regenerated_masks", [](auto& c) { c.stack.stores_dropout_masks = false; }, true},
    {"pp2", [](auto& c) { c.layout.pp = 2; }, true},
    {"pp2_gpipe_overlapped",
     [](auto& c) {
       c.layout.pp = 2, c.layout.schedule = ScheduleKind::gpipe, c.stack.overlaps_pipeline = true;
     },
     true},
    {"pp2_v2", [](auto& c) { c.layout.pp = 2, c.layout.vpp = 2, c.layout.schedule = ScheduleKind::interleaved; }, true},
    // A fused kernel rounds once where separate ones round each result.
    {"separate_kernels", [](auto& c) { c.stack.fused_bias_gelu = c.stack.fused_bias_dropout_add = false; }, false},
    {"flash", [](auto& c) { c.layout.attention = AttentionKernel::flash; }, false},
    {"tp2", [](auto& c) { c.layout.tp = 2; }, false},
    {"tp4_sp_full",
     [](auto& c) {
       c.layout.tp = 4, c.layout.sequence_parallel = true;
       c.layout.recompute.granularity = RecomputeGranularity::full;
     },
     false},
    {"dp2", [](auto& c) { c.layout.dp = 2; }, false},
    {"tp2_sp_pp2_dp2",
     [](auto& c) { c.layout.tp = c.layout.pp = c.layout.dp = 2, c.layout.sequence_parallel = true; }, false},
};

void PrintTo(const LayoutChange& layout, std::ostream* out) { *out << layout.name; }

class Bf16Parity : public testing::TestWithParam<LayoutChange> {};

// A rounding to bf16 is off by 2^-9 rms of the value. Some fifty of them follow one another through four layers and back:
// sqrt(50) 2^-9 = 1.4 % of a gradient's size; the worst of a few thousand entries lies four to five deviations out.
constexpr double kRounded = 0.07;

TEST_P(Bf16Parity, TrainsLikeOneRank) {
  TrainConfig config = tiny();
  GetParam().change(config);
  const CpuTrainingResult result = train(config);
  const double gradients = largest_difference(result.gradients, baseline().gradients);
  if (GetParam().bits) {
    EXPECT_EQ(result.loss, baseline().loss);
    EXPECT_EQ(result.gradient_norm, baseline().gradient_norm);
    EXPECT_EQ(gradients, 0);
    EXPECT_EQ(largest_difference(result.parameters, baseline().parameters), 0);
    return;
  }
  for (std::size_t step = 0; step < 2; ++step) {
    // A token's loss of about 6 moves with its logits of about 0.1, each off by 2^-8 of itself; 128 tokens average it out.
    EXPECT_NEAR(result.loss[step], baseline().loss[step], 1e-3);
    EXPECT_NEAR(result.gradient_norm[step], baseline().gradient_norm[step], 0.01 * baseline().gradient_norm[step]);
  }
  EXPECT_LT(gradients, kRounded);
}

INSTANTIATE_TEST_SUITE_P(Layouts, Bf16Parity, testing::ValuesIn(kLayouts),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Bf16Training, ZeroStageOneEqualsPlainDataParallelBitForBit) {
  TrainConfig config = tiny();
  config.layout.dp = 2;
  config.layout.pp = 2;
  const CpuTrainingResult plain = train(config);
  config.layout.zero_stage = 1;
  const CpuTrainingResult sharded = train(config);
  EXPECT_EQ(sharded.loss, plain.loss);
  EXPECT_EQ(sharded.gradient_norm, plain.gradient_norm);
  EXPECT_EQ(largest_difference(sharded.parameters, plain.parameters), 0);
}

TEST(Bf16Training, FollowsFp32) {
  TrainConfig fp32 = tiny();
  fp32.layout.precision = DType::fp32;
  const CpuTrainingResult wide = train(fp32);
  for (std::size_t step = 0; step < 2; ++step) EXPECT_NEAR(baseline().loss[step], wide.loss[step], 1e-3);
  EXPECT_LT(largest_difference(baseline().gradients, wide.gradients), kRounded);
  EXPECT_GT(largest_difference(baseline().gradients, wide.gradients), 1e-4) << "nothing was rounded";
}

TEST(Bf16Training, MastersStartAtTheFp32ValuesAndParametersAtThoseRounded) {
  TrainConfig config = tiny();
  config.layout.dp = 2;
  config.layout.zero_stage = 1;  // slices of masters that cut through parameters
  const RecordedStep step = record_step(config, 1);
  CpuRank rank(step.program);
  initialise_parameters(rank, step.bindings, config.model.layers, 1234);
  std::size_t masters = 0, moved = 0;
  for (const StepBindings::Piece& piece : step.bindings.masters) {
    const Parameter& parameter = step.bindings.parameters[piece.parameter];
    for_each_element(step.bindings, piece, [&](std::size_t i, std::int64_t global) {
      const float value = initial_value(1234, parameter, global, config.model.layers);
      EXPECT_EQ(rank.view<float>(piece.tensor)[i], value) << parameter.name;
      moved += widen(round_to_bf16(value)) != value;
      ++masters;
    });
  }
  EXPECT_GT(masters, 30000u) << "half of the model";
  EXPECT_GT(moved, masters / 2) << "most values are not bf16 values";
  for (const StepBindings::Piece& piece : step.bindings.values) {
    const Parameter& parameter = step.bindings.parameters[piece.parameter];
    for_each_element(step.bindings, piece, [&](std::size_t i, std::int64_t global) {
      EXPECT_EQ(rank.view<Bf16>(piece.tensor)[i],
                round_to_bf16(initial_value(1234, parameter, global, config.model.layers)))
          << parameter.name;
    });
  }
}

TEST(Bf16Training, UpdatesTooSmallForAParameterAddUpInItsMaster) {
  // A weight of a LayerNorm starts at 1; its bf16 neighbours are 2^-8 below and 2^-7 above. Adam's early steps are of the
  // size of the learning rate, so eight of 2^-10 move some weight, one does not.
  TrainConfig config = tiny();
  config.model.layers = 1;
  config.layout.global_batch = 1;
  const auto moved = [&](int steps) {
    const auto result = train_on_cpu(config, {.steps = steps, .learning_rate = 0x1p-10f});
    int count = 0;
    for (const float value : result.parameters.at("final.norm.gamma")) count += value != 1.0f;
    return count;
  };
  EXPECT_EQ(moved(1), 0);
  EXPECT_GT(moved(8), 0);
}

}  // namespace
}  // namespace benchsuite
