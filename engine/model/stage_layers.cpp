#include "engine/model/stage_layers.h"

#include "engine/core/error.h"

namespace benchsuite {

StageLayers stage_layers(const ModelConfig& model, const Layout& layout, std::int64_t stage) {
  const LayerSplit& split = layout.layer_split;
  const bool first = stage == 0, last = stage == layout.pp - 1;
  StageLayers result;
  if (split.counts_embedding || split.counts_loss) {
    const std::int64_t ends = std::int64_t{split.counts_embedding} + std::int64_t{split.counts_loss};
    result.chunk = div_exact(model.layers + ends, layout.pp * layout.vpp);
    if (first && split.counts_embedding) result.light = StageLayers::Light::first_chunk;
    if (last && split.counts_loss) result.light = StageLayers::Light::last_chunk;
    result.all = result.chunk * layout.vpp - (result.light == StageLayers::Light::none ? 0 : 1);
    return result;
  }
  if (!split.stages.empty()) {
    result.all = split.stages.at(static_cast<std::size_t>(stage));
    result.chunk = div_exact(result.all, layout.vpp);
    return result;
  }
  const std::int64_t stated = std::int64_t{split.first_stage > 0} + std::int64_t{split.last_stage > 0};
  if (first && split.first_stage > 0) {
    result.all = split.first_stage;
  } else if (last && split.last_stage > 0) {
    result.all = split.last_stage;
  } else {
    result.all = div_exact(model.layers - split.first_stage - split.last_stage, layout.pp - stated);
  }
  result.chunk = div_exact(result.all, layout.vpp);
  return result;
}

}  // namespace benchsuite
