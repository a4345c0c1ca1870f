// How long a collective takes, alone on the machine, by its algorithm.
//
// Inside a node: the nccl-tests fit of the nearest rank count (CollectiveFit), a ring, or NVLS where the profile's entry
// says that the switch reduces. Beyond the largest measured count the start-up grows by rank as between the last two.
// Across nodes: a ring over all ranks, bound by the ring inside a node or by the NICs (rails) its ranks reach on the node
// where they reach the fewest; the fastest wire protocol sets start-up and ramp, which grow with the nodes. A protocol may
// take a tree for small all_reduces; the two-node tree is hierarchical: reduce inside each of two whole nodes (in the switch
// where it can), exchange between them (each sends the bytes once), spread inside. Whole is a node with seven eighths of its
// NICs reached: a rack of 72 GPUs is often run with 64. Where the profile says that it shows, the
// pipe of chunks takes 2 sqrt(hops x wire time) to fill and drain, as with the best chunk for each size. All-to-all aggregates no NICs: each rank's share of its node's NICs
// carries what leaves the node (NVIDIA/nccl-tests issues 130 and 267). A send takes one NIC.
// Never faster than the algorithm's bytes on its slowest link.
//
// Sizes are bytes by nccl-tests' convention: all_gather the whole output, reduce_scatter and all_to_all the whole input.
#pragma once

#include <string_view>

#include "engine/device/sim/hardware.h"

namespace benchsuite {

enum class Collective : std::uint8_t { all_reduce, all_gather, reduce_scatter, all_to_all, send };
std::string_view name_of(Collective op);

/// Where its ranks sit.
struct CollectiveSpan {
  int ranks = 2;
  int nodes = 1;
  int most_ranks = 2;   ///< on the node with most
  int fewest_nics = 1;  ///< NICs reached on the node where the ranks reach the fewest; counts across nodes only

  friend bool operator==(const CollectiveSpan&, const CollectiveSpan&) = default;
};

struct CollectiveTime {
  double seconds = 0;
  double fixed = 0;         ///< seconds that do not grow when a link is shared, of `seconds`
  double memory_bytes = 0;  ///< each rank moves through its memory
  std::string_view algorithm = "none";
};

/// busbw = bytes / seconds * factor (nccl-tests PERFORMANCE.md).
double busbw_factor(Collective op, int ranks);

/// The span of `ranks` ranks that fill `nodes` nodes evenly, as nccl-tests runs them.
CollectiveSpan even_span(const HardwareProfile& hardware, int ranks, int nodes);

/// One rank costs nothing. Throws Error (config) when the span crosses nodes and the profile has no fabric.
CollectiveTime collective_time(const HardwareProfile& hardware, Collective op, double bytes, const CollectiveSpan& span);

}  // namespace benchsuite
