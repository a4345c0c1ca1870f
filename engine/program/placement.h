// Where ranks sit: the node of each rank and its GPU slot inside the node.
#pragma once

#include <vector>

namespace benchsuite {

struct Placement {
  int gpus_per_node = 8;
  std::vector<int> node;  ///< by global rank
  std::vector<int> slot;  ///< by global rank, 0 .. gpus_per_node-1: also the NIC rail of the rank

  int world() const { return static_cast<int>(node.size()); }
};

}  // namespace benchsuite
