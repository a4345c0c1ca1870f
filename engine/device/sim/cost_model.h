// What an op costs on a hardware profile, alone on the machine. Sharing (links, SMs) is the replay's business.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/core/letters.h"
#include "engine/device/sim/hardware.h"
#include "engine/program/placement.h"
#include "engine/program/program.h"

namespace benchsuite {

/// A shared link: one NIC (or one node's only NIC), one direction. Ids are dense and global.
using LinkId = std::int32_t;

/// One communication op, alone on the machine.
struct TransferCost {
  Picoseconds latency = 0;    ///< part that does not grow when a link is shared
  Picoseconds duration = 0;   ///< whole, latency included
  std::int32_t sm_permille = 0;  ///< share of the SMs its kernel occupies while resident
  std::vector<LinkId> links;  ///< node-crossing links it loads, sorted, each once; empty inside a node
};

class CostModel {
 public:
  /// The profile and placement must outlive the model. Throws when the placement's node size differs from the profile's.
  CostModel(const HardwareProfile& hardware, const Placement& placement);

  /// Duration of a compute op. `site` matters only where the profile frees whole sites (`ideal`).
  Picoseconds compute(const OpShape& shape, Site site) const;

  /// Cost of a communication op among `group.ranks`. A group of one costs nothing.
  TransferCost transfer(const OpShape& shape, const Group& group) const;

  int link_count() const;
  const HardwareProfile& hardware() const { return hardware_; }

 private:
  const HardwareProfile& hardware_;
  const Placement& placement_;
};

}  // namespace benchsuite
