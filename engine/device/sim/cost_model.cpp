#include "engine/device/sim/cost_model.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "engine/core/error.h"
#include "engine/device/op_table.h"

namespace benchsuite {

namespace {

constexpr std::int64_t kQueryBlock = 128;  // query rows of one thread block in the fused attention kernels

Picoseconds to_picoseconds(double seconds) {
  CHECK(seconds >= 0 && seconds < 1e6) << "a duration of " << seconds << " s";
  return static_cast<Picoseconds>(std::llround(seconds / kSecondsPerPicosecond));
}

/// busbw = algbw * factor (nccl-tests PERFORMANCE.md).
double busbw_factor(OpKind kind, int ranks) {
  const double n = ranks;
  return kind == OpKind::all_reduce ? 2 * (n - 1) / n : (n - 1) / n;
}

double linear(double x, double x0, double y0, double x1, double y1) {
  return x1 == x0 ? y0 : y0 + (y1 - y0) * (x - x0) / (x1 - x0);
}

}  // namespace

CostModel::CostModel(const HardwareProfile& hardware, const Placement& placement)
    : hardware_(hardware), placement_(placement) {
  if (placement.gpus_per_node != hardware.gpus_per_node) {
    throw Error(Error::Kind::config, "hardware " + hardware.name + " has " + std::to_string(hardware.gpus_per_node) +
                                         " GPUs a node, the placement " + std::to_string(placement.gpus_per_node));
  }
  CHECK(placement.node.size() == placement.slot.size()) << "placement of " << placement.world() << " ranks";
  for (int rank = 0; rank < placement.world(); ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    CHECK(placement.node[at] >= 0 && placement.slot[at] >= 0 && placement.slot[at] < placement.gpus_per_node)
        << "rank " << rank << " sits at node " << placement.node[at] << ", slot " << placement.slot[at];
    nodes_ = std::max(nodes_, placement.node[at] + 1);
  }
  const auto fallback = hardware.memory_ops.find("default");
  for (int kind = 0; kind < kOpKinds; ++kind) {
    const auto own = hardware.memory_ops.find(std::string(name_of(static_cast<OpKind>(kind))));
    auto& model = memory_ops_[static_cast<std::size_t>(kind)];
    if (own != hardware.memory_ops.end())
      model = own->second;
    else if (fallback != hardware.memory_ops.end())
      model = fallback->second;
  }
  for (const Site site : hardware.free_sites) free_site_[static_cast<std::size_t>(site)] = true;
  for (const CollectiveFit& fit : hardware.intra_node)
    if (fit.op == "all_gather") nvlink_ring_ = std::max(nvlink_ring_, fit.busbw);
  for (const int causal : {0, 1}) {
    std::map<std::int64_t, std::vector<AttentionPoint>> by_head;
    for (const AttentionPoint& point : hardware.attention)
      if (point.causal == (causal == 1)) by_head[point.head_dim].push_back(point);
    for (auto& [head, points] : by_head) {
      std::sort(points.begin(), points.end(), [](const auto& a, const auto& b) { return a.seq < b.seq; });
      attention_[static_cast<std::size_t>(causal)].push_back(std::move(points));
    }
  }
}

double CostModel::peak(DType type) const {
  const auto found = hardware_.peak_flops.find(type);
  if (found == hardware_.peak_flops.end()) {
    throw Error(Error::Kind::config, "hardware " + hardware_.name + ": " + hardware_.gpu + " has no " +
                                         std::string(name_of(type)) + " matrix rate; choose another precision");
  }
  return found->second;
}

Picoseconds CostModel::compute(const OpShape& shape, Site site) const {
  CHECK(!is_communication(shape.kind)) << name_of(shape.kind) << " is no compute op";
  if (free_site_[static_cast<std::size_t>(site)]) return 0;
  if (shape.kind <= OpKind::attention_context_backward_v) return to_picoseconds(gemm_seconds(shape));
  if (shape.kind <= OpKind::flash_attention_backward) return to_picoseconds(flash_seconds(shape));
  const MemoryOpModel& model = memory_ops_[static_cast<std::size_t>(shape.kind)];
  return to_picoseconds(model.floor_s + bytes_of(shape) / (model.share * hardware_.memory_bandwidth));
}

double CostModel::gemm_seconds(const OpShape& shape) const {
  const GemmModel& gemm = hardware_.gemm;
  const MatrixProduct p = matrix_product_of(shape);
  double outputs = static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.batch);
  if (!gemm.tiles.empty() && outputs > 0) {
    double best = std::numeric_limits<double>::infinity();
    for (const GemmTile& tile : gemm.tiles) {
      const std::int64_t count = div_ceil(p.m, tile.m) * div_ceil(p.n, tile.n) * p.batch;
      const std::int64_t waves = div_ceil(count, static_cast<std::int64_t>(hardware_.sm_count));
      best = std::min(best, static_cast<double>(waves * hardware_.sm_count * tile.m * tile.n) / tile.relative);
    }
    outputs = best;
  }
  const double work = 2 * outputs * (static_cast<double>(p.k) + gemm.k_ramp);
  const double math = work / (peak(shape.dtype) * gemm.efficiency);
  const double traffic =
      gemm.memory_share > 0 ? bytes_of(shape) / (gemm.memory_share * hardware_.memory_bandwidth) : 0.0;
  return gemm.floor_s + std::max(math, traffic);
}

double CostModel::rate_at_seq(const std::vector<AttentionPoint>& points, std::int64_t seq, bool backward) const {
  const auto rate = [&](const AttentionPoint& point) {
    return (backward ? point.backward_tflops : point.forward_tflops) * 1e12;
  };
  if (seq <= points.front().seq) return rate(points.front());
  if (seq >= points.back().seq) return rate(points.back());
  std::size_t i = 1;
  while (points[i].seq < seq) ++i;
  const AttentionPoint &low = points[i - 1], &high = points[i];
  return linear(std::log2(static_cast<double>(seq)), std::log2(static_cast<double>(low.seq)), rate(low),
                std::log2(static_cast<double>(high.seq)), rate(high));
}

double CostModel::flash_rate(std::int64_t seq, std::int64_t head_dim, bool causal, bool backward) const {
  const auto& heads = attention_[causal ? 1 : 0];
  CHECK(!heads.empty()) << "hardware " << hardware_.name << " has no " << (causal ? "causal" : "full")
                        << " attention points";
  const std::int64_t smallest = heads.front().front().head_dim;
  if (head_dim <= smallest) {
    return rate_at_seq(heads.front(), seq, backward) * static_cast<double>(head_dim) / static_cast<double>(smallest);
  }
  if (head_dim >= heads.back().front().head_dim) return rate_at_seq(heads.back(), seq, backward);
  std::size_t i = 1;
  while (heads[i].front().head_dim < head_dim) ++i;
  return linear(static_cast<double>(head_dim), static_cast<double>(heads[i - 1].front().head_dim),
                rate_at_seq(heads[i - 1], seq, backward), static_cast<double>(heads[i].front().head_dim),
                rate_at_seq(heads[i], seq, backward));
}

double CostModel::flash_seconds(const OpShape& shape) const {
  const auto [s, b, a, d, first_head, site] = shape.dims;
  const double work = flops_of(shape) / (shape.causal ? 2 : 1);
  // Without points (ideal) the kernel runs at peak and its traffic is free, like a matrix product's.
  if (hardware_.attention.empty()) return hardware_.attention_floor_s + work / peak(shape.dtype);
  const bool backward = shape.kind == OpKind::flash_attention_backward;
  const std::int64_t blocks = b * a * div_ceil(s, kQueryBlock);
  const double busy = std::min(1.0, static_cast<double>(blocks) / hardware_.sm_count);
  const double math = work / (flash_rate(s, d, shape.causal, backward) * busy);
  return hardware_.attention_floor_s + std::max(math, bytes_of(shape) / hardware_.memory_bandwidth);
}

LinkId CostModel::link(int rank, int direction) const {
  const auto at = static_cast<std::size_t>(rank);
  // Rails: the GPUs of a node share its NICs evenly, in slot order.
  const int nic = placement_.slot[at] * hardware_.nics_per_node / hardware_.gpus_per_node;
  return 2 * (placement_.node[at] * hardware_.nics_per_node + nic) + direction;
}

int CostModel::link_count() const { return 2 * nodes_ * hardware_.nics_per_node; }

CostModel::Reach CostModel::reach_of(const Group& group) const {
  std::map<int, int> ranks_on;
  std::map<int, std::set<LinkId>> nics_on;
  for (const int rank : group.ranks) {
    CHECK(rank >= 0 && rank < placement_.world()) << "rank " << rank << " of a world of " << placement_.world();
    const int node = placement_.node[static_cast<std::size_t>(rank)];
    ++ranks_on[node];
    if (hardware_.nics_per_node > 0) nics_on[node].insert(link(rank, 0));
  }
  Reach reach;
  reach.nodes = static_cast<int>(ranks_on.size());
  for (const auto& [node, ranks] : ranks_on) reach.most_ranks = std::max(reach.most_ranks, ranks);
  if (reach.nodes == 1) return reach;
  if (hardware_.nics_per_node == 0) {
    throw Error(Error::Kind::config, "hardware " + hardware_.name + " has no fabric, but a group of kind " +
                                         std::string(name_of(group.kind)) + " spans " + std::to_string(reach.nodes) +
                                         " nodes");
  }
  reach.fewest_nics = std::numeric_limits<int>::max();
  for (const auto& [node, nics] : nics_on) {
    reach.fewest_nics = std::min(reach.fewest_nics, static_cast<int>(nics.size()));
    for (const LinkId egress : nics) reach.links.insert(reach.links.end(), {egress, egress + 1});
  }
  std::sort(reach.links.begin(), reach.links.end());
  return reach;
}

TransferCost CostModel::transfer(const OpShape& shape, const Group& group) const {
  CHECK(is_communication(shape.kind)) << name_of(shape.kind) << " is no communication op";
  const int ranks = static_cast<int>(group.ranks.size());
  if (ranks <= 1 || hardware_.free_communication) return {};
  const double bytes = static_cast<double>(shape.dims[0]) * static_cast<double>(size_of(shape.dtype));
  if (is_point_to_point(shape.kind)) return point_to_point(bytes, group);
  Reach reach = reach_of(group);
  return reach.nodes == 1 ? inside_node(shape.kind, bytes, ranks)
                          : across_nodes(shape.kind, bytes, ranks, std::move(reach));
}

const CollectiveFit& CostModel::nearest_fit(OpKind kind, int ranks) const {
  const CollectiveFit* best = nullptr;
  double distance = std::numeric_limits<double>::infinity();
  for (const CollectiveFit& fit : hardware_.intra_node) {
    if (fit.op != name_of(kind)) continue;
    const double ratio = std::abs(std::log(static_cast<double>(fit.ranks) / ranks));
    if (ratio < distance) {
      distance = ratio;
      best = &fit;
    }
  }
  CHECK(best) << "hardware " << hardware_.name << " has no " << name_of(kind) << " inside a node";
  return *best;
}

TransferCost CostModel::point_to_point(double bytes, const Group& group) const {
  CHECK(group.ranks.size() == 2) << "a channel of " << group.ranks.size() << " ranks";
  const int source = group.ranks[0], destination = group.ranks[1];
  const Reach reach = reach_of(group);
  if (reach.nodes == 1) {
    const CollectiveFit& fit = nearest_fit(OpKind::send, 2);
    TransferCost cost;
    cost.latency = to_picoseconds(fit.a_s);
    cost.duration = to_picoseconds(fit.a_s + bytes / fit.busbw + fit.c_s * std::sqrt(bytes));
    cost.sm_permille = hardware_.collective_sm_permille;
    return cost;
  }
  TransferCost cost;
  cost.latency = to_picoseconds(hardware_.nic_latency_s);
  cost.duration = to_picoseconds(hardware_.nic_latency_s + bytes / hardware_.nic_bandwidth);
  cost.sm_permille = hardware_.inter_node_sm_permille;
  cost.links = {link(source, 0), link(destination, 1)};
  std::sort(cost.links.begin(), cost.links.end());
  return cost;
}

TransferCost CostModel::inside_node(OpKind kind, double bytes, int ranks) const {
  const CollectiveFit& fit = nearest_fit(kind, ranks);
  TransferCost cost;
  cost.latency = to_picoseconds(fit.a_s);
  cost.duration = to_picoseconds(fit.a_s + bytes * busbw_factor(kind, ranks) / fit.busbw + fit.c_s * std::sqrt(bytes));
  cost.sm_permille = hardware_.collective_sm_permille;
  return cost;
}

TransferCost CostModel::across_nodes(OpKind kind, double bytes, int ranks, Reach reach) const {
  double bandwidth = reach.fewest_nics * hardware_.nic_bandwidth;
  if (nvlink_ring_ > 0) bandwidth = std::min(bandwidth, nvlink_ring_);
  const double ring_seconds = bytes * busbw_factor(kind, ranks) / bandwidth;
  const int passes = kind == OpKind::all_reduce ? 2 : 1;
  double latency = 0, whole = hardware_.inter_node.empty() ? ring_seconds : std::numeric_limits<double>::infinity();
  for (const RingProtocol& protocol : hardware_.inter_node) {
    const bool tree = protocol.all_reduce_tree && kind == OpKind::all_reduce;
    const double depth = tree ? std::ceil(std::log2(reach.nodes)) : reach.nodes - 1;
    const double hop = protocol.nic_hop_s + (reach.most_ranks - 1) * protocol.nvlink_hop_s;
    const double fixed = protocol.base_s + passes * depth * hop;
    const double total = fixed + ring_seconds / protocol.bandwidth_share;
    if (total < whole) {
      whole = total;
      latency = fixed;
    }
  }
  TransferCost cost;
  // A low-latency protocol moves few bytes slowly: only the wire time at full rate is what sharing a link stretches.
  cost.duration = to_picoseconds(whole);
  cost.latency = std::min(cost.duration, to_picoseconds(std::max(latency, whole - ring_seconds)));
  cost.sm_permille = hardware_.inter_node_sm_permille;
  cost.links = std::move(reach.links);
  return cost;
}

}  // namespace benchsuite
