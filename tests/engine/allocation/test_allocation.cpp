// After the first, a step on device cpu allocates nothing: kernels reuse their scratch, collectives their rendezvous.
// This program replaces operator new by one that counts, so it is a program of its own. (The matrix library's own buffers come
// from malloc and are not counted.)
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <new>

#include "engine/device/cpu/run_ranks.h"
#include "engine/train/cpu_host.h"
#include "engine/train/cpu_training.h"

namespace {

thread_local bool counting = false;
std::atomic<int> allocations = 0;

void* allocate(std::size_t bytes, std::size_t alignment) {
  if (counting) ++allocations;
  void* memory = alignment <= alignof(std::max_align_t)
                     ? std::malloc(bytes == 0 ? 1 : bytes)
                     : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (!memory) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t bytes) { return allocate(bytes, 1); }
void* operator new[](std::size_t bytes) { return allocate(bytes, 1); }
void* operator new(std::size_t bytes, std::align_val_t alignment) { return allocate(bytes, static_cast<std::size_t>(alignment)); }
void* operator new[](std::size_t bytes, std::align_val_t alignment) { return allocate(bytes, static_cast<std::size_t>(alignment)); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace benchsuite {
namespace {

TrainConfig tiny(ModelFamily family) {
  TrainConfig config;
  config.model = {.name = "tiny", .family = family, .layers = 4, .hidden = 32, .ffn_hidden = 64, .heads = 4,
                  .kv_heads = family == ModelFamily::gpt ? 4 : 2, .seq = 16, .vocab = 256, .dropout = 0.1};
  config.layout.precision = DType::fp32;
  config.layout.attention = AttentionKernel::unfused;
  config.layout.global_batch = 4;
  config.stack.sharded_parameters = {
      .prefetch_elements = 6000, .max_live_elements = 30000, .max_reuse_distance = 5000, .persistence_threshold = 64};
  return config;
}

/// Allocations of all ranks inside run_step, from step `first` on.
int allocations_from(const TrainConfig& config, int first, int steps) {
  const RankGrid grid(config.layout);
  std::vector<RecordedStep> recorded;
  std::vector<const Program*> programs;
  for (int rank = 0; rank < grid.world(); ++rank) recorded.push_back(record_step(config, rank));
  for (const RecordedStep& step : recorded) programs.push_back(&step.program);
  const auto bindings = [&](CpuRank& rank) -> const StepBindings& {
    return recorded[static_cast<std::size_t>(rank.rank())].bindings;
  };
  const TokenSource source = [&](std::int64_t sample, std::span<std::int32_t> tokens) {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = synthetic_token(7, sample, static_cast<std::int64_t>(i), config.model.vocab);
    }
  };
  HostWork host;
  host.init = [&](CpuRank& rank) { initialise_parameters(rank, bindings(rank), config.model.layers, 7); };
  host.before_step = [&](CpuRank& rank, int step) {
    fill_inputs(rank, bindings(rank), config, grid.coordinates(rank.rank()), step, 7, source, {});
    counting = step >= first;
  };
  host.after_step = [](CpuRank&, int) { counting = false; };
  allocations = 0;
  run_ranks(programs, host, steps);
  return allocations;
}

struct Configuration {
  const char* name;
  std::function<void(TrainConfig&)> change;
};

const Configuration kConfigurations[] = {
    {"one_rank", [](auto&) {}},
    {"flash_bf16", [](auto& c) { c.layout.attention = AttentionKernel::flash, c.layout.precision = DType::bf16; }},
    {"tp2_sp_pp2_dp2",
     [](auto& c) { c.layout.tp = c.layout.pp = c.layout.dp = 2, c.layout.sequence_parallel = true; }},
    {"pp2_v2_full",
     [](auto& c) {
       c.layout.pp = c.layout.vpp = 2, c.layout.schedule = ScheduleKind::interleaved;
       c.layout.recompute.granularity = RecomputeGranularity::full;
     }},
    {"dp2_zero3_bf16_overlapped",
     [](auto& c) {
       c.layout.dp = 2, c.layout.zero_stage = 3, c.layout.precision = DType::bf16;
       c.stack.overlaps_gradient_reduction = true;
     }},
};

void PrintTo(const Configuration& configuration, std::ostream* out) { *out << configuration.name; }

class Allocation : public testing::TestWithParam<std::tuple<ModelFamily, Configuration>> {};

TEST_P(Allocation, AStepAfterTheFirstAllocatesNothing) {
  const auto& [family, configuration] = GetParam();
  TrainConfig config = tiny(family);
  configuration.change(config);
  EXPECT_EQ(allocations_from(config, 1, 5), 0);
}

TEST(CountingAllocations, SeesTheFirstStep) { EXPECT_GT(allocations_from(tiny(ModelFamily::gpt), 0, 1), 0); }

INSTANTIATE_TEST_SUITE_P(Configurations, Allocation,
                         testing::Combine(testing::Values(ModelFamily::gpt, ModelFamily::llama),
                                          testing::ValuesIn(kConfigurations)),
                         [](const auto& info) {
                           return std::string(name_of(std::get<0>(info.param))) + "_" + std::get<1>(info.param).name;
                         });

}  // namespace
}  // namespace benchsuite
