#include "engine/device/sim/collective_model.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/core/error.h"

namespace benchsuite {

namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr std::int64_t kErrorOfCollectives = 3;  // cost_model.cpp has the others

/// Bytes a rank's links must carry one way, by algorithm: a ring sends bytes * factor, the switch's reduction once.
double wire_bytes(Collective op, double bytes, int ranks, bool in_switch) {
  return op == Collective::all_reduce && in_switch ? bytes : bytes * busbw_factor(op, ranks);
}

/// Through a rank's memory: what it sends is read, what it receives is written, and a reduction reads its own part too.
double memory_bytes(Collective op, double bytes, int ranks) {
  const double half = bytes * (ranks - 1) / ranks;  // one pass of a ring
  switch (op) {
    case Collective::all_reduce:
      return 5 * half;
    case Collective::reduce_scatter:
      return 3 * half;
    case Collective::all_gather:
    case Collective::all_to_all:
      return 2 * half;
    case Collective::send:
      return bytes;
  }
  return 0;
}

const CollectiveFit& nearest_fit(const HardwareProfile& hardware, Collective op, int ranks) {
  const CollectiveFit* best = nullptr;
  double distance = kInfinite;
  for (const CollectiveFit& fit : hardware.intra_node) {
    if (fit.op != name_of(op)) continue;
    const double ratio = std::abs(std::log(static_cast<double>(fit.ranks) / ranks));
    if (ratio < distance) {
      distance = ratio;
      best = &fit;
    }
  }
  CHECK(best) << "hardware " << hardware.name << " has no " << name_of(op) << " inside a node";
  return *best;
}

/// Start-up of more ranks than were measured.
double start_up(const HardwareProfile& hardware, const CollectiveFit& fit, int ranks) {
  const CollectiveFit* before = nullptr;
  for (const CollectiveFit& other : hardware.intra_node) {
    if (other.op != fit.op) continue;
    if (other.ranks > fit.ranks) return fit.a_s;
    if (other.ranks < fit.ranks && (!before || other.ranks > before->ranks)) before = &other;
  }
  if (!before || ranks <= fit.ranks) return fit.a_s;
  const double by_rank = std::max(0.0, (fit.a_s - before->a_s) / (fit.ranks - before->ranks));
  return fit.a_s + by_rank * (ranks - fit.ranks);
}

/// What a machine of an ensemble takes against the model: the tables' common factor, and this operation's own error.
double time_factor(const HardwareProfile& hardware, Collective op, double bytes, const CollectiveSpan& span) {
  const bool inside = span.nodes == 1;
  const double common = inside ? hardware.intra_node_time_factor : hardware.inter_node_time_factor;
  if (!hardware.error_draw) return common;
  return common * drawn_factor(inside ? hardware.intra_node_error : hardware.inter_node_error, *hardware.error_draw,
                               {kErrorOfCollectives, static_cast<std::int64_t>(op), std::llround(bytes), span.ranks,
                                span.nodes, span.most_ranks});
}

CollectiveTime inside_node(const HardwareProfile& hardware, Collective op, double bytes, int ranks) {
  const CollectiveFit& fit = nearest_fit(hardware, op, ranks);
  const bool in_switch = fit.algorithm == "nvls";
  CollectiveTime time;
  time.algorithm = in_switch ? "nvls" : op == Collective::send ? "send" : "ring";
  const double factor = time_factor(hardware, op, bytes, {ranks, 1, ranks, 1});
  const double first = factor * start_up(hardware, fit, ranks);
  const double plain = first + factor * (bytes * busbw_factor(op, ranks) / fit.busbw + fit.c_s * std::sqrt(bytes));
  const auto ramp = hardware.collective_ramps.find(fit.op);
  const double slowdown =
      ramp == hardware.collective_ramps.end() ? 1 : std::exp(ramp->second.at(std::max(bytes, 1.0), ranks));
  const double wire = wire_bytes(op, bytes, ranks, in_switch) / hardware.nvlink_bandwidth;
  time.seconds = std::max(plain * slowdown, wire);
  time.fixed = std::min(first, time.seconds);
  return time;
}

/// What a ring inside a node reaches, busbw in bytes/s.
double nvlink_ring(const HardwareProfile& hardware) {
  double busbw = 0;
  for (const CollectiveFit& fit : hardware.intra_node)
    if (fit.op == "all_gather") busbw = std::max(busbw, fit.busbw);
  return busbw > 0 ? busbw : kInfinite;
}

/// What an all_reduce of a whole node reaches, by its switch or by its ring.
double largest_all_reduce(const HardwareProfile& hardware) {
  double busbw = 0;
  for (const CollectiveFit& fit : hardware.intra_node)
    if (fit.op == "all_reduce") busbw = std::max(busbw, fit.busbw);
  return busbw > 0 ? busbw : kInfinite;
}

CollectiveTime across_nodes(const HardwareProfile& hardware, Collective op, double bytes, const CollectiveSpan& span) {
  const double rails = span.fewest_nics * hardware.nic_bandwidth;
  const double ring_seconds = bytes * busbw_factor(op, span.ranks) / std::min(rails, nvlink_ring(hardware));
  const int passes = op == Collective::all_reduce ? 2 : 1;
  CollectiveTime time;
  time.seconds = hardware.inter_node.empty() ? ring_seconds : kInfinite;
  time.algorithm = "ring";
  double latency = 0, wire = ring_seconds;
  for (const RingProtocol& protocol : hardware.inter_node) {
    double seconds = ring_seconds;
    if (protocol.two_node_tree) {
      const bool whole_pair = span.nodes == 2 && span.most_ranks * span.nodes == span.ranks &&
                              8 * span.fewest_nics >= 7 * hardware.nics_per_node;
      if (op != Collective::all_reduce || !whole_pair) continue;
      seconds = std::max(bytes / rails, bytes * busbw_factor(op, span.ranks) / largest_all_reduce(hardware));
    }
    const bool tree = protocol.all_reduce_tree && op == Collective::all_reduce;
    const double depth = tree ? std::ceil(std::log2(span.nodes)) : span.nodes - 1;
    const double hop = protocol.nic_hop_s + (span.most_ranks - 1) * protocol.nvlink_hop_s;
    const double hops = passes * depth * hop, moved = seconds / protocol.bandwidth_share;
    const double fixed = protocol.base_s + hops;
    const double total = fixed + moved + (hardware.pipeline_fill ? 2 * std::sqrt(hops * moved) : 0);
    if (total >= time.seconds) continue;
    time.seconds = total;
    time.algorithm = protocol.two_node_tree ? "two-node tree" : tree ? "tree" : "ring";
    latency = fixed;
    wire = seconds;
  }
  const double factor = time_factor(hardware, op, bytes, span);
  time.seconds = std::max(factor * time.seconds, wire);
  latency *= factor;
  // A low-latency protocol moves few bytes slowly: only the wire time at full rate is what sharing a link stretches.
  time.fixed = std::min(time.seconds, std::max(latency, time.seconds - wire));
  return time;
}

CollectiveTime all_to_all_across(const HardwareProfile& hardware, double bytes, const CollectiveSpan& span) {
  const double leaving = bytes * (span.ranks - span.most_ranks) / span.ranks;
  const double nics_each = static_cast<double>(span.fewest_nics) / span.most_ranks;
  const double own_nic = hardware.nic_bandwidth * std::min(1.0, nics_each);
  const double inside =
      span.most_ranks > 1
          ? inside_node(hardware, Collective::all_to_all, bytes * span.most_ranks / span.ranks, span.most_ranks).seconds
          : 0;
  CollectiveTime time;
  time.algorithm = "all_to_all";
  time.fixed = hardware.nic_latency_s;
  time.seconds = time.fixed + std::max(leaving / own_nic, inside);
  return time;
}

}  // namespace

std::string_view name_of(Collective op) {
  switch (op) {
    case Collective::all_reduce:
      return "all_reduce";
    case Collective::all_gather:
      return "all_gather";
    case Collective::reduce_scatter:
      return "reduce_scatter";
    case Collective::all_to_all:
      return "all_to_all";
    case Collective::send:
      return "send";
  }
  return "";
}

double busbw_factor(Collective op, int ranks) {
  const double n = ranks;
  if (op == Collective::send) return 1;
  return op == Collective::all_reduce ? 2 * (n - 1) / n : (n - 1) / n;
}

CollectiveSpan even_span(const HardwareProfile& hardware, int ranks, int nodes) {
  CHECK(nodes >= 1 && ranks >= nodes) << ranks << " ranks on " << nodes << " nodes";
  CollectiveSpan span;
  span.ranks = ranks;
  span.nodes = nodes;
  span.most_ranks = (ranks + nodes - 1) / nodes;
  // In slot order: rank i of a node reaches NIC i nics / gpus.
  const int fewest = ranks / nodes;
  span.fewest_nics = std::max(1, ((fewest - 1) * hardware.nics_per_node) / hardware.gpus_per_node + 1);
  return span;
}

CollectiveTime collective_time(const HardwareProfile& hardware, Collective op, double bytes,
                               const CollectiveSpan& span) {
  if (span.ranks <= 1 || hardware.free_communication) return {};
  CollectiveTime time;
  if (span.nodes == 1) {
    time = inside_node(hardware, op, bytes, span.ranks);
  } else {
    if (hardware.nics_per_node == 0)
      throw Error(Error::Kind::config, "hardware " + hardware.name + " has no fabric, but a " +
                                           std::string(name_of(op)) + " spans " + std::to_string(span.nodes) + " nodes");
    if (op == Collective::send) {
      time.algorithm = "send";
      time.fixed = hardware.nic_latency_s;
      time.seconds = time.fixed + hardware.send_wire_factor * bytes / hardware.nic_bandwidth;
    } else if (op == Collective::all_to_all) {
      time = all_to_all_across(hardware, bytes, span);
    } else {
      time = across_nodes(hardware, op, bytes, span);
    }
  }
  time.memory_bytes = memory_bytes(op, bytes, span.ranks);
  return time;
}

}  // namespace benchsuite
