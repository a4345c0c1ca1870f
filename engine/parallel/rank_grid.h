// Rank order and process groups (megatron-core parallel_state.py): tp varies fastest, then cp, ep, dp, and pp slowest.
//
//   rank = tp + t (cp + c (dp + d pp))
#pragma once

#include <cstdint>
#include <vector>

#include "engine/parallel/layout.h"
#include "engine/program/placement.h"
#include "engine/program/program.h"

namespace benchsuite {

struct Coordinates {
  int tp = 0, cp = 0, dp = 0, pp = 0;
  friend bool operator==(const Coordinates&, const Coordinates&) = default;
};

class RankGrid {
 public:
  explicit RankGrid(const Layout& layout);

  int world() const { return static_cast<int>(tp_ * cp_ * dp_ * pp_); }
  Coordinates coordinates(int rank) const;
  int rank_at(const Coordinates& at) const;

  Group tensor(int rank) const;          ///< same cp, dp, pp
  Group data(int rank) const;            ///< same tp, pp (data and context parallel together)
  Group model_parallel(int rank) const;  ///< tp x pp of one replica: gradient norm
  Group world_group() const;
  /// First and last stage of the rank's pipeline; one rank when p = 1.
  Group embedding(int rank) const;
  /// Activations from the rank's stage to the next, wrapping from the last to the first (interleaved). The four
  /// channels need p > 1; with p = 2 both neighbours are the same rank, and the kinds keep the two directions apart.
  Group channel_to_next(int rank) const;
  Group channel_from_previous(int rank) const;
  /// Gradients, the other way.
  Group channel_to_previous(int rank) const;
  Group channel_from_next(int rank) const;

 private:
  /// The same (tp, cp, dp) `step` stages on, round the pipeline. Throws without a pipeline.
  int neighbour(int rank, int step) const;

  std::int64_t tp_, cp_, dp_, pp_;
};

/// Global layer indices [first, first + count) of chunk `chunk` on stage `stage`: global stage chunk * p + stage. Stages hold
/// equal numbers, but for what layout.layer_split says (megatron-core get_transformer_layer_offset).
struct LayerRange {
  std::int64_t first = 0, count = 0;
};
LayerRange layers_of(std::int64_t layers, const Layout& layout, std::int64_t stage, std::int64_t chunk);

/// Nodes and slots of every rank, on ceil(world / gpus_per_node) nodes. `packed`: node rank / gpus_per_node.
/// `across_nodes`: node rank % nodes, slot rank / nodes, so that every tensor group touches min(t, nodes) nodes; throws
/// (config, layout.placement) where that is impossible: t = 1 or a single node.
Placement place(const Layout& layout, int gpus_per_node);

}  // namespace benchsuite
