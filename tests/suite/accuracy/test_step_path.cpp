// Chains of hand-written steps whose launches take 10 ps each.
#include "suite/accuracy/step_path.h"

#include <gtest/gtest.h>

#include "engine/device/sim/cost_model.h"
#include "tests/engine/device/sim/toy.h"

namespace benchsuite {
namespace {

using toy::Builder;

constexpr Picoseconds kLaunch = 10;

struct Parts {
  double launches = 0, ops = 0;  ///< ps
};

Parts parts_of_the_chain(const std::vector<Builder>& ranks) {
  const World world = whole_world(toy::programs_of(ranks));
  const PricedWorld priced = price(world, toy::costs({}, {.per_op = kLaunch}));
  const ReplayResult replayed = replay(priced);
  HardwareProfile machine;
  machine.gpus_per_node = 1;
  Placement placement;
  placement.gpus_per_node = 1;
  placement.node = placement.slot = {0};
  const StepPath path = PathFinder(world).find(priced, replayed, CostModel(machine, placement));
  EXPECT_NEAR(path.seconds() / kSecondsPerPicosecond, static_cast<double>(replayed.step), 1e-6);
  Parts parts{.launches = path.launch_s / kSecondsPerPicosecond};
  for (const PathEntry& entry : path.entries) parts.ops += entry.seconds / kSecondsPerPicosecond;
  return parts;
}

// The first op runs from 10 to 110; launches follow the host's wait for it.
TEST(StepPath, LaunchesFollowWhatTheHostWaitedFor) {
  std::vector<Builder> ranks{Builder(0)};
  ranks[0].compute(100);
  ranks[0].program.ops[ranks[0].compute(1)].host_waits = true;
  for (int i = 0; i < 3; ++i) ranks[0].compute(1);
  const Parts parts = parts_of_the_chain(ranks);
  EXPECT_NEAR(parts.launches, 10 + 4 * kLaunch, 1e-6);
  EXPECT_NEAR(parts.ops, 100 + 1, 1e-6);
}

// Before its last op the host waits again, but comes there when the device has long been done: it launched copies meanwhile.
TEST(StepPath, AWaitThatTookNoTimeIsNoneOfTheChains) {
  const Group self{GroupKind::tensor, {0}};
  std::vector<Builder> ranks{Builder(0)};
  ranks[0].compute(100);
  ranks[0].program.ops[ranks[0].compute(1)].host_waits = true;
  for (int i = 0; i < 3; ++i) ranks[0].transfer(OpKind::all_gather, StreamKind::tensor, self, {1});
  ranks[0].program.ops[ranks[0].compute(1)].host_waits = true;
  const Parts parts = parts_of_the_chain(ranks);
  EXPECT_NEAR(parts.launches, 10 + 5 * kLaunch, 1e-6);
  EXPECT_NEAR(parts.ops, 100 + 1, 1e-6);
}

}  // namespace
}  // namespace benchsuite
