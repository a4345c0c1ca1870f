// Whole steps with every op confined to its operands: while it runs, all of its GPU's pool but the byte ranges of its operands
// and its stream's workspace is poisoned, so that a single byte beside a planned buffer stops the test. What the op is to write
// holds a pattern when it begins: one that it forgets, or reads, changes the results.
#include <sanitizer/asan_interface.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>

#include "engine/device/cuda/cuda_world.h"
#include "tests/cuda_emulator/device/emulated_training.h"

namespace benchsuite::testing_cuda {
namespace {

using cuda_emulator::Fill;
using cuda_emulator::Pace;
using cuda_emulator::ThreadOrder;

/// What an op may touch; less than its operands shows that the guard sees it.
enum class Allowance { operands, all_but_the_last_element };

class Guard {
 public:
  Guard(Allowance allowance, std::optional<Fill> outputs) : allowance_(allowance), outputs_(outputs) {}

  void add(RankMemory& memory) {
    const std::scoped_lock lock(mutex_);
    ranks_[memory.rank()].rank = &dynamic_cast<cuda::WorldRank&>(memory).cuda();
  }
  std::size_t confined() const { return confined_; }
  std::size_t filled() const { return filled_; }

  void operator()(const cuda_emulator::Operation& operation, bool begins) {
    if (operation.range.empty()) return;  // copies of the host
    const std::scoped_lock lock(mutex_);
    const auto found = ranks_.find(operation.device);
    if (found == ranks_.end()) return;
    const cuda::CudaRank& rank = *found->second.rank;
    if (!begins) {
      ASAN_UNPOISON_MEMORY_REGION(rank.pool().data(), rank.pool().size());
      return;
    }
    ++confined_;
    const auto id = static_cast<OpId>(operation.payload);
    const Op& op = rank.program().ops[id];
    OpId& before = found->second.last[static_cast<std::size_t>(op.stream)];
    if (outputs_ && before != id) fill_outputs(rank, op);  // not again before its second kernel
    before = id;
    ASAN_POISON_MEMORY_REGION(rank.pool().data(), rank.pool().size());
    for (const Operand& operand : rank.program().operands_of(op)) {
      const std::span<std::byte> bytes = place_of(rank, operand);
      const std::size_t missing = allowance_ == Allowance::operands ? 0 : 4;
      ASAN_UNPOISON_MEMORY_REGION(bytes.data(), bytes.size() - missing);
    }
    const std::span<std::byte> workspace = rank.workspace(op.stream);
    ASAN_UNPOISON_MEMORY_REGION(workspace.data(), workspace.size());
  }

 private:
  struct Watched {
    const cuda::CudaRank* rank = nullptr;
    std::array<OpId, kStreams> last;
    Watched() { last.fill(kNone); }
  };

  static std::span<std::byte> place_of(const cuda::CudaRank& rank, const Operand& operand) {
    const Buffer& buffer = rank.program().buffers[operand.buffer];
    return rank.arena(buffer.purpose).subspan(buffer.offset + operand.offset, operand.bytes);
  }

  void fill_outputs(const cuda::CudaRank& rank, const Op& op) {
    const auto operands = rank.program().operands_of(op);
    for (const Operand& output : operands) {
      if (output.access != Access::write) continue;
      const std::span<std::byte> bytes = place_of(rank, output);
      const bool also_read = std::any_of(operands.begin(), operands.end(), [&](const Operand& other) {
        const std::span<std::byte> its = place_of(rank, other);
        return other.access != Access::write && its.data() < bytes.data() + bytes.size() && bytes.data() < its.data() + its.size();
      });
      if (also_read) continue;  // a gather in place
      std::memset(bytes.data(), static_cast<int>(*outputs_), bytes.size());
      ++filled_;
    }
  }

  std::mutex mutex_;
  std::map<int, Watched> ranks_;
  const Allowance allowance_;
  const std::optional<Fill> outputs_;
  std::size_t confined_ = 0, filled_ = 0;
};

/// Three steps of training, the last two as graphs, with the guard on.
CpuTrainingResult train_guarded(const TrainConfig& config, Guard& guard, cuda_emulator::Settings settings = {}) {
  settings.devices = RankGrid(config.layout).world();
  cuda_emulator::reset(settings);
  cuda_emulator::observe([&](const cuda_emulator::Operation& operation, bool begins) { guard(operation, begins); });
  const auto run = [&](const std::vector<const Program*>& programs, const HostWorkOn<RankMemory>& host, int steps) {
    HostWorkOn<RankMemory> watched = host;
    watched.init = [&](RankMemory& rank) {
      host.init(rank);
      guard.add(rank);
    };
    cuda::run_ranks(programs, watched, steps, {.gemm_workspace = kGemmWorkspace});
  };
  const CpuTrainingResult result = train_on(config, {.steps = 3, .collect_gradients = true}, run);
  cuda_emulator::observe(nullptr);
  return result;
}

struct Case {
  const char* name;
  TrainConfig (*config)();
};
void PrintTo(const Case& which, std::ostream* out) { *out << which.name; }

const Case kCases[] = {
    {"gpt_fp32", [] { return small_gpt(DType::fp32); }},
    {"gpt_bf16", [] { return small_gpt(DType::bf16); }},
    {"llama_flash_bf16",
     [] {
       TrainConfig config = small_llama(DType::bf16);
       config.layout.attention = AttentionKernel::flash;
       return config;
     }},
    {"fused_attention_bf16", [] { return small_llama_fused(DType::bf16); }},
    {"tp2_sp_pp2_dp2_zero1",
     [] {
       TrainConfig config = small_gpt(DType::bf16);
       config.layout.tp = config.layout.pp = config.layout.dp = 2, config.layout.sequence_parallel = true;
       config.layout.zero_stage = 1, config.stack.overlaps_gradient_reduction = config.stack.overlaps_pipeline = true;
       return config;
     }},
    {"dp2_zero3_full_recompute",
     [] {
       TrainConfig config = small_llama(DType::bf16);
       config.layout.dp = 2, config.layout.zero_stage = 3;
       config.layout.recompute.granularity = RecomputeGranularity::full;
       return config;
     }},
};

class GuardedStep : public ::testing::TestWithParam<Case> {};

TEST_P(GuardedStep, OpsStayInsideTheirOperandsAndWriteAllOfTheirOutputs) {
  const TrainConfig config = GetParam().config();
  const CpuTrainingResult reference = train_emulated(config);
  Guard first(Allowance::operands, Fill::not_a_number), second(Allowance::operands, Fill::small);
  expect_same_bits(train_guarded(config, first, {.seed = 3, .order = ThreadOrder::reverse, .pace = Pace::late}), reference);
  expect_same_bits(train_guarded(config, second, {.seed = 4, .order = ThreadOrder::shuffled, .fill = Fill::small}), reference);
  EXPECT_GT(first.confined(), 300u);
  EXPECT_GT(first.filled(), 200u);
}

INSTANTIATE_TEST_SUITE_P(Layouts, GuardedStep, ::testing::ValuesIn(kCases), [](const auto& info) { return info.param.name; });

TEST(GuardedStepDeathTest, ReadingOneElementBesideWouldBeSeen) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Guard tight(Allowance::all_but_the_last_element, std::nullopt);
  EXPECT_DEATH(train_guarded(small_gpt(DType::fp32), tight), "use-after-poison");
}

}  // namespace
}  // namespace benchsuite::testing_cuda
