// What an op costs on a hardware profile, alone on the machine. Sharing (links, SMs, memory) is the replay's business.
//
// Matrix products: GemmModel, at the sustained rate: a training step is seconds of work under a power limit, whatever its
// single kernels are. The burst rate is for isolated kernels, and for comparison with tables of such. Output traffic
// beyond 2 bytes an element (fp32 gradients, read and written when they accumulate) is hidden behind the arithmetic but
// for its exposed share. All layouts of the operands (transposes) run alike. 8-bit products run at
// fp8_over_bf16 times the speed; what casts their operands are ops of their own (engine/parallel/operand_cast.h).
// Unfused attention is batched products over [b a] heads; the causal half is computed like the rest, as the unfused
// kernels do. Fused attention: flops / rate, the rate interpolated between measured head sizes (held above the largest,
// proportional below the smallest, where the tensor cores starve), slowed where the blocks of query rows fill few waves
// of the SMs. Everything else: a floor for each kernel, and bytes at a share of the memory bandwidth. What a stack has no
// fused kernel for (OpShape::eager) is the sum of the framework's kernels, each with its floor and its operands' traffic,
// streaming like an addition, but for softmax and for 16-bit kernels with an operand that repeats or isn't contiguous.
// Communication: collective_model.h.
// A machine of an ensemble (HardwareProfile::error_draw) takes for each shape a factor of its own besides, by how far the
// products', the attention's and the collectives' model is from rows held back (model_error.h).
// Bounds: never faster than flops at peak, nor than bytes at memory bandwidth; the model claims no reuse of data in L2.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/core/letters.h"
#include "engine/device/eager_kernels.h"
#include "engine/device/sim/collective_model.h"
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

/// The host's launches, one after the other in recording order from `first` on: each op takes per_op, one that joins the launch
/// of the op before it (a captured graph, a library's own loop) per_joined.
struct HostCost {
  Picoseconds per_op = 0;  ///< 0: launching costs nothing, and the rest does not count
  Picoseconds first = 0;
  Picoseconds per_joined = 0;
  bool blocking = false;  ///< it waits for each op before it launches the next: per_op adds to every op's own time
};

/// One communication op, alone on the machine.
struct TransferCost {
  Picoseconds latency = 0;           ///< part that does not grow when a link, SMs or memory are shared
  Picoseconds duration = 0;          ///< whole, latency included
  std::int32_t sm_permille = 0;      ///< share of the SMs its kernel occupies while resident
  std::int32_t memory_permille = 0;  ///< share of the memory bandwidth it uses while transferring
  std::vector<LinkId> links;     ///< node-crossing links it loads, sorted, each once; empty inside a node
};

/// What a communication op takes alone on the machine among ranks that sit so; nothing where communication is free.
CollectiveTime transfer_time(const HardwareProfile& hardware, const OpShape& shape, const CollectiveSpan& span);

/// Whether a kernel stands alone or in the middle of seconds of work under a power limit.
enum class GemmRate : std::uint8_t { sustained, burst };

/// Not for use by several threads at once, unless said otherwise: it remembers the shapes it has priced.
class CostModel {
 public:
  /// The profile and placement must outlive the model. Throws when the placement's node size is not the profile's.
  CostModel(const HardwareProfile& hardware, const Placement& placement, HostCost host = {});

  /// Duration of a compute op. `site` matters only where the profile frees whole sites (`ideal`). Throws Error (config)
  /// for a matrix product of a type the GPU has no rate for.
  Picoseconds compute(const OpShape& shape, Site site) const { return compute_cost(shape, site).duration; }

  /// The same with what the op asks of the SMs and the memory.
  const ComputeCost& compute_cost(const OpShape& shape, Site site) const;
  /// The same worked out anew: any number of threads may ask at once.
  ComputeCost price(const OpShape& shape, Site site) const;

  /// Cost of a communication op among `group.ranks`. A group of one costs nothing. Throws Error (config) when the group
  /// spans nodes and the profile has no fabric.
  TransferCost transfer(const OpShape& shape, const Group& group) const;
  /// Where the ranks of a group of several sit.
  CollectiveSpan span_of(const Group& group) const;

  double gemm_seconds(const OpShape& shape, GemmRate rate) const;

  /// Two for each NIC: id = 2 (node nics_per_node + nic) + direction, 0 egress, 1 ingress.
  int link_count() const;
  HostCost host() const { return host_; }
  const HardwareProfile& hardware() const { return hardware_; }

 private:
  /// Seconds, and which of the two resources they are due to.
  struct Bound {
    double seconds = 0;
    bool by_memory = false;
  };
  struct Known {
    OpShape shape;
    Site site{};
    bool valid = false;
    ComputeCost cost;
  };

  double peak(DType type) const;
  Bound gemm_bound(const OpShape& shape, GemmRate rate) const;
  Bound flash_bound(const OpShape& shape) const;
  Bound memory_bound(const OpShape& shape, int kernels, double bytes) const;
  Bound eager_bound(const EagerKernels& kernels) const;
  /// Of a machine of an ensemble, and of tables that were not chosen; `blocks` a SM.
  double attention_factor(const OpShape& shape, double blocks) const;
  double flash_rate(FusedAttention kernel, std::int64_t seq, std::int64_t head_dim, bool causal, bool backward) const;
  LinkId link(int rank, int direction) const;
  /// NICs that the ranks of a group reach, by node.
  std::map<int, std::set<LinkId>> nics_of(const Group& group) const;

  const HardwareProfile& hardware_;
  const Placement& placement_;
  HostCost host_;
  int nodes_ = 0;
  std::array<MemoryOpModel, kOpKinds> memory_ops_{};
  MemoryOpModel broadcast_;
  std::array<bool, kSites> free_site_{};
  /// By kernel (a profile without one has its usual one there), causal, then by head dimension ascending.
  std::array<std::array<std::vector<AttentionRate>, 2>, kFusedAttentions> attention_;
  mutable std::vector<Known> known_;                     ///< by hash of the shape; a later one replaces an earlier one
};

/// In words, which rates stand in for a named fused attention kernel that the profile has none of; "" where it has them.
std::string attention_stand_in(const HardwareProfile& hardware, FusedAttention kernel);

/// How a software launches: each op by itself, running ahead of the device or waiting for each, or whole steps as a graph.
enum class LaunchMode : std::uint8_t { eager, blocking, graph };

/// The launches on this profile's host; `step_fixed_s` before the first.
HostCost host_cost(const HardwareProfile& hardware, LaunchMode mode, double step_fixed_s);

}  // namespace benchsuite
