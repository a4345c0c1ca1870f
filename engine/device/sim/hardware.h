// A hardware profile: what a GPU, a node and a fabric can do, by operator-level measurement or datasheet.
//
// Each fitted constant in cases/hardware/*.json carries its source key, row count and fit error;
// scripts/fit_hardware.py makes them from raw operator tables. Constants never come from training-step measurements.
// How the constants become times is said in cost_model.h.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/core/dtype.h"
#include "engine/core/json_reader.h"
#include "engine/device/sim/model_error.h"
#include "engine/program/op.h"

namespace benchsuite {

/// A broken line over ascending x, held constant beyond its ends.
struct Curve {
  std::vector<double> x, y;
  double at(double value) const;  ///< 0 for an empty curve
};

/// One thread-block tile of a matrix kernel and its rate relative to the best tile.
struct GemmTile {
  std::int64_t m = 0, n = 0;
  double relative = 1;
};

/// The rate of matrix products by how their operands' rows are aligned (row_alignment_of), over that of 16 bytes: a kernel loads
/// whole vectors from those, and the library has slower ones for the others.
struct AlignmentRates {
  double narrow = 1;  ///< 4 or 8 bytes
  double odd = 1;     ///< one 16-bit element
};

/// Time of a matrix product of batch x [m, n, k]:
///   math    = 2 outputs (k + k_ramp) / (peak efficiency) * exp(surface(waves, k)); under the surface's first k, its rate
///             there, and short_products times the writing of the outputs on top; no longer than a product of that first k
///   outputs = (m n batch)^(1 - wave_share) * (m n batch rounded up to whole waves of the best tile)^wave_share, and
///             never under a quarter of a wave: fewer SMs at work do not make the work faster
///   time    = max(floor, max(math, bytes / (memory bandwidth memory_share)) / alignment rate).
/// That is a burst: cold, at full clocks. Sustained work divides the math by sustained_over_burst; a single long kernel
/// meets the power limit by itself: times exp(long_kernel(log10 seconds)).
struct GemmModel {
  double floor_s = 0;
  double efficiency = 1;            ///< burst share of dense peak at large k and many waves
  double sustained_over_burst = 1;  ///< seconds of work under the power limit against short kernels
  double k_ramp = 0;                ///< k at which the k-loop's overhead equals its work; 0 where the surface has it
  double memory_share = 1;          ///< 0: memory traffic is free (ideal only)
  double wave_share = 1;            ///< how much of the rounding to whole waves shows
  std::vector<GemmTile> tiles;      ///< empty: no wave quantisation
  std::vector<double> surface_waves;  ///< log2 of m n batch / (128 x 128 x SMs)
  std::vector<double> surface_k;      ///< log2 of k
  std::vector<double> surface;        ///< slowdown (natural log) by k, then waves; empty: none
  double short_products = 0;          ///< what writing the outputs takes on top over the bandwidth's time; 0: hidden
  std::map<DType, AlignmentRates> alignment;  ///< by input type; all alike where there is none
  Curve long_kernel;                  ///< slowdown (natural log) by log10 of the burst seconds
  double accumulate_exposed = 0;      ///< share of the extra traffic of an fp32 accumulation that the kernel does not hide
  double fp8_over_bf16 = 0;           ///< speed of an 8-bit product against a 16-bit one; 0: from the peaks
  double fp8_cast_share = 1;          ///< share of the memory bandwidth at which its operands are cast (and amax taken)
  ModelError error;
};

/// Fused attention of one head size and masking: rate(s) = rate / (1 + (ramp / s)^power), FLOP/s, counted 4 b a s^2 d
/// forward, 2.5 times that backward, halved when causal.
struct AttentionRate {
  std::int64_t head_dim = 0;
  bool causal = false;
  struct Pass {
    double rate = 0;
    double ramp = 0;   ///< sequence length at which half the rate is reached (power 1)
    double power = 1;
    double at(std::int64_t seq) const;
  } forward, backward;
};

/// Memory-bound op: t = floor + bytes / (share * bandwidth).
struct MemoryOpModel {
  double share = 1;
  double floor_s = 0;
};

/// One collective inside a node, by nccl-tests' sizes:
/// t = (a + size f / busbw + c sqrt(size)) * exp(ramp), f the busbw factor, ramp the op's switches of protocol.
struct CollectiveFit {
  std::string op;  ///< all_reduce, all_gather, reduce_scatter, all_to_all, send
  int ranks = 0;
  double a_s = 0, busbw = 0 /* bytes/s */, c_s = 0 /* s per sqrt(byte) */;
  std::string algorithm = "ring";  ///< or "nvls": reduction in the switch
};

/// Slowdown (natural log) by log2 of the size or, where the library's thresholds grow with the ranks (rings), of size / ranks.
struct CollectiveRamp {
  Curve slowdown;
  bool per_rank = false;

  double at(double size, int ranks) const;
};

/// One wire protocol of a ring that crosses nodes (low latency at part of the bandwidth, or the reverse). The library
/// takes the fastest for each size: t = min over protocols of base + hops + size f / (busbw share), and the pipe's filling.
struct RingProtocol {
  std::string name;
  double base_s = 0;
  double nic_hop_s = 0;     ///< one step between two nodes
  double nvlink_hop_s = 0;  ///< one step inside a node
  double bandwidth_share = 1;
  bool all_reduce_tree = false;  ///< all_reduce takes a tree of depth ceil(log2 nodes) instead of the ring's nodes - 1
  bool two_node_tree = false;  ///< hierarchical all_reduce of two whole nodes: each node sends its bytes once
};

struct HardwareProfile {
  std::string name, title, gpu;
  int gpus_per_node = 8;
  int sm_count = 0;
  std::int64_t memory_bytes = 0;
  double memory_bandwidth = 0;         ///< bytes/s
  std::map<DType, double> peak_flops;  ///< dense, by input dtype
  GemmModel gemm;                      ///< 16-bit inputs
  std::string attention_kernel;        ///< which fused kernel the points were measured on
  double attention_floor_s = 0;
  std::vector<AttentionRate> attention;             ///< empty: fused attention runs at peak (ideal)
  std::map<std::string, std::vector<AttentionRate>> other_attention;  ///< by name of FusedAttention
  std::set<std::string> usual_attention;            ///< of these, attention_kernel itself
  std::int64_t attention_block = 128;               ///< query rows of one thread block
  double attention_wave_share = 0;                  ///< how much of the rounding to whole waves of blocks shows
  Curve attention_occupancy;                        ///< slowdown (natural log) by log2 of blocks per SM
  std::map<std::string, MemoryOpModel> memory_ops;  ///< by op name; "default" for the rest; "broadcast": see EagerKernels
  double nvlink_bandwidth = 0;                      ///< bytes/s and direction, per GPU (line rate)
  std::vector<CollectiveFit> intra_node;
  std::map<std::string, CollectiveRamp> collective_ramps;  ///< by op
  int nics_per_node = 0;     ///< 0: single-node profile
  double nic_bandwidth = 0;  ///< bytes/s and direction, usable, per NIC
  double nic_latency_s = 0;  ///< small-message time of a send between nodes
  std::vector<RingProtocol> inter_node;
  bool pipeline_fill = false;  ///< filling the pipe of chunks shows: 2 sqrt(hops x wire time) more
  int collective_sm_permille = 0;  ///< SMs a collective's kernel occupies inside a node
  int inter_node_sm_permille = 0;
  double host_eager_s = 0;          ///< host time per op of an eager framework
  double host_graph_s = 0;          ///< host time per op inside a captured graph
  double host_library_s = 0;        ///< host time per kernel that a library launches in a loop of its own
  std::vector<Site> free_sites;     ///< cost nothing (ideal only)
  bool free_communication = false;  ///< ideal only

  // What tables that were not chosen say against the models above, as a factor on their time: 1 in a profile, drawn from its
  // range in an ensemble.
  double attention_time_factor = 1;    ///< of attention_kernel, also where it is named
  std::map<std::string, double> kernel_time_factor;  ///< of other_attention's, by name; 1 where there is none
  double slowest_gpu_factor = 1;       ///< of a job's slowest GPU: products and fused attention, which clocks limit
  double intra_node_time_factor = 1;   ///< collectives
  double inter_node_time_factor = 1;   ///< collectives
  double send_wire_factor = 1;         ///< on the wire time of a send between nodes
  ModelError attention_error, occupancy_error, intra_node_error, inter_node_error;
  std::map<std::string, ModelError> other_attention_error;  ///< by name of FusedAttention
  std::optional<ErrorDraw> error_draw;  ///< a machine of an ensemble: every shape errs as its model does. None in a profile
  Json raw;                         ///< the whole profile, resolved: sources, ranges, fit errors
};

/// A profile may be based on another one of its folder ("based_on": its name): top-level keys it states replace the
/// other's, "sources" add up. Returns the whole profile; problems name what is missing.
Json resolve_profile(const Json& json, const std::string& file, std::vector<Violation>& problems);

/// Reads and checks a profile file, resolving it first; problems carry file, key, value and remedy.
HardwareProfile read_hardware(const Json& json, const std::string& file, std::vector<Violation>& problems);

/// Reads the profile at `path`. Throws Error with every problem.
HardwareProfile load_hardware(const std::string& path);

}  // namespace benchsuite
