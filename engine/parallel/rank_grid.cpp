#include "engine/parallel/rank_grid.h"

#include <string>

#include "engine/core/error.h"

namespace benchsuite {

RankGrid::RankGrid(const Layout& layout) : tp_(layout.tp), cp_(layout.cp), dp_(layout.dp), pp_(layout.pp) {
  CHECK(tp_ >= 1 && cp_ >= 1 && dp_ >= 1 && pp_ >= 1)
      << "tp " << tp_ << ", cp " << cp_ << ", dp " << dp_ << ", pp " << pp_;
  narrow<int>(tp_ * cp_ * dp_ * pp_);
}

Coordinates RankGrid::coordinates(int rank) const {
  CHECK(rank >= 0 && rank < world()) << "rank " << rank << " of " << world();
  std::int64_t rest = rank;
  const auto take = [&rest](std::int64_t extent) {
    const int value = static_cast<int>(rest % extent);
    rest /= extent;
    return value;
  };
  Coordinates at;
  at.tp = take(tp_);
  at.cp = take(cp_);
  at.dp = take(dp_);
  at.pp = take(pp_);
  return at;
}

int RankGrid::rank_at(const Coordinates& at) const {
  CHECK(at.tp >= 0 && at.tp < tp_ && at.cp >= 0 && at.cp < cp_ && at.dp >= 0 && at.dp < dp_ && at.pp >= 0 &&
        at.pp < pp_)
      << "tp " << at.tp << ", cp " << at.cp << ", dp " << at.dp << ", pp " << at.pp;
  return static_cast<int>(at.tp + tp_ * (at.cp + cp_ * (at.dp + dp_ * at.pp)));
}

Group RankGrid::tensor(int rank) const {
  Group group{GroupKind::tensor, {}};
  Coordinates at = coordinates(rank);
  for (at.tp = 0; at.tp < tp_; ++at.tp) group.ranks.push_back(rank_at(at));
  return group;
}

Group RankGrid::data(int rank) const {
  Group group{GroupKind::data, {}};
  Coordinates at = coordinates(rank);
  for (at.dp = 0; at.dp < dp_; ++at.dp) {
    for (at.cp = 0; at.cp < cp_; ++at.cp) group.ranks.push_back(rank_at(at));
  }
  return group;
}

Group RankGrid::model_parallel(int rank) const {
  Group group{GroupKind::model_parallel, {}};
  Coordinates at = coordinates(rank);
  for (at.pp = 0; at.pp < pp_; ++at.pp) {
    for (at.tp = 0; at.tp < tp_; ++at.tp) group.ranks.push_back(rank_at(at));
  }
  return group;
}

Group RankGrid::world_group() const {
  Group group{GroupKind::world, {}};
  for (int rank = 0; rank < world(); ++rank) group.ranks.push_back(rank);
  return group;
}

Group RankGrid::embedding(int rank) const {
  Group group{GroupKind::embedding, {}};
  Coordinates at = coordinates(rank);
  at.pp = 0;
  group.ranks.push_back(rank_at(at));
  at.pp = static_cast<int>(pp_) - 1;
  if (pp_ > 1) group.ranks.push_back(rank_at(at));
  return group;
}

int RankGrid::neighbour(int rank, int step) const {
  CHECK(pp_ > 1) << "rank " << rank << " has no neighbour stage: the layout has no pipeline";
  Coordinates at = coordinates(rank);
  const int stages = static_cast<int>(pp_);
  at.pp = (at.pp + step + stages) % stages;
  return rank_at(at);
}

Group RankGrid::channel_to_next(int rank) const { return {GroupKind::pipeline_forward, {rank, neighbour(rank, 1)}}; }

Group RankGrid::channel_from_previous(int rank) const {
  return {GroupKind::pipeline_forward, {neighbour(rank, -1), rank}};
}

Group RankGrid::channel_to_previous(int rank) const {
  return {GroupKind::pipeline_backward, {rank, neighbour(rank, -1)}};
}

Group RankGrid::channel_from_next(int rank) const { return {GroupKind::pipeline_backward, {neighbour(rank, 1), rank}}; }

namespace {

std::int64_t layers_in(std::int64_t layers, const Layout& layout, std::int64_t stage, std::int64_t chunk) {
  const LayerSplit& split = layout.layer_split;
  const std::int64_t p = layout.pp, v = layout.vpp;
  if (split.counts_embedding || split.counts_loss) {
    const bool embedding = split.counts_embedding && stage == 0 && chunk == 0;
    const bool loss = split.counts_loss && stage == p - 1 && chunk == v - 1;
    const std::int64_t all = layers + (split.counts_embedding ? 1 : 0) + (split.counts_loss ? 1 : 0);
    return div_exact(all, p * v) - (embedding ? 1 : 0) - (loss ? 1 : 0);
  }
  if (!split.stages.empty()) return div_exact(split.stages.at(static_cast<std::size_t>(stage)), v);
  if (split.first_stage > 0 && stage == 0) return div_exact(split.first_stage, v);
  if (split.last_stage > 0 && stage == p - 1) return div_exact(split.last_stage, v);
  const std::int64_t others = p - (split.first_stage > 0 ? 1 : 0) - (split.last_stage > 0 ? 1 : 0);
  return div_exact(layers - split.first_stage - split.last_stage, others * v);
}

}  // namespace

LayerRange layers_of(std::int64_t layers, const Layout& layout, std::int64_t stage, std::int64_t chunk) {
  CHECK(stage >= 0 && stage < layout.pp) << "stage " << stage << " of " << layout.pp;
  CHECK(chunk >= 0 && chunk < layout.vpp) << "chunk " << chunk << " of " << layout.vpp;
  LayerRange range;
  for (std::int64_t before = 0; before < chunk * layout.pp + stage; ++before) {
    range.first += layers_in(layers, layout, before % layout.pp, before / layout.pp);
  }
  range.count = layers_in(layers, layout, stage, chunk);
  return range;
}

Placement place(const Layout& layout, int gpus_per_node) {
  CHECK(gpus_per_node >= 1) << "gpus_per_node " << gpus_per_node;
  const int world = RankGrid(layout).world();
  const int nodes = div_ceil(world, gpus_per_node);
  const bool across = layout.placement == TensorPlacement::across_nodes;
  if (across && (layout.tp == 1 || nodes == 1)) {
    const std::string problem = layout.tp == 1
                                    ? "there is no tensor group to spread: layout.tp is 1"
                                    : "all " + std::to_string(world) + " ranks fit in one node of " +
                                          std::to_string(gpus_per_node) + " GPUs, so no tensor group can cross nodes";
    throw Error({Violation{"", "layout.placement", "\"across_nodes\"", problem, "set layout.placement to \"packed\""}});
  }
  Placement placement;
  placement.gpus_per_node = gpus_per_node;
  for (int rank = 0; rank < world; ++rank) {
    placement.node.push_back(across ? rank % nodes : rank / gpus_per_node);
    placement.slot.push_back(across ? rank / nodes : rank % gpus_per_node);
  }
  return placement;
}

}  // namespace benchsuite
