// Steps whose attention runs through cuDNN: what they need of memory and of the host, and that recompute and resume
// change no bit.
#include <gmock/gmock.h>

#include <algorithm>

#include "engine/device/cuda/attention.h"
#include "tests/cuda_emulator/device/one_rank.h"

namespace benchsuite::testing_cuda {
namespace {

using cuda_emulator::Counts;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Collects what ranks say.
struct Said {
  std::shared_ptr<std::vector<std::string>> texts = std::make_shared<std::vector<std::string>>();
  Say say() const {
    return once([texts = texts](const std::string& text) { texts->push_back(text); });
  }
};

/// Room for the matrices of the unfused path, for the largest op of a Program.
std::uint64_t unfused_workspace(const Program& program) {
  std::uint64_t most = 0;
  for (const Op& op : program.ops) {
    if (op.kind == OpKind::flash_attention_backward) most = std::max(most, cuda::flash_workspace(program.shape_of(op)));
  }
  return most;
}

TEST(FusedTraining, TheWorkspaceIsThatOfTheLibrarysPlans) {
  TrainConfig config = small_llama_fused(DType::bf16);
  config.model.seq = 32;
  const Said said;
  OneRank one(config, {}, {.say = said.say()});
  EXPECT_THAT(*said.texts, IsEmpty());
  // The emulated library wants 640 bytes, the backward pass the sums of 4 heads' 32 rows beside.
  EXPECT_GT(unfused_workspace(one.program()), kGemmWorkspace);
  EXPECT_EQ(one.rank().workspace(StreamKind::compute).size(),
            std::max<std::size_t>(kGemmWorkspace, 640 + 4 * 32 * sizeof(float)));
}

TEST(FusedTraining, AStepIsOneGraphAndTheHostWaitsForNothing) {
  OneRank one(small_llama_fused(DType::bf16), {.pace = cuda_emulator::Pace::late});
  for (int step = 0; step < 3; ++step) {
    const Counts before = cuda_emulator::counts();
    one.start(step);
    const Counts queued = cuda_emulator::counts();
    EXPECT_EQ(queued.waits, before.waits);
    EXPECT_EQ(queued.graph_launches - before.graph_launches, step == 0 ? 0 : 1);
    one.finish();
  }
}

TEST(FusedTraining, RecomputeAndGraphsChangeNoBit) {
  const TrainConfig kept = small_llama_fused(DType::bf16);
  TrainConfig recomputed = kept;
  recomputed.layout.recompute.granularity = RecomputeGranularity::full;
  const CpuTrainingResult reference = train_emulated(kept);
  expect_same_bits(train_emulated(recomputed, {.seed = 5}), reference);
  expect_same_bits(train_emulated(kept, {.seed = 6}, 3, {.graph = false}), reference);
}

TEST(FusedTraining, WhatOnlyTheBackwardPassIsRefusedForRunsUnfusedThere) {
  TrainConfig config = small_llama_fused(DType::bf16);
  config.model.hidden = 272, config.model.heads = 2, config.model.kv_heads = 1, config.model.layers = 1,
  config.model.seq = 4;
  config.layout.global_batch = 1;
  const Said said;
  const CpuTrainingResult cpu = train_on_host(config, 2), cuda = train_emulated(config, {}, 2, {.say = said.say()});
  EXPECT_THAT(
      *said.texts,
      ElementsAre(HasSubstr("no backward kernel for 4 positions, 2 heads of 136 channels on 1 key-value heads")));
  // As Training.Bf16AgreesWithDeviceCpu.
  for (std::size_t step = 0; step < cpu.loss.size(); ++step)
    EXPECT_NEAR(cuda.loss[step], cpu.loss[step], 2e-3 * cpu.loss[step]);
  EXPECT_LT(testing_train::largest_difference(cuda.gradients, cpu.gradients), 0.1);
}

TEST(FusedTraining, EveryRankSaysWhyButItIsToldOnce) {
  TrainConfig config = small_llama_fused(DType::bf16);
  config.layout.tp = 2;
  config.model.dropout = 0.1f;
  const Said said;
  train_emulated(config, {}, 1, {.say = said.say()});
  EXPECT_THAT(*said.texts, ElementsAre(HasSubstr("do not draw our dropout masks")));
}

}  // namespace
}  // namespace benchsuite::testing_cuda
