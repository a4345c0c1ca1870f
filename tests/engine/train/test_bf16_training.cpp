// Training in bf16 (fp32 accumulation, masters and gradients) learns what fp32 learns. What its layouts must equal: test_parity.
#include "engine/core/bf16.h"
#include "engine/device/cpu/run_ranks.h"
#include "tests/engine/train/parity.h"

namespace benchsuite {
namespace {

using testing_train::kRoundedToBf16;
using testing_train::largest_difference;
using testing_train::train;

TrainConfig tiny() { return testing_train::tiny(ModelFamily::gpt, DType::bf16); }

const CpuTrainingResult& baseline() { return testing_train::baseline(ModelFamily::gpt, DType::bf16); }

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
  EXPECT_LT(largest_difference(baseline().gradients, wide.gradients), kRoundedToBf16);
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
