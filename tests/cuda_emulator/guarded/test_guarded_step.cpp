// Whole steps with every op confined to its operands: while it runs, all of its GPU's pool but the byte ranges of its operands
// and its stream's workspace is poisoned, so that a single byte beside a planned buffer stops the test.
#include <sanitizer/asan_interface.h>

#include <map>
#include <mutex>

#include "engine/device/cuda/cuda_rank.h"
#include "tests/cuda_emulator/device/emulated_training.h"

namespace benchsuite::testing_cuda {
namespace {

class Guard {
 public:
  /// What an op may touch; less than its operands shows that the guard sees it.
  enum class Allowance { operands, all_but_the_last_element };

  explicit Guard(Allowance allowance) : allowance_(allowance) {}

  void add(RankMemory& memory) {
    const std::scoped_lock lock(mutex_);
    ranks_[memory.rank()] = &dynamic_cast<cuda::CudaRank&>(memory);
  }
  std::size_t confined() const { return confined_; }

  void operator()(const cuda_emulator::Operation& operation, bool begins) {
    if (operation.range.empty()) return;  // copies of the host
    const std::scoped_lock lock(mutex_);
    const auto found = ranks_.find(operation.device);
    if (found == ranks_.end()) return;
    cuda::CudaRank& rank = *found->second;
    if (!begins) {
      ASAN_UNPOISON_MEMORY_REGION(rank.pool().data(), rank.pool().size());
      return;
    }
    ++confined_;
    ASAN_POISON_MEMORY_REGION(rank.pool().data(), rank.pool().size());
    const Program& program = rank.program();
    const Op& op = program.ops[operation.payload];
    for (const Operand& operand : program.operands_of(op)) {
      const Buffer& buffer = program.buffers[operand.buffer];
      const std::size_t missing = allowance_ == Allowance::operands ? 0 : 4;
      ASAN_UNPOISON_MEMORY_REGION(rank.arena(buffer.purpose).data() + buffer.offset + operand.offset, operand.bytes - missing);
    }
    const std::span<std::byte> workspace = rank.workspace(op.stream);
    ASAN_UNPOISON_MEMORY_REGION(workspace.data(), workspace.size());
  }

 private:
  std::mutex mutex_;
  std::map<int, cuda::CudaRank*> ranks_;
  const Allowance allowance_;
  std::size_t confined_ = 0;
};

/// Steps of training with the guard on; returns how many operations it confined.
std::size_t train_guarded(const TrainConfig& config, Guard::Allowance allowance = Guard::Allowance::operands) {
  const RankGrid grid(config.layout);
  cuda_emulator::reset({.devices = grid.world()});
  Guard guard(allowance);
  cuda_emulator::observe([&](const cuda_emulator::Operation& operation, bool begins) { guard(operation, begins); });
  train_on(config, {.steps = 2}, [&](const std::vector<const Program*>& programs, const HostWorkOn<RankMemory>& host, int steps) {
    HostWorkOn<RankMemory> watched = host;
    watched.init = [&](RankMemory& rank) {
      host.init(rank);
      guard.add(rank);
    };
    cuda::run_ranks(programs, watched, steps, {.gemm_workspace = kGemmWorkspace});
  });
  cuda_emulator::observe(nullptr);
  return guard.confined();
}

TEST(GuardedStep, NoOpLeavesItsOperands) {
  for (const DType precision : {DType::fp32, DType::bf16}) {
    EXPECT_GT(train_guarded(small_gpt(precision)), 100u);
    TrainConfig config = small_llama(precision);
    config.layout.attention = AttentionKernel::flash;
    EXPECT_GT(train_guarded(config), 100u);
  }
}

TEST(GuardedStep, NorDoCollectives) {
  TrainConfig config = small_gpt(DType::bf16);
  config.layout.tp = config.layout.pp = config.layout.dp = 2, config.layout.sequence_parallel = true, config.layout.zero_stage = 1;
  EXPECT_GT(train_guarded(config), 800u);
}

TEST(GuardedStepDeathTest, ReadingOneElementBesideWouldBeSeen) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(train_guarded(small_gpt(DType::fp32), Guard::Allowance::all_but_the_last_element), "use-after-poison");
}

}  // namespace
}  // namespace benchsuite::testing_cuda
