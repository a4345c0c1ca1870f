// What a stack adds to the recorded allocations: context, communicators, allocator segments, workspace.
#include "suite/measure/memory_report.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "engine/train/reserved_memory.h"
#include "engine/train/step.h"

namespace benchsuite {
namespace {

constexpr std::int64_t kCapacity = 80'000'000'000;

TrainConfig two_stages() {
  TrainConfig c;
  c.model = {.name = "tiny", .layers = 4, .hidden = 64, .ffn_hidden = 256, .heads = 4, .kv_heads = 4, .seq = 32, .vocab = 1000};
  c.layout.tp = c.layout.dp = c.layout.pp = 2;
  c.layout.micro_batch = 2;
  c.layout.global_batch = 16;
  return c;
}

double bytes_of(const StageMemory& stage, const std::string& purpose) {
  const auto found = std::find_if(stage.by_purpose.begin(), stage.by_purpose.end(),
                                  [&](const auto& entry) { return entry.first == purpose; });
  return found == stage.by_purpose.end() ? -1 : found->second;
}

TEST(MemoryReport, TheStacksOverheadComesOnTopOfTheProgram) {
  TrainConfig config = two_stages();
  const Program program = record_step(config, 0).program;
  const MeasuredMemory plain = measure_memory(config, 0, program, kCapacity, 8);
  EXPECT_EQ(bytes_of(plain.stage, "overhead"), 0);

  config.stack.context_bytes = 500'000'000;
  config.stack.communicator_bytes = 9'000'000;
  config.stack.segment_bytes = 2'000'000;
  config.stack.workspace_bytes = 32'000'000;
  const MeasuredMemory full = measure_memory(config, 0, program, kCapacity, 8);
  const auto arenas = std::count_if(program.arena_bytes.begin(), program.arena_bytes.end(),
                                    [](std::uint64_t bytes) { return bytes > 0; });
  ASSERT_GT(program.groups.size(), 1u);
  ASSERT_GT(arenas, 1);
  const double overhead = 500e6 + 9e6 * static_cast<double>(program.groups.size()) + 2e6 * static_cast<double>(arenas);
  EXPECT_EQ(bytes_of(full.stage, "overhead"), overhead);
  EXPECT_EQ(bytes_of(full.stage, "workspace"), bytes_of(plain.stage, "workspace") + 32e6);
  EXPECT_EQ(full.stage.peak_bytes, plain.stage.peak_bytes + overhead + 32e6);
  EXPECT_EQ(full.reserved_bytes, plain.reserved_bytes + overhead + 32e6);
  double named = 0;
  for (const StageMemory::Term& term : full.stage.terms)
    if (term.purpose == "overhead") named += term.bytes;
  EXPECT_EQ(named, overhead);
}

// A caching allocator has what the context and the communicators leave of the device.
TEST(MemoryReport, ACachingAllocatorSharesTheDeviceWithTheOverhead) {
  TrainConfig config = two_stages();
  config.stack.caching_allocator = true;
  const Program program = record_step(config, 0).program;
  const std::uint64_t own = reserve_memory(program, config.stack, kCapacity).reserved_bytes;
  config.stack.context_bytes = 500'000'000;
  config.stack.node_communicator_bytes = 80'000'000;  // of two tensor ranks, of two replicas and of all eight
  const auto all = static_cast<std::int64_t>(own) + 740'000'000;
  const MeasuredMemory enough = measure_memory(config, 0, program, all, 8);
  EXPECT_TRUE(enough.fits);
  EXPECT_EQ(enough.reserved_bytes, static_cast<double>(all));
  EXPECT_EQ(enough.stage.reserved_bytes, enough.reserved_bytes);
  EXPECT_GE(enough.reserved_bytes, enough.stage.peak_bytes);
  EXPECT_FALSE(measure_memory(config, 0, program, 740'000'000, 8).fits);
}

// Communicators inside nodes: a group of ranks that all sit on different nodes has none.
TEST(MemoryReport, GroupsThatReduceInsideNodes) {
  TrainConfig config = two_stages();
  config.stack.node_communicator_bytes = 1000;
  const auto overhead = [&](int gpus_per_node) {
    const Program program = record_step(config, 0).program;
    return bytes_of(measure_memory(config, 0, program, kCapacity, gpus_per_node).stage, "overhead");
  };
  EXPECT_EQ(overhead(8), 3000);
  EXPECT_EQ(overhead(2), 2000) << "tensor ranks 0 and 1 and all eight; replicas 0 and 2 are on two nodes";
  EXPECT_EQ(overhead(1), 0);
  config.layout.tp = 1;
  config.layout.dp = 4;
  EXPECT_EQ(overhead(8), 2000) << "one rank alone needs none";
  config.layout.pp = 1;
  EXPECT_EQ(overhead(8), 1000) << "the four replicas are all ranks";
}

}  // namespace
}  // namespace benchsuite
