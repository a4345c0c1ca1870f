// Collapsed, reordered and operand-free worlds against the whole one: equal to the picosecond.
#include <gtest/gtest.h>

#include "engine/device/sim/collapse.h"
#include "engine/device/sim/priced_world.h"
#include "engine/device/sim/replay.h"
#include "engine/parallel/rank_grid.h"
#include "engine/train/step.h"
#include "suite/measure/simulate.h"
#include "tests/suite/measure/layouts.h"

namespace benchsuite {
namespace {

TEST(WholeWorld, OneRankPerStageStandsForAllRanksToThePicosecond) {
  for (const char* hardware : {"dgx-h100", "dgx-h100-1x100g"}) {
    for (const TensorPlacement placement_kind : {TensorPlacement::packed, TensorPlacement::across_nodes}) {
      TrainConfig config = gpt_13b();
      config.layout.placement = placement_kind;
      const bool waits = placement_kind == TensorPlacement::packed;
      config.stack.host_waits = {.inputs = waits, .exchanges = waits, .pieces = waits, .objects = waits, .sequence_lengths = waits};
      config.layout.recompute.granularity = RecomputeGranularity::full;
      const HardwareProfile machine = profile(hardware);
      const Placement placement = place(config.layout, machine.gpus_per_node);
      const CostModel costs(machine, placement, host_of(config.stack, machine));
      std::vector<Program> programs;
      for (int rank = 0; rank < 16; ++rank) programs.push_back(record_step(config, rank).program);
      std::vector<const Program*> pointers;
      for (const Program& program : programs) pointers.push_back(&program);
      const ReplayResult whole = replay(whole_world(pointers), costs);

      const VariantResult collapsed = simulate(config, machine, {});
      EXPECT_EQ(collapsed.step, whole.step) << hardware;
      World world;
      const RankGrid grid(config.layout);
      for (int stage = 0; stage < 4; ++stage)
        world.programs.push_back(pointers[static_cast<std::size_t>(grid.rank_at({.pp = stage}))]);
      for (int rank = 0; rank < 16; ++rank) world.role_of_rank.push_back(grid.coordinates(rank).pp);
      ASSERT_EQ(why_not_collapsible(world, costs), "");
      const ReplayResult roles = replay(world, costs);
      for (int rank = 0; rank < 16; ++rank) {
        const Timeline& a = whole.timelines[static_cast<std::size_t>(rank)];
        const Timeline& b = roles.timelines[static_cast<std::size_t>(grid.coordinates(rank).pp)];
        ASSERT_EQ(a.spans.size(), b.spans.size());
        for (std::size_t op = 0; op < a.spans.size(); ++op) {
          ASSERT_EQ(a.spans[op].start, b.spans[op].start) << "rank " << rank << " op " << op;
          ASSERT_EQ(a.spans[op].end, b.spans[op].end) << "rank " << rank << " op " << op;
        }
      }
    }
  }
}

// What overlaps what decides when roles may go on alone: every kind of overlap, in recorded steps.
TEST(WholeWorld, TheOrderOfRolesChangesNoSpan) {
  for (const int stage : {0, 1, 3}) {
    for (const bool overlaps : {false, true}) {
      TrainConfig config = tiny();
      config.model.hidden = 96, config.model.ffn_hidden = 400;
      Layout& layout = config.layout;
      layout.tp = 2;
      layout.pp = layout.vpp = stage == 3 ? 1 : 2;
      layout.schedule = stage == 3 ? ScheduleKind::one_f_one_b : ScheduleKind::interleaved;
      layout.dp = 2;
      layout.global_batch = 2 * 4 * 2;
      layout.zero_stage = stage;
      config.stack.overlaps_tensor_backward = config.stack.overlaps_pipeline_interleaved = overlaps;
      config.stack.overlaps_gradient_reduction = overlaps;
      config.stack.host_waits = {.inputs = true, .exchanges = !overlaps, .pieces = true, .objects = true, .sequence_lengths = true};
      const HardwareProfile machine = profile("dgx-a100-80g");
      const Placement placement = place(layout, 2);
      HardwareProfile small = machine;
      small.gpus_per_node = 2;  // pipeline and data cross nodes and share NICs
      const CostModel costs(small, placement, host_cost(small, LaunchMode::eager, 0));
      std::vector<int> ranks;
      for (int rank = 0; rank < layout.world(); ++rank) ranks.push_back(rank);
      const std::vector<Program> programs = record_programs(config, ranks, 1, RecordedDetail::without_operands);
      std::vector<const Program*> pointers;
      for (const Program& program : programs) pointers.push_back(&program);
      const PricedWorld world = price(whole_world(pointers), source_of(costs));
      const ReplayResult by_time = replay(world, ReplayOrder::by_time), by_role = replay(world);
      for (std::size_t rank = 0; rank < programs.size(); ++rank) {
        for (std::size_t op = 0; op < programs[rank].ops.size(); ++op) {
          const Span &a = by_time.timelines[rank].spans[op], &b = by_role.timelines[rank].spans[op];
          ASSERT_TRUE(a.ready == b.ready && a.start == b.start && a.end == b.end) << "rank " << rank << " op " << op;
        }
      }
    }
  }
}

// Operands are for who proves or computes: without them a Program is the same in all else.
TEST(WholeWorld, AProgramWithoutOperandsIsTheSameProgram) {
  TrainConfig config = gpt_13b();
  const Program whole = record_programs(config, {5}, 1).front();
  const Program light = record_programs(config, {5}, 1, RecordedDetail::without_operands).front();
  EXPECT_FALSE(whole.operands.empty());
  EXPECT_TRUE(light.operands.empty());
  EXPECT_EQ(whole.waits, light.waits);
  EXPECT_EQ(whole.shapes, light.shapes);
  EXPECT_EQ(whole.arena_bytes, light.arena_bytes);
  ASSERT_EQ(whole.ops.size(), light.ops.size());
  ASSERT_EQ(whole.buffers.size(), light.buffers.size());
  for (std::size_t i = 0; i < whole.ops.size(); ++i) {
    ASSERT_EQ(whole.ops[i].shape, light.ops[i].shape) << i;
    ASSERT_EQ(whole.ops[i].first_wait, light.ops[i].first_wait) << i;
  }
  for (std::size_t i = 0; i < whole.buffers.size(); ++i) {
    ASSERT_EQ(whole.buffers[i].offset, light.buffers[i].offset) << i;
    ASSERT_EQ(whole.buffers[i].free_at, light.buffers[i].free_at) << i;
  }
}

// Replicas own slices that cut parameters at different places under ZeRO: each is a role of its own.
TEST(WholeWorld, EveryReplicaCountsUnderZero) {
  for (const int stage : {1, 2, 3}) {
    TrainConfig config = tiny();
    config.model.hidden = 96, config.model.ffn_hidden = 400;
    Layout& layout = config.layout;
    layout.tp = layout.pp = layout.vpp = 2;
    layout.dp = 4;
    layout.schedule = ScheduleKind::interleaved;
    layout.recompute.granularity = RecomputeGranularity::full;
    layout.global_batch = 2 * 4 * 4;
    layout.zero_stage = stage;
    const HardwareProfile machine = profile("dgx-h100");
    const Placement placement = place(layout, machine.gpus_per_node);
    const CostModel costs(machine, placement, host_of(config.stack, machine));
    std::vector<Program> programs;
    for (int rank = 0; rank < layout.world(); ++rank) programs.push_back(record_step(config, rank).program);
    std::vector<const Program*> pointers;
    for (const Program& program : programs) pointers.push_back(&program);
    EXPECT_EQ(simulate(config, machine, {}).step, replay(whole_world(pointers), costs).step) << "stage " << stage;
  }
}

}  // namespace
}  // namespace benchsuite
