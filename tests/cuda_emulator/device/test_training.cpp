// Steps of training on emulated GPUs against device cpu: the same Program, the same numbers within the rounding of sums in
// another order; and the same bits under every interleaving of streams, order of threads and content of fresh memory.
#include "tests/cuda_emulator/device/emulated_training.h"

namespace benchsuite::testing_cuda {
namespace {

using cuda_emulator::Fill;
using cuda_emulator::Pace;
using cuda_emulator::Settings;
using cuda_emulator::ThreadOrder;
using testing_train::largest_difference;

struct Case {
  const char* name;
  void (*change)(TrainConfig&);
  TrainConfig (*model)(DType) = small_gpt;
};
void PrintTo(const Case& which, std::ostream* out) { *out << which.name; }

const Case kCases[] = {
    {"one_rank", [](TrainConfig&) {}},
    {"llama", [](TrainConfig&) {}, small_llama},
    {"flash", [](TrainConfig& c) { c.layout.attention = AttentionKernel::flash; }},
    {"llama_flash", [](TrainConfig& c) { c.layout.attention = AttentionKernel::flash; }, small_llama},
    {"fused_attention", [](TrainConfig&) {}, small_llama_fused},
    {"fused_attention_tp2_sp_core_recompute",
     [](TrainConfig& c) {
       c.layout.tp = 2, c.layout.sequence_parallel = true;
       c.layout.recompute = {.granularity = RecomputeGranularity::selective, .modules = {RecomputeModule::core_attn}};
     },
     small_llama_fused},
    {"separate_kernels_regenerated_masks",
     [](TrainConfig& c) { c.stack.fused_bias_gelu = c.stack.fused_bias_dropout_add = c.stack.stores_dropout_masks = false; }},
    {"full_recompute", [](TrainConfig& c) { c.layout.recompute.granularity = RecomputeGranularity::full; }},
    {"tp2_sp", [](TrainConfig& c) { c.layout.tp = 2, c.layout.sequence_parallel = true; }},
    {"pp2", [](TrainConfig& c) { c.layout.pp = 2; }},
    {"pp2_overlapped", [](TrainConfig& c) { c.layout.pp = 2, c.stack.overlaps_pipeline = true; }},
    {"dp2_zero1_overlapped",
     [](TrainConfig& c) { c.layout.dp = 2, c.layout.zero_stage = 1, c.stack.overlaps_gradient_reduction = true; }},
    {"dp2_zero3", [](TrainConfig& c) { c.layout.dp = 2, c.layout.zero_stage = 3; }},
    {"tp2_sp_pp2_dp2",
     [](TrainConfig& c) { c.layout.tp = c.layout.pp = c.layout.dp = 2, c.layout.sequence_parallel = true; }},
};

TrainConfig configured(const Case& which, DType precision) {
  TrainConfig config = which.model(precision);
  which.change(config);
  return config;
}

class Training : public ::testing::TestWithParam<Case> {};

TEST_P(Training, Fp32AgreesWithDeviceCpu) {
  const TrainConfig config = configured(GetParam(), DType::fp32);
  const CpuTrainingResult cpu = train_on_host(config), cuda = train_emulated(config);
  // fp32 sums of at most 64 terms in another order, through two layers and three steps of AdamW; the latter divides by the
  // square root of the second moment, so that tiny gradients differ relatively more: hence gradients, not parameters.
  EXPECT_LT(largest_difference(cuda.gradients, cpu.gradients), 2e-4);
  for (std::size_t step = 0; step < cpu.loss.size(); ++step) {
    EXPECT_NEAR(cuda.loss[step], cpu.loss[step], 2e-6 * cpu.loss[step]);
    EXPECT_NEAR(cuda.gradient_norm[step], cpu.gradient_norm[step], 2e-5 * cpu.gradient_norm[step]);
  }
}

TEST_P(Training, Bf16AgreesWithDeviceCpu) {
  const TrainConfig config = configured(GetParam(), DType::bf16);
  const CpuTrainingResult cpu = train_on_host(config), cuda = train_emulated(config);
  // A result in bf16 that lies at the middle between two numbers goes to either: 2^-8 of single values, less in their sums.
  for (std::size_t step = 0; step < cpu.loss.size(); ++step) {
    EXPECT_NEAR(cuda.loss[step], cpu.loss[step], 2e-3 * cpu.loss[step]);
    EXPECT_NEAR(cuda.gradient_norm[step], cpu.gradient_norm[step], 3e-2 * cpu.gradient_norm[step]);
  }
  EXPECT_LT(largest_difference(cuda.gradients, cpu.gradients), 0.1);
}

TEST_P(Training, NeitherOrdersNorFreshMemoryChangeABit) {
  const TrainConfig config = configured(GetParam(), DType::bf16);
  const CpuTrainingResult reference = train_emulated(config);
  expect_same_bits(train_emulated(config, {.seed = 7, .order = ThreadOrder::reverse, .fill = Fill::small, .pace = Pace::late}),
                   reference);
  expect_same_bits(train_emulated(config, {.seed = 99, .order = ThreadOrder::shuffled, .pace = Pace::early}), reference);
}

TEST_P(Training, NoInterleavingOfStreamsChangesABit) {
  const TrainConfig config = configured(GetParam(), DType::bf16);
  const CpuTrainingResult reference = train_emulated(config, {}, 2);
  for (std::uint64_t seed = 11; seed < 15; ++seed) {
    expect_same_bits(train_emulated(config, {.seed = seed, .pace = static_cast<Pace>(seed % 3)}, 2), reference);
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, Training, ::testing::ValuesIn(kCases), [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace benchsuite::testing_cuda
