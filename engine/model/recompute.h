// Activation recompute policies (Korthikanti et al. 2022, section 5; megatron-core transformer_block.py).
//
//   none       every layer keeps what its backward pass needs
//   selective  named modules keep less and run part of their forward again
//   full       groups of layers keep only the group's input and run their whole forward again, collectives included
#pragma once

#include <vector>

#include "engine/model/layer_state.h"

namespace benchsuite {

/// A run of consecutive layers of one chunk that is kept or recomputed together.
struct LayerGroup {
  std::int64_t first = 0;   ///< index within the chunk
  std::int64_t count = 1;
  bool recomputed = false;  ///< keeps its input only
};

/// How `layers` layers of a chunk are grouped. uniform k: all layers in groups of k, each recomputed; block k: the first k
/// layers one by one, the rest kept; otherwise every layer is kept.
std::vector<LayerGroup> layer_groups(const RecomputeConfig& recompute, std::int64_t layers);

/// What a layer that is not part of a recomputed group keeps.
SaveSet kept_by_layer(const RecomputeConfig& recompute);

}  // namespace benchsuite
