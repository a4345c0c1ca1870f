// The replay on a hardware profile: replay.h's entry points are priced_world.h's with a CostModel as the source.
#include "engine/device/sim/cost_model.h"
#include "engine/device/sim/priced_world.h"

namespace benchsuite {

CostSource source_of(const CostModel& costs) {
  return {[&costs](const OpShape& shape, Site site) { return costs.compute_cost(shape, site); },
          [&costs](const OpShape& shape, const Group& group) { return costs.transfer(shape, group); }, costs.host()};
}

std::string why_not_collapsible(const World& world, const CostModel& costs) {
  return why_not_collapsible(world, source_of(costs));
}

ReplayResult replay(const World& world, const CostModel& costs) { return replay(price(world, source_of(costs))); }

}  // namespace benchsuite
