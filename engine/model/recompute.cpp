#include "engine/model/recompute.h"

#include <algorithm>

namespace benchsuite {

std::vector<LayerGroup> layer_groups(const RecomputeConfig& recompute, std::int64_t layers) {
  std::vector<LayerGroup> groups;
  const bool full = recompute.granularity == RecomputeGranularity::full;
  const bool uniform = full && recompute.method == RecomputeMethod::uniform;
  for (std::int64_t first = 0; first < layers;) {
    const std::int64_t count = uniform ? std::min(recompute.num_layers, layers - first) : 1;
    const bool recomputed = uniform || (full && first < recompute.num_layers);
    groups.push_back({first, count, recomputed});
    first += count;
  }
  return groups;
}

SaveSet kept_by_layer(const RecomputeConfig& recompute) {
  SaveSet keep = SaveSet::all();
  if (recompute.granularity != RecomputeGranularity::selective) return keep;
  if (recompute.selects(RecomputeModule::core_attn)) {
    keep = keep.without({Save::softmax_output, Save::softmax_dropout_mask, Save::softmax_dropped,
                         Save::attention_log_sum, Save::context_copy});
    // The flash kernel's backward reads its output, which is kept anyway as the input of the output projection.
  }
  if (recompute.selects(RecomputeModule::layernorm)) keep = keep.without({Save::attention_norm, Save::mlp_norm, Save::attention_scaled, Save::mlp_scaled});
  if (recompute.selects(RecomputeModule::mlp)) keep = keep.without({Save::fc1_output, Save::gelu_output, Save::silu_output});
  return keep;
}

}  // namespace benchsuite
