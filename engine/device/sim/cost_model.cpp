#include "engine/device/sim/cost_model.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/core/error.h"
#include "engine/device/op_table.h"

namespace benchsuite {

namespace {

constexpr double kTileOutputs = 128.0 * 128.0;  // the unit of GemmModel's waves
constexpr double kFewestWaves = 0.25;           // fewer tiles than that take as long
constexpr std::size_t kKnown = 1024;            // shapes remembered, a power of two
constexpr std::int64_t kErrorOfProducts = 1, kErrorOfAttention = 2, kErrorOfOccupancy = 4, kErrorOfSizes = 5;  // collective_model.cpp has 3
constexpr int kOctavesOfASize = 2;  // of FLOPs; size_class of scripts/hardware_fit/gemm.py

/// The op whose measured bandwidth an op without one of its own goes by: the same streaming pattern. Else the op itself.
OpKind family_of(OpKind kind) {
  switch (kind) {
    case OpKind::rmsnorm: return OpKind::layernorm;
    case OpKind::rmsnorm_backward: return OpKind::layernorm_backward;
    case OpKind::accumulate:
    case OpKind::sum_pieces: return OpKind::add;
    case OpKind::swiglu: return OpKind::gelu;
    case OpKind::swiglu_backward: return OpKind::gelu_backward;
    default: return kind;
  }
}

Picoseconds to_picoseconds(double seconds) {
  CHECK(seconds >= 0 && seconds < 1e6) << "a duration of " << seconds << " s";
  return static_cast<Picoseconds>(std::llround(seconds / kSecondsPerPicosecond));
}

std::size_t hash_of(const OpShape& shape, Site site) {
  std::uint64_t hash = static_cast<std::uint64_t>(shape.kind) * 16 + static_cast<std::uint64_t>(site);
  for (const std::int64_t dim : shape.dims) hash = (hash ^ static_cast<std::uint64_t>(dim)) * 0x9E3779B97F4A7C15u;
  return static_cast<std::size_t>(hash >> 40) & (kKnown - 1);
}

/// Position of `value` on ascending knots: the knot before, and how far on the way to the next.
std::pair<std::size_t, double> between(const std::vector<double>& knots, double value) {
  if (value <= knots.front() || knots.size() == 1) return {0, 0};
  if (value >= knots.back()) return {knots.size() - 2, 1};
  std::size_t i = 1;
  while (knots[i] < value) ++i;
  return {i - 1, (value - knots[i - 1]) / (knots[i] - knots[i - 1])};
}

double surface_at(const GemmModel& gemm, double waves, double k) {
  if (gemm.surface.empty()) return 0;
  const std::size_t columns = gemm.surface_waves.size();
  const auto [w, right] = between(gemm.surface_waves, waves);
  const auto [l, down] = between(gemm.surface_k, k);
  const auto at = [&](std::size_t line, std::size_t column) {
    return gemm.surface[std::min(line, gemm.surface_k.size() - 1) * columns + std::min(column, columns - 1)];
  };
  const double top = at(l, w) + (at(l, w + 1) - at(l, w)) * right;
  const double bottom = at(l + 1, w) + (at(l + 1, w + 1) - at(l + 1, w)) * right;
  return top + (bottom - top) * down;
}

std::int32_t permille(double part, double whole) {
  return whole > 0 ? static_cast<std::int32_t>(std::min(1000.0, std::round(1000 * part / whole))) : 0;
}

double alignment_rate(const GemmModel& gemm, const OpShape& shape) {
  const auto rates = gemm.alignment.find(shape.dtype);
  const std::int64_t bytes = rates == gemm.alignment.end() ? 16 : row_alignment_of(shape);
  return bytes >= 16 ? 1 : bytes >= 4 ? rates->second.narrow : rates->second.odd;
}

Collective collective_of(OpKind kind) {
  switch (kind) {
    case OpKind::all_reduce:
      return Collective::all_reduce;
    case OpKind::all_gather:
      return Collective::all_gather;
    case OpKind::reduce_scatter:
      return Collective::reduce_scatter;
    default:
      return Collective::send;
  }
}

}  // namespace

CostModel::CostModel(const HardwareProfile& hardware, const Placement& placement, HostCost host)
    : hardware_(hardware), placement_(placement), host_(host) {
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
    auto own = hardware.memory_ops.find(std::string(name_of(static_cast<OpKind>(kind))));
    if (own == hardware.memory_ops.end()) {
      own = hardware.memory_ops.find(std::string(name_of(family_of(static_cast<OpKind>(kind)))));
    }
    auto& model = memory_ops_[static_cast<std::size_t>(kind)];
    if (own != hardware.memory_ops.end())
      model = own->second;
    else if (fallback != hardware.memory_ops.end())
      model = fallback->second;
  }
  const auto broadcast = hardware.memory_ops.find("broadcast");
  broadcast_ = broadcast != hardware.memory_ops.end() ? broadcast->second : memory_ops_[static_cast<std::size_t>(OpKind::add)];
  for (const Site site : hardware.free_sites) free_site_[static_cast<std::size_t>(site)] = true;
  for (int kernel = 0; kernel < kFusedAttentions; ++kernel) {
    const auto other = hardware.other_attention.find(std::string(name_of(static_cast<FusedAttention>(kernel))));
    auto& rates = attention_[static_cast<std::size_t>(kernel)];
    for (const AttentionRate& rate : other == hardware.other_attention.end() ? hardware.attention : other->second) {
      rates[rate.causal ? 1 : 0].push_back(rate);
    }
    for (auto& heads : rates)
      std::sort(heads.begin(), heads.end(), [](const auto& a, const auto& b) { return a.head_dim < b.head_dim; });
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

const ComputeCost& CostModel::compute_cost(const OpShape& shape, Site site) const {
  if (known_.empty()) known_.resize(kKnown);
  Known& known = known_[hash_of(shape, site)];
  if (!known.valid || known.site != site || !(known.shape == shape)) known = {shape, site, true, price(shape, site)};
  return known.cost;
}

ComputeCost CostModel::price(const OpShape& shape, Site site) const {
  CHECK(!is_communication(shape.kind)) << name_of(shape.kind) << " is no compute op";
  if (free_site_[static_cast<std::size_t>(site)]) return {};
  const bool free_memory = hardware_.gemm.memory_share == 0;
  const EagerKernels eager = eager_kernels(shape);
  Bound bound;
  if (shape.kind <= OpKind::attention_context_backward_v) {
    bound = gemm_bound(shape, GemmRate::sustained);
  } else if (shape.kind <= OpKind::flash_attention_backward) {
    bound = flash_bound(shape);
  } else {
    // A cast of pieces is a kernel each, which the host's loop launches no faster than it can.
    const int pieces = shape.kind == OpKind::cast ? static_cast<int>(std::max<std::int64_t>(1, shape.dims[1])) : 1;
    bound = shape.eager ? eager_bound(eager) : memory_bound(shape, pieces, eager.bytes);
    if (pieces > 1) bound.seconds = std::max(bound.seconds, pieces * hardware_.host_library_s);
  }
  if (shape.kind <= OpKind::flash_attention_backward && eager.kernels > 1) {  // copies beside the product
    bound.seconds += eager_bound({eager.kernels - 1, eager.bytes - bytes_of(shape), eager.broadcast}).seconds;
  }
  bound.seconds += shape.extra_kernels * memory_ops_[static_cast<std::size_t>(OpKind::add)].floor_s;
  ComputeCost cost;
  cost.duration = to_picoseconds(bound.seconds);
  cost.sm_permille = bound.by_memory ? 0 : 1000;
  if (!free_memory) cost.memory_permille = permille(eager.bytes, bound.seconds * hardware_.memory_bandwidth);
  return cost;
}

CostModel::Bound CostModel::memory_bound(const OpShape& shape, int kernels, double bytes) const {
  const MemoryOpModel& model = memory_ops_[static_cast<std::size_t>(shape.kind)];
  const bool to_8_bit = shape.kind == OpKind::cast && shape.out_dtype == DType::fp8 && hardware_.gemm.fp8_over_bf16 > 0;
  const double share = to_8_bit ? hardware_.gemm.fp8_cast_share : model.share;
  return {kernels * model.floor_s + bytes / (share * hardware_.memory_bandwidth), true};
}

CostModel::Bound CostModel::eager_bound(const EagerKernels& eager) const {
  const double bandwidth = hardware_.memory_bandwidth;
  Bound bound = memory_bound({.kind = OpKind::add}, eager.kernels, eager.bytes - eager.broadcast - eager.softmax);
  bound.seconds += eager.broadcast / (broadcast_.share * bandwidth);
  bound.seconds += eager.softmax / (memory_ops_[static_cast<std::size_t>(OpKind::softmax)].share * bandwidth);
  return bound;
}

double CostModel::gemm_seconds(const OpShape& shape, GemmRate rate) const { return gemm_bound(shape, rate).seconds; }

CostModel::Bound CostModel::gemm_bound(const OpShape& shape, GemmRate rate) const {
  const GemmModel& gemm = hardware_.gemm;
  const MatrixProduct p = matrix_product_of(shape);
  const double m = static_cast<double>(p.m), n = static_cast<double>(p.n), k = static_cast<double>(p.k);
  const double products = m * n * static_cast<double>(p.batch);
  double outputs = products;
  if (!gemm.tiles.empty() && gemm.wave_share > 0 && products > 0) {
    double best = std::numeric_limits<double>::infinity();
    for (const GemmTile& tile : gemm.tiles) {
      const std::int64_t count = div_ceil(p.m, tile.m) * div_ceil(p.n, tile.n) * p.batch;
      const std::int64_t waves = div_ceil(count, static_cast<std::int64_t>(hardware_.sm_count));
      best = std::min(best, static_cast<double>(waves * hardware_.sm_count * tile.m * tile.n) / tile.relative);
    }
    outputs = gemm.wave_share == 1 ? best : products * std::pow(best / products, gemm.wave_share);
  }
  const bool by_16_bit = shape.dtype == DType::fp8 && gemm.fp8_over_bf16 > 0;
  double math = 2 * outputs * (k + gemm.k_ramp) / (peak(by_16_bit ? DType::bf16 : shape.dtype) * gemm.efficiency);
  if (!gemm.surface.empty() && products > 0) {
    const double unit = kTileOutputs * hardware_.sm_count;
    math *= std::max(1.0, kFewestWaves * unit / outputs);
    math *= std::exp(surface_at(gemm, std::log2(products / unit), std::log2(k)));
  }
  if (by_16_bit) math /= gemm.fp8_over_bf16;
  if (hardware_.error_draw) {
    math *= drawn_factor(gemm.error, *hardware_.error_draw,
                         {kErrorOfProducts, static_cast<std::int64_t>(shape.dtype), p.m, p.n, p.k, p.batch});
    const int octave = std::ilogb(std::max(1.0, flops_of(shape)));
    math *= drawn_factor(of_size(gemm.error), *hardware_.error_draw, {kErrorOfSizes, octave / kOctavesOfASize});
  }
  math *= hardware_.slowest_gpu_factor;
  if (rate == GemmRate::sustained) {
    math /= gemm.sustained_over_burst;
  } else if (math > 0) {
    math *= std::exp(gemm.long_kernel.at(std::log10(math)));
  }
  math = std::max(math, flops_of(shape) / peak(shape.dtype));
  if (gemm.memory_share == 0) return {std::max(gemm.floor_s, math), false};

  const double bandwidth = gemm.memory_share * hardware_.memory_bandwidth;
  const double written = static_cast<double>(size_of(shape.out_dtype)) * (shape.accumulate ? 2 : 1);
  const double traffic = bytes_of(shape) / bandwidth;
  if (const double first = gemm.surface_k.empty() ? 0 : std::exp2(gemm.surface_k.front()); k < first) {
    math = std::min(math + gemm.short_products * 2 * products / bandwidth, math * first / k);
  }
  math += gemm.accumulate_exposed * std::max(0.0, written - 2) * products / bandwidth;
  return {std::max(gemm.floor_s, std::max(math, traffic) / alignment_rate(gemm, shape)), traffic > math};
}

double CostModel::flash_rate(FusedAttention kernel, std::int64_t seq, std::int64_t head_dim, bool causal,
                             bool backward) const {
  const auto& heads = attention_[static_cast<std::size_t>(kernel)][causal ? 1 : 0];
  CHECK(!heads.empty()) << "hardware " << hardware_.name << " has no " << (causal ? "causal" : "full")
                        << " attention rates";
  const auto rate = [&](const AttentionRate& at) { return (backward ? at.backward : at.forward).at(seq); };
  const auto head = static_cast<double>(head_dim), smallest = static_cast<double>(heads.front().head_dim);
  if (head_dim <= heads.front().head_dim) return rate(heads.front()) * head / smallest;
  if (head_dim >= heads.back().head_dim) return rate(heads.back());
  std::size_t i = 1;
  while (heads[i].head_dim < head_dim) ++i;
  const auto low = static_cast<double>(heads[i - 1].head_dim), high = static_cast<double>(heads[i].head_dim);
  return rate(heads[i - 1]) + (rate(heads[i]) - rate(heads[i - 1])) * (head - low) / (high - low);
}

CostModel::Bound CostModel::flash_bound(const OpShape& shape) const {
  const auto [s, b, a, d, kv_heads, first_head] = shape.dims;
  const double work = flops_of(shape) / (shape.causal ? 2 : 1);
  // Without rates (ideal) the kernel runs at peak and its traffic is free, like a matrix product's.
  const double at_peak = work / peak(shape.dtype);
  if (hardware_.attention.empty()) return {hardware_.attention_floor_s + at_peak, false};
  const double rate = flash_rate(shape.attention, s, d, shape.causal, shape.kind == OpKind::flash_attention_backward);
  const double blocks = static_cast<double>(b * a * div_ceil(s, hardware_.attention_block)) / hardware_.sm_count;
  const Curve& occupancy = hardware_.attention_occupancy;
  // Blocks run side by side: under the fewest measured, fewer of them take as long.
  const double fewest = occupancy.x.empty() ? 1 : std::exp2(occupancy.x.front());
  const double counted = std::max(blocks, fewest);
  const double slowdown = std::exp(occupancy.at(std::log2(counted))) *
                          std::pow(std::ceil(counted) / counted, hardware_.attention_wave_share) * counted / blocks;
  const double math = std::max(work / rate * slowdown * attention_factor(shape, counted), at_peak);
  const double traffic = bytes_of(shape) / hardware_.memory_bandwidth;
  return {hardware_.attention_floor_s + std::max(math, traffic), traffic > math};
}

double CostModel::attention_factor(const OpShape& shape, double blocks) const {
  const std::string name(name_of(shape.attention));
  const bool usual = !hardware_.other_attention.contains(name);
  const auto by_kernel = hardware_.kernel_time_factor.find(name);
  double factor = hardware_.slowest_gpu_factor;
  if (usual || hardware_.usual_attention.contains(name)) {
    factor *= hardware_.attention_time_factor;
  } else if (by_kernel != hardware_.kernel_time_factor.end()) {
    factor *= by_kernel->second;
  }
  if (!hardware_.error_draw) return factor;
  const auto [s, b, a, d, kv_heads, first_head] = shape.dims;
  const auto own = hardware_.other_attention_error.find(name);
  const ModelError& error = usual || own == hardware_.other_attention_error.end() ? hardware_.attention_error : own->second;
  const auto kind = static_cast<std::int64_t>(shape.kind), kernel = static_cast<std::int64_t>(shape.attention);
  factor *= drawn_factor(error, *hardware_.error_draw, {kErrorOfAttention, kind, kernel, shape.causal ? 1 : 0, s, d});
  if (const Curve& occupancy = hardware_.attention_occupancy; !occupancy.x.empty() && std::log2(blocks) < occupancy.x.back()) {
    factor *= drawn_factor(hardware_.occupancy_error, *hardware_.error_draw, {kErrorOfOccupancy, kind, s, b, a, d});
  }
  return factor;
}

LinkId CostModel::link(int rank, int direction) const {
  const auto at = static_cast<std::size_t>(rank);
  // Rails: the GPUs of a node share its NICs evenly, in slot order.
  const int nic = placement_.slot[at] * hardware_.nics_per_node / hardware_.gpus_per_node;
  return 2 * (placement_.node[at] * hardware_.nics_per_node + nic) + direction;
}

int CostModel::link_count() const { return 2 * nodes_ * hardware_.nics_per_node; }

CollectiveSpan CostModel::span_of(const Group& group) const {
  std::map<int, int> ranks_on;
  for (const int rank : group.ranks) {
    CHECK(rank >= 0 && rank < placement_.world()) << "rank " << rank << " of a world of " << placement_.world();
    ++ranks_on[placement_.node[static_cast<std::size_t>(rank)]];
  }
  CollectiveSpan span{static_cast<int>(group.ranks.size()), static_cast<int>(ranks_on.size()), 0,
                      std::numeric_limits<int>::max()};
  for (const auto& [node, count] : ranks_on) span.most_ranks = std::max(span.most_ranks, count);
  for (const auto& [node, nics] : nics_of(group)) span.fewest_nics = std::min(span.fewest_nics, static_cast<int>(nics.size()));
  return span;
}

std::map<int, std::set<LinkId>> CostModel::nics_of(const Group& group) const {
  std::map<int, std::set<LinkId>> nics_on;
  if (hardware_.nics_per_node == 0) return nics_on;
  for (const int rank : group.ranks) nics_on[placement_.node[static_cast<std::size_t>(rank)]].insert(link(rank, 0));
  return nics_on;
}

CollectiveTime transfer_time(const HardwareProfile& hardware, const OpShape& shape, const CollectiveSpan& span) {
  if (hardware.free_communication) return {};
  const double bytes = static_cast<double>(shape.dims[0]) * static_cast<double>(size_of(shape.dtype));
  return collective_time(hardware, collective_of(shape.kind), bytes, span);
}

TransferCost CostModel::transfer(const OpShape& shape, const Group& group) const {
  CHECK(is_communication(shape.kind)) << name_of(shape.kind) << " is no communication op";
  if (group.ranks.size() <= 1 || hardware_.free_communication) return {};
  const CollectiveSpan span = span_of(group);
  const CollectiveTime time = transfer_time(hardware_, shape, span);
  TransferCost cost;
  cost.duration = to_picoseconds(time.seconds);
  cost.latency = std::min(cost.duration, to_picoseconds(time.fixed));
  cost.memory_permille = permille(time.memory_bytes, time.seconds * hardware_.memory_bandwidth);
  if (shape.kind == OpKind::shift) {  // every member both sends and receives; copy engines move it, no kernel
    cost.memory_permille = permille(2 * time.memory_bytes, time.seconds * hardware_.memory_bandwidth);
    cost.sm_permille = 0;
  } else {
    cost.sm_permille = span.nodes == 1 ? hardware_.collective_sm_permille : hardware_.inter_node_sm_permille;
  }
  if (span.nodes == 1) return cost;
  if (is_point_to_point(shape.kind)) {
    CHECK(span.ranks == 2) << "a channel of " << span.ranks << " ranks";
    cost.links = {link(group.ranks[0], 0), link(group.ranks[1], 1)};
  } else {
    for (const auto& [node, nics] : nics_of(group))
      for (const LinkId egress : nics) cost.links.insert(cost.links.end(), {egress, egress + 1});
  }
  std::sort(cost.links.begin(), cost.links.end());
  return cost;
}

std::string attention_stand_in(const HardwareProfile& hardware, FusedAttention kernel) {
  const std::string name(name_of(kernel));
  if (kernel == FusedAttention::usual || hardware.attention.empty() || hardware.other_attention.contains(name)) return "";
  return hardware.name + " has no rates of " + name + ": " + hardware.attention_kernel + " stands in";
}

HostCost host_cost(const HardwareProfile& hardware, LaunchMode mode, double step_fixed_s) {
  return {.per_op = to_picoseconds(mode == LaunchMode::graph ? hardware.host_graph_s : hardware.host_eager_s),
          .first = to_picoseconds(step_fixed_s),
          .per_joined = to_picoseconds(hardware.host_graph_s),
          .blocking = mode == LaunchMode::blocking};
}

}  // namespace benchsuite
