// Rows of published training measurements: one layout of one model on one cluster, and what somebody measured.
//
// A file is an array of rows, or {"groups": [{"common": {...}, "rows": [...]}]}, where a row's own keys are laid over
// the group's. Keys that nothing here knows are kept in `raw` and change nothing; a row that can't be read is a row too,
// with its problem: nothing is dropped.
//
//   model   {family, layers, hidden, ffn_hidden, heads, kv_heads, seq, vocab, params_b, experts}
//   cluster {gpu, gpus, gpus_per_node, interconnect}
//   layout  {tp, pp, dp, vpp, cp, ep, micro_batch, global_batch, num_microbatches, sequence_parallel, recompute,
//            recompute_modules, zero_stage, precision, attention, attention_kernel, ...}
//   measured {iteration_s | tokens_per_s_per_gpu | tokens_per_s | samples_per_s_per_gpu | tflops_per_gpu + flop_convention |
//            peak_memory_gb | layer_forward_ms, layer_backward_ms | activation_gib | ...}
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/json_reader.h"

namespace benchsuite {

enum class RowKind : std::uint8_t { throughput, oom, memory, layer_time, config_only, other };

struct PublishedRow {
  std::string id, source;
  RowKind kind = RowKind::throughput;
  bool verified = true;  ///< read in the primary table; false: off a plot, or through another source
  Json model, cluster, layout, measured;  ///< objects, empty where the row has none
  std::string notes;
  std::string problem;  ///< why the row can't be read; empty when it can

  /// A whole number of `object`, nullopt when absent, null or no number.
  static std::optional<std::int64_t> integer(const Json& object, const char* key);
  static std::optional<double> number(const Json& object, const char* key);
  static std::string text(const Json& object, const char* key);  ///< "" when absent or no text
};

/// Rows of `json`. Ids that come twice get "#2", "#3", ... so that every row has its own. Throws Error (config) when it is
/// neither form, naming `file`.
std::vector<PublishedRow> read_published_rows(const Json& json, const std::string& file);

/// Every row of the files in the order given. Throws Error (io) for a file that can't be read, (config) for one that is
/// no JSON or no table of rows.
std::vector<PublishedRow> load_published_rows(const std::vector<std::string>& files);

}  // namespace benchsuite
