// A hardware profile: what a GPU, a node and a fabric can do, by operator-level measurement or datasheet.
//
// Each fitted constant in cases/hardware/*.json carries its source key, row count and fit error; scripts/fit_hardware.py
// makes them from raw operator tables. Constants never come from training-step measurements.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/core/dtype.h"
#include "engine/core/json_reader.h"
#include "engine/program/op.h"

namespace benchsuite {

/// Time of a matrix product: t = floor + max(2 m n (k + k_ramp) / (peak efficiency), bytes / (memory bandwidth share)),
/// with the output rounded up to whole waves of tiles when `tile_m` > 0.
struct GemmModel {
  double floor_s = 0;
  double efficiency = 1;       ///< sustained share of dense peak at large k
  double k_ramp = 0;           ///< k at which the k-loop's overhead equals its work
  double memory_share = 1;
  std::int64_t tile_m = 0, tile_n = 0;  ///< 0: no wave quantisation
};

/// Fused attention: t = floor + flops / (peak share(s, d)), shares by pass, causal or not.
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

/// One collective inside a node: t = a + size f / B + c sqrt(size), f the busbw factor of nccl-tests.
struct CollectiveFit {
  std::string op;  ///< all_reduce, all_gather, reduce_scatter, send
  int ranks = 0;
  double a_s = 0, busbw = 0 /* bytes/s */, c_s = 0 /* s per sqrt(byte) */;
};

struct HardwareProfile {
  std::string name, title, gpu;
  int gpus_per_node = 8;
  int sm_count = 0;
  std::int64_t memory_bytes = 0;
  double memory_bandwidth = 0;                 ///< bytes/s
  std::map<DType, double> peak_flops;          ///< dense, by input dtype
  GemmModel gemm;                              ///< 16-bit inputs
  std::vector<AttentionPoint> attention;
  std::map<std::string, MemoryOpModel> memory_ops;  ///< by op name, "default" must be there
  double nvlink_bandwidth = 0;                 ///< bytes/s and direction, per GPU
  std::vector<CollectiveFit> intra_node;
  int nics_per_node = 0;                       ///< 0: single-node profile
  double nic_bandwidth = 0;                    ///< bytes/s and direction, usable, per NIC
  double nic_latency_s = 0;                    ///< small-message time of a send between nodes
  double inter_node_floor_s = 0;               ///< small-message time of a two-node collective
  double inter_node_floor_per_node_s = 0;      ///< added per further node
  double inter_node_c_s = 0;                   ///< protocol ramp, s per sqrt(byte)
  int collective_sm_permille = 0;              ///< SMs a collective's kernel occupies inside a node
  int inter_node_sm_permille = 0;
  std::vector<Site> free_sites;                ///< cost nothing (ideal only)
  bool free_communication = false;             ///< ideal only
  Json raw;                                    ///< the whole file, for `show` and reports (sources, fit errors)
};

/// Reads and checks a profile file; problems carry file, key, value and remedy.
HardwareProfile read_hardware(const Json& json, const std::string& file, std::vector<Violation>& problems);

}  // namespace benchsuite
