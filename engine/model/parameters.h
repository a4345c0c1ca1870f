// The parameters of one model chunk on one rank, in order of definition.
#pragma once

#include <deque>

#include "engine/model/chunk.h"
#include "engine/model/model_context.h"
#include "engine/parallel/parameter.h"

namespace benchsuite {

struct ChunkParameters {
  // Layers and buckets point at the parameters: they may move as a whole, never be copied.
  ChunkParameters() = default;
  ChunkParameters(ChunkParameters&&) = default;
  ChunkParameters(const ChunkParameters&) = delete;

  std::deque<Parameter> all;  ///< stable addresses; values and gradients are bound later
  std::vector<LayerParameters> layers;
  EndParameters ends;
  std::int64_t first_layer = 0;
  std::vector<Part> part_of;  ///< by index in `all`
};

/// Parameters of chunk `chunk`. A tied head's copy of the word embedding is a Parameter of its own with its own gradient
/// (Parameter::shared_copy); with p = 1 its value is the embedding's.
ChunkParameters make_chunk_parameters(const ModelContext& context, std::int64_t chunk);

}  // namespace benchsuite
