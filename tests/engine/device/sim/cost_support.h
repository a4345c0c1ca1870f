// What the tests of the cost model share: committed profiles, placements, shapes.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "engine/device/sim/cost_model.h"

namespace benchsuite {

inline HardwareProfile committed(const std::string& name) {
  return load_hardware(std::string(BENCHSUITE_SOURCE_DIR) + "/cases/hardware/" + name + ".json");
}

/// Whole nodes, ranks in order.
inline Placement nodes_of(int nodes, int gpus) {
  Placement placement;
  placement.gpus_per_node = gpus;
  for (int rank = 0; rank < nodes * gpus; ++rank) {
    placement.node.push_back(rank / gpus);
    placement.slot.push_back(rank % gpus);
  }
  return placement;
}

inline OpShape shape_of(OpKind kind, std::array<std::int64_t, 6> dims, DType in = DType::bf16, DType out = DType::bf16) {
  OpShape shape;
  shape.kind = kind;
  shape.dtype = in;
  shape.out_dtype = out;
  shape.dims = dims;
  return shape;
}

inline Group group_of(std::vector<int> ranks) { return {GroupKind::tensor, std::move(ranks)}; }

}  // namespace benchsuite
