#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "engine/device/sim/collective_model.h"
#include "suite/calibrate/calibrate.h"
#include "suite/report/format.h"

namespace benchsuite {

namespace {

constexpr double kGiga = 1e9;
constexpr double kPlateauShare = 0.7, kRampShare = 0.5, kOnPlateau = 0.8;
constexpr double kLatencyTimes = 8, kNoteLatencyTimes = 2.5;
constexpr std::int64_t kSmall = 16 << 10;
constexpr double kCliffShare = 0.5, kDipShare = 0.65;
constexpr std::int64_t kBandwidthFrom = 64 << 10;  // cliffs and dips below this are latency noise

std::string gigabytes(double rate) { return significant(rate / kGiga) + " GB/s"; }
std::string size_text(std::int64_t size) { return format_bytes(static_cast<double>(size)); }

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

std::optional<Collective> model_of(const std::string& op) {
  if (op == "all_reduce") return Collective::all_reduce;
  if (op == "all_gather") return Collective::all_gather;
  if (op == "reduce_scatter") return Collective::reduce_scatter;
  if (op == "alltoall") return Collective::all_to_all;
  if (op == "send") return Collective::send;
  return std::nullopt;
}

struct Row {
  std::int64_t size;
  double seconds, busbw;
};

void find_shape(const std::vector<Row>& rows, Judgement& out) {
  // A cliff: from some size on, to the end and at least twice, below half of what a smaller message reached.
  double peak = 0;
  std::size_t peak_at = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].size < kBandwidthFrom) continue;
    if (peak > 0 && rows.size() - i >= 2 &&
        std::all_of(rows.begin() + static_cast<std::ptrdiff_t>(i), rows.end(),
                    [&](const Row& row) { return row.busbw < kCliffShare * peak; })) {
      out.findings.push_back(
          {"cliff", fmt::format("cliff at {}: {} reaches {} at {} and {} from {} up; congestion, a NIC or switch port "
                                "that drops or pauses, or a path between racks that is overloaded",
                                size_text(rows[i].size), out.reading.op, gigabytes(peak), size_text(rows[peak_at].size),
                                gigabytes(rows[i].busbw), size_text(rows[i].size))});
      return;
    }
    if (rows[i].busbw > peak) {
      peak = rows[i].busbw;
      peak_at = i;
    }
  }
  for (std::size_t i = 1; i + 1 < rows.size(); ++i) {
    if (rows[i].size < (1 << 20)) continue;
    if (rows[i].busbw < kDipShare * std::min(rows[i - 1].busbw, rows[i + 1].busbw))
      out.notes.push_back(
          fmt::format("dip at {}: {} between {} and {}; repeat the run, or look at how the library "
                      "changes protocol there",
                      size_text(rows[i].size), gigabytes(rows[i].busbw), gigabytes(rows[i - 1].busbw),
                      gigabytes(rows[i + 1].busbw)));
  }
}

/// Which link explains a plateau that is too low.
Finding plateau_signature(const HardwareProfile& hardware, const Reading& reading, double measured, double expected,
                          std::int64_t size) {
  const std::string facts =
      fmt::format("{} over {} reaches {} at {}, {} % of the {} expected", reading.op,
                  reading.nodes == 1 ? fmt::format("{} GPUs of one node", reading.ranks)
                                     : fmt::format("{} nodes ({} ranks)", reading.nodes, reading.ranks),
                  gigabytes(measured), size_text(size), significant(100 * measured / expected, 2), gigabytes(expected));
  const double share = measured / expected;
  if (reading.nodes > 1) {
    const double nic = hardware.nic_bandwidth;
    const int per_node = div_ceil(reading.ranks, reading.nodes);
    const int nics = reading.op == "send" || reading.op == "alltoall"
                         ? 1
                         : std::max(1, std::min(hardware.nics_per_node,
                                                div_ceil(per_node * hardware.nics_per_node, hardware.gpus_per_node)));
    if (measured < 0.5 * nic)
      return {"no-rdma",
              facts + fmt::format("; not half of one NIC ({}): traffic goes over TCP sockets or IPoIB instead "
                                  "of RDMA, or through host memory (GPUDirect RDMA off)",
                                  gigabytes(nic))};
    const double used = measured / nic;
    const int whole = static_cast<int>(std::lround(used));
    if (2 * whole == nics && std::abs(used / whole - 1) < 0.12)
      return {"half-bandwidth", facts + fmt::format("; what {} of {} NICs carry: half of them unused, or PCIe ACS or a "
                                                    "path across sockets halves each",
                                                    whole, nics)};
    if (whole >= 1 && whole < nics && std::abs(used / whole - 1) < 0.12)
      return {"few-nics", facts + fmt::format("; what {} of {} NICs carry: the others are down, hidden from the "
                                              "container, or left out by NCCL_IB_HCA",
                                              whole, nics)};
  } else if (hardware.nvlink_bandwidth > 0 && measured < 0.15 * hardware.nvlink_bandwidth) {
    return {"no-nvlink", facts + fmt::format("; below 15 % of an NVLink port ({}): traffic goes over PCIe or shared "
                                             "memory (fabric manager, peer access, ACS)",
                                             gigabytes(hardware.nvlink_bandwidth))};
  }
  if (share > 0.4 && share < 0.6)
    return {"half-bandwidth",
            facts + (reading.nodes > 1 ? "; about half: PCIe ACS on, NIC and GPU on different sockets, "
                                         "or a fixed cost for each step"
                                       : "; about half: half of the links are down, or peers are "
                                         "reached across sockets")};
  return {"low-asymptote",
          facts + (reading.nodes > 1 ? "; compare NIC rates with perftest, the library's transport and "
                                       "the number of channels"
                                     : "; look at link errors, clocks and the library's version")};
}

void compare(const std::vector<Row>& rows, const HardwareProfile& hardware, Judgement& out) {
  // Nodes without a switch are fast for some counts only (5 of 8 V100 reach half of what 4 do): where nobody measured
  // an odd count, the next one is no measure.
  const auto model = model_of(out.reading.op);
  const auto exact = [&](const CollectiveFit& fit) {
    return model && fit.op == name_of(*model) && fit.ranks == out.reading.ranks;
  };
  if (out.reading.nodes == 1 && !std::has_single_bit(static_cast<unsigned>(out.reading.ranks)) &&
      std::none_of(hardware.intra_node.begin(), hardware.intra_node.end(), exact)) {
    out.notes.push_back(fmt::format("{} was not measured with {} GPUs of a node: fitted, not judged", hardware.name,
                                    out.reading.ranks));
    return;
  }
  const double factor = busbw_factor(out.reading.op, out.reading.ranks);
  for (const Row& row : rows) {
    const auto seconds = expected_seconds(hardware, out.reading, row.size);
    if (!seconds || !(*seconds > 0)) {
      out.expected.clear();
      out.notes.push_back(hardware.name + " has no " + out.reading.op + ": fitted, not judged");
      return;
    }
    out.expected.push_back(*seconds);
  }
  out.judged = true;
  constexpr std::int64_t kHuge = std::int64_t{1} << 36;
  const double asymptote = static_cast<double>(kHuge) * factor / *expected_seconds(hardware, out.reading, kHuge);
  const auto expected_busbw = [&](std::size_t i) {
    return static_cast<double>(rows[i].size) * factor / out.expected[i];
  };

  std::vector<double> small, middle;
  const std::int64_t largest = rows.back().size;
  std::size_t plateau_at = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double slower = rows[i].seconds / out.expected[i];
    if (rows[i].size <= kSmall)
      small.push_back(slower);
    else if (rows[i].size >= largest / 4) {
      if (1 / slower > out.plateau.value_or(0)) {
        out.plateau = 1 / slower;
        out.plateau_busbw = rows[i].busbw;
        plateau_at = i;
      }
    } else {
      middle.push_back(slower);
    }
  }
  if (out.plateau) {
    const double threshold = expected_busbw(plateau_at) >= kOnPlateau * asymptote ? kPlateauShare : kRampShare;
    if (*out.plateau < threshold) {
      out.findings.push_back(plateau_signature(hardware, out.reading, out.plateau_busbw,
                                               out.plateau_busbw / *out.plateau, rows[plateau_at].size));
    } else if (*out.plateau < 0.9) {
      out.notes.push_back(fmt::format(
          "{} is {} % of the profile's at {}: within the profiles' error, but look at it{}",
          gigabytes(out.plateau_busbw), significant(100 * *out.plateau, 2), size_text(rows[plateau_at].size),
          out.reading.nodes > 1 && hardware.nics_per_node > 1
              ? fmt::format(" (one NIC of {} missing would cost {} %)", hardware.nics_per_node,
                            significant(100.0 / hardware.nics_per_node, 2))
              : ""));
    } else if (*out.plateau > 1.3) {
      out.notes.push_back(
          fmt::format("{} is {} times the profile's: all_reduce in the switch, a tree over two nodes, or "
                      "another machine than the profile describes",
                      gigabytes(out.plateau_busbw), significant(*out.plateau, 3)));
    }
  }
  if (!small.empty()) {
    out.latency = median(small);
    if (*out.latency > kLatencyTimes) {
      out.findings.push_back(
          {"latency-floor",
           fmt::format(
               "{} of up to 16 KiB takes {} times as long as expected ({} instead of {} for {}): the transport's "
               "software path, power saving of CPU or links, or a loaded host",
               out.reading.op, significant(*out.latency, 2), format_seconds(rows.front().seconds),
               format_seconds(out.expected.front()), size_text(rows.front().size))});
    } else if (*out.latency > kNoteLatencyTimes) {
      out.notes.push_back(
          fmt::format("small messages take {} times as long as the profile says", significant(*out.latency, 2)));
    }
  }
  if (!middle.empty() && median(middle) > 3)
    out.notes.push_back(
        fmt::format("messages from 16 KiB to {} take {} times as long as the profile says: a slow ramp "
                    "(protocol, steps, plugin)",
                    size_text(largest / 4), significant(median(middle), 2)));
}

}  // namespace

std::optional<double> expected_seconds(const HardwareProfile& hardware, const Reading& reading, std::int64_t size) {
  const auto op = model_of(reading.op);
  const auto measured = [&](const CollectiveFit& fit) { return op && fit.op == name_of(*op); };
  if (std::none_of(hardware.intra_node.begin(), hardware.intra_node.end(), measured)) return std::nullopt;
  if (div_ceil(reading.ranks, reading.nodes) > hardware.gpus_per_node) {
    throw Error({Violation{"command line", "--nodes", std::to_string(reading.nodes),
                           fmt::format("{} ranks on {} nodes, but {} has {} GPUs a node", reading.ranks, reading.nodes,
                                       hardware.name, hardware.gpus_per_node),
                           "give the number of nodes the test ran on"}});
  }
  // sendrecv sends from each rank to the next: across nodes, the pair that leaves the node is the slowest.
  const CollectiveSpan span = *op == Collective::send ? even_span(hardware, 2, std::min(reading.nodes, 2))
                                                      : even_span(hardware, reading.ranks, reading.nodes);
  return collective_time(hardware, *op, static_cast<double>(size), span).seconds;
}

Judgement judge_collective(const CollectiveTable& table, const Reading& reading, const HardwareProfile* hardware) {
  Judgement out;
  out.reading = reading;
  const double factor = busbw_factor(reading.op, reading.ranks);
  std::vector<Row> rows;
  std::int64_t wrong = 0, wrong_at = 0;
  for (const CollectiveRow& row : table.rows) {
    const double seconds = reading.op == "alltoall" ? row.out_of_place_s : row.best_s();  // it has no in-place form
    rows.push_back({row.size, seconds, static_cast<double>(row.size) * factor / seconds});
    if (row.wrong > wrong) {
      wrong = row.wrong;
      wrong_at = row.size;
    }
  }
  if (wrong > 0 || table.out_of_bounds.value_or(false)) {
    out.findings.push_back({"wrong-results", wrong > 0 ? fmt::format("{} gave {} wrong elements at {}", reading.op,
                                                                     wrong, size_text(wrong_at))
                                                       : reading.op + ": values out of bounds"});
  }
  find_shape(rows, out);
  if (hardware) compare(rows, *hardware, out);
  return out;
}

}  // namespace benchsuite
