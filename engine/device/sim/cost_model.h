// What an op costs on a hardware profile, alone on the machine. Sharing (links, SMs) is the replay's business.
//
// Matrix products: GemmModel. Unfused attention is batched products over [b a] heads; the causal half is computed like
// the rest, as the unfused kernels do. Fused attention: flops / rate, the rate interpolated in log(seq) and in the head
// dimension between measured points (held beyond the longest and shortest sequence and the largest head, proportional
// to the head dimension below the smallest, where the tensor cores starve), times the share of SMs that have work when
// b a ceil(s / 128) blocks are fewer than the SMs. Everything else: bytes at a share of the memory bandwidth.
// Collectives inside a node: the nccl-tests fit of the nearest rank count (in ratio; sizes by nccl-tests' convention).
// Across nodes: a ring, bound by the ring inside a node or by the NICs its ranks reach on the node where they reach
// the fewest; the fastest wire protocol sets latency and ramp. A send between nodes takes one NIC.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "engine/core/letters.h"
#include "engine/device/sim/hardware.h"
#include "engine/program/placement.h"
#include "engine/program/program.h"

namespace benchsuite {

/// A shared link: one NIC (or one node's only NIC), one direction. Ids are dense and global.
using LinkId = std::int32_t;

/// One compute op, alone on the machine.
struct ComputeCost {
  Picoseconds duration = 0;
  std::int32_t sm_permille = 1000;   ///< of the SMs it is bound by; 0: the memory is what bounds it
  std::int32_t memory_permille = 0;  ///< of the memory bandwidth it uses
};

/// The host's launches: op i (from 0, in recording order) is launched at first + (i + 1) per_op.
struct HostCost {
  Picoseconds per_op = 0;  ///< 0: launching costs nothing, and `first` does not count
  Picoseconds first = 0;
};

/// One communication op, alone on the machine.
struct TransferCost {
  Picoseconds latency = 0;           ///< part that does not grow when a link, SMs or memory are shared
  Picoseconds duration = 0;          ///< whole, latency included
  std::int32_t sm_permille = 0;      ///< share of the SMs its kernel occupies while resident
  std::int32_t memory_permille = 0;  ///< share of the memory bandwidth it uses while transferring
  std::vector<LinkId> links;     ///< node-crossing links it loads, sorted, each once; empty inside a node
};

class CostModel {
 public:
  /// The profile and placement must outlive the model. Throws when the placement's node size is not the profile's.
  CostModel(const HardwareProfile& hardware, const Placement& placement);

  /// Duration of a compute op. `site` matters only where the profile frees whole sites (`ideal`). Throws Error (config)
  /// for a matrix product of a type the GPU has no rate for.
  Picoseconds compute(const OpShape& shape, Site site) const;

  /// Cost of a communication op among `group.ranks`. A group of one costs nothing. Throws Error (config) when the group
  /// spans nodes and the profile has no fabric.
  TransferCost transfer(const OpShape& shape, const Group& group) const;

  /// Two for each NIC: id = 2 (node nics_per_node + nic) + direction, 0 egress, 1 ingress.
  int link_count() const;
  const HardwareProfile& hardware() const { return hardware_; }

 private:
  struct Reach {
    int nodes = 0;        ///< nodes the group sits on
    int most_ranks = 0;   ///< ranks on the node with most
    int fewest_nics = 0;  ///< distinct NICs on the node where the group reaches fewest
    std::vector<LinkId> links;
  };

  double peak(DType type) const;
  double gemm_seconds(const OpShape& shape) const;
  double flash_seconds(const OpShape& shape) const;
  double flash_rate(std::int64_t seq, std::int64_t head_dim, bool causal, bool backward) const;
  double rate_at_seq(const std::vector<AttentionPoint>& points, std::int64_t seq, bool backward) const;
  LinkId link(int rank, int direction) const;
  Reach reach_of(const Group& group) const;
  const CollectiveFit& nearest_fit(OpKind kind, int ranks) const;
  TransferCost point_to_point(double bytes, const Group& group) const;
  TransferCost inside_node(OpKind kind, double bytes, int ranks) const;
  TransferCost across_nodes(OpKind kind, double bytes, int ranks, Reach reach) const;

  const HardwareProfile& hardware_;
  const Placement& placement_;
  int nodes_ = 0;
  double nvlink_ring_ = 0;  ///< bytes/s, busbw of a ring inside a node
  std::array<MemoryOpModel, kOpKinds> memory_ops_{};
  std::array<bool, kSites> free_site_{};
  /// By causal, then by head dimension ascending: points by sequence ascending.
  std::array<std::vector<std::vector<AttentionPoint>>, 2> attention_;
};

}  // namespace benchsuite
