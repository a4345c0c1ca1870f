// A hardware profile: what a GPU, a node and a fabric can do, by operator-level measurement or datasheet.
//
// Each fitted constant in cases/hardware/*.json carries its source key, row count and fit error;
// scripts/fit_hardware.py makes them from raw operator tables. Constants never come from training-step measurements.
// How the constants become times is said in cost_model.h.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/core/dtype.h"
#include "engine/core/json_reader.h"
#include "engine/program/op.h"

namespace benchsuite {

/// One thread-block tile of a matrix kernel and its rate relative to the best tile.
struct GemmTile {
  std::int64_t m = 0, n = 0;
  double relative = 1;
};

/// Time of a matrix product: t = floor + max(2 m n (k + k_ramp) / (peak efficiency), bytes / (memory bandwidth share)).
/// With tiles, m n is rounded up to whole waves of the best tile over all SMs.
struct GemmModel {
  double floor_s = 0;
  double efficiency = 1;        ///< sustained share of dense peak at large k
  double k_ramp = 0;            ///< k at which the k-loop's overhead equals its work
  double memory_share = 1;      ///< 0: memory traffic is free (ideal only)
  std::vector<GemmTile> tiles;  ///< empty: no wave quantisation
};

/// Fused attention's rates at one shape.
struct AttentionPoint {
  std::int64_t head_dim = 0, seq = 0;
  bool causal = false;
  double forward_tflops = 0;   ///< counted 4 b a s^2 d, halved when causal
  double backward_tflops = 0;  ///< counted 2.5 times forward
};

/// Memory-bound op: t = floor + bytes / (share * bandwidth).
struct MemoryOpModel {
  double share = 1;
  double floor_s = 0;
};

/// One collective inside a node: t = a + size f / busbw + c sqrt(size), f the busbw factor of nccl-tests.
struct CollectiveFit {
  std::string op;  ///< all_reduce, all_gather, reduce_scatter, send
  int ranks = 0;
  double a_s = 0, busbw = 0 /* bytes/s */, c_s = 0 /* s per sqrt(byte) */;
};

/// One wire protocol of a ring that crosses nodes (low latency at part of the bandwidth, or the reverse). The library
/// takes the fastest for each size: t = min over protocols of base + hops + size f / (busbw share).
struct RingProtocol {
  std::string name;
  double base_s = 0;
  double nic_hop_s = 0;     ///< one step between two nodes
  double nvlink_hop_s = 0;  ///< one step inside a node
  double bandwidth_share = 1;
  bool all_reduce_tree = false;  ///< all_reduce takes a tree of depth ceil(log2 nodes) instead of the ring's nodes - 1
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
  std::vector<AttentionPoint> attention;            ///< empty: fused attention runs at peak (ideal)
  std::map<std::string, MemoryOpModel> memory_ops;  ///< by op name; "default" for the rest
  double nvlink_bandwidth = 0;                      ///< bytes/s and direction, per GPU (line rate)
  std::vector<CollectiveFit> intra_node;
  int nics_per_node = 0;     ///< 0: single-node profile
  double nic_bandwidth = 0;  ///< bytes/s and direction, usable, per NIC
  double nic_latency_s = 0;  ///< small-message time of a send between nodes
  std::vector<RingProtocol> inter_node;
  int collective_sm_permille = 0;  ///< SMs a collective's kernel occupies inside a node
  int inter_node_sm_permille = 0;
  std::vector<Site> free_sites;     ///< cost nothing (ideal only)
  bool free_communication = false;  ///< ideal only
  Json raw;                         ///< the whole file, for `show` and reports (sources, fit errors)
};

/// Reads and checks a profile file; problems carry file, key, value and remedy.
HardwareProfile read_hardware(const Json& json, const std::string& file, std::vector<Violation>& problems);

/// Reads the profile at `path`. Throws Error with every problem.
HardwareProfile load_hardware(const std::string& path);

}  // namespace benchsuite
