// How many layers a pipeline stage and its chunks hold, as closed formulas: for the yardsticks (formulas.h, flops.h), which share
// no code with what records a step (layers_of in engine/parallel/rank_grid.h).
#pragma once

#include <cstdint>

#include "engine/model/config.h"
#include "engine/parallel/layout.h"

namespace benchsuite {

struct StageLayers {
  std::int64_t all = 0;    ///< of the stage
  std::int64_t chunk = 0;  ///< of each of its v chunks, but for the light one
  /// The chunk that holds one layer less, because the embedding or the loss counts as one.
  enum class Light : std::uint8_t { none, first_chunk, last_chunk } light = Light::none;
};

/// Fails (internal) when the layers cannot be divided as the layout says.
StageLayers stage_layers(const ModelConfig& model, const Layout& layout, std::int64_t stage);

}  // namespace benchsuite
