// The layout: how a model is spread over ranks and how a step is scheduled.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/dtype.h"
#include "engine/core/json_reader.h"

namespace benchsuite {

enum class RecomputeGranularity : std::uint8_t { none, selective, full };
enum class RecomputeMethod : std::uint8_t { uniform, block };
enum class RecomputeModule : std::uint8_t { core_attn, layernorm, mlp };
enum class AttentionKernel : std::uint8_t { unfused, flash };
enum class ScheduleKind : std::uint8_t { gpipe, one_f_one_b, interleaved };
enum class TensorPlacement : std::uint8_t {
  packed,       ///< consecutive ranks fill a node: tensor groups stay inside it
  across_nodes  ///< ranks are dealt round-robin over all nodes: every tensor group crosses them
};

struct RecomputeConfig {
  RecomputeGranularity granularity = RecomputeGranularity::none;
  RecomputeMethod method = RecomputeMethod::uniform;                    ///< full only
  std::int64_t num_layers = 1;                                          ///< full only: k
  std::vector<RecomputeModule> modules = {RecomputeModule::core_attn};  ///< selective only
  bool distribute_saved_activations = false;  ///< full only: kept inputs are split over t and gathered in backward

  /// Whether the selective policy recomputes `module`.
  bool selects(RecomputeModule module) const;

  friend bool operator==(const RecomputeConfig&, const RecomputeConfig&) = default;
};

/// Which layers the pipeline stages hold where they do not all hold the same number (megatron-core
/// num_layers_in_first_pipeline_stage and ..._last_..., account_for_embedding_in_pipeline_split and ..._loss_...; or a list).
struct LayerSplit {
  std::int64_t first_stage = 0, last_stage = 0;  ///< layers of that stage, all its chunks; 0: its share of the rest
  bool counts_embedding = false, counts_loss = false;  ///< each takes the place of a layer in the first, last chunk
  std::vector<std::int64_t> stages;                    ///< every stage's layers, all its chunks; empty: as above

  bool even() const { return *this == LayerSplit{}; }
  friend bool operator==(const LayerSplit&, const LayerSplit&) = default;
};

struct Layout {
  std::int64_t tp = 1, pp = 1, dp = 1, vpp = 1, cp = 1, ep = 1;
  std::int64_t micro_batch = 1;   // b
  std::int64_t global_batch = 1;  // samples a step, all replicas
  bool sequence_parallel = false;
  RecomputeConfig recompute;
  int zero_stage = 0;
  DType precision = DType::bf16;
  AttentionKernel attention = AttentionKernel::flash;
  TensorPlacement placement = TensorPlacement::packed;
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  std::int64_t microbatch_group = 0;  // g of the interleaved schedule; 0 = pp
  LayerSplit layer_split;
  bool cpu_offloading = false;  // of activations; always refused (validate), since the engine does not offload

  std::int64_t world() const { return tp * pp * dp * cp; }
  /// Ranks that hold the same parameters, and reduce and shard together: context-parallel ones see other tokens as well.
  std::int64_t replicas() const { return dp * cp; }
  /// Type of parameters and activations: fp8 is what operands of products are cast to.
  DType stored() const { return precision == DType::fp8 ? DType::bf16 : precision; }
  std::int64_t micro_batches() const { return global_batch / (micro_batch * dp); }  // m
  std::int64_t group() const { return microbatch_group == 0 ? pp : microbatch_group; }

  friend bool operator==(const Layout&, const Layout&) = default;
};

/// Reads a layout object. tp, pp, dp, micro_batch and global_batch must be there; the rest has the defaults above.
/// `recompute` is an object {granularity, method, num_layers, modules} or one of the words "none", "selective"
/// (core_attn) and "full" (uniform, 1 layer); `layer_split` is {first_stage, last_stage, counts_embedding, counts_loss, stages}, all
/// optional; `schedule` is "gpipe", "1f1b" or "interleaved". Values are judged
/// together with the model by validate() in engine/train/config.h.
Layout read_layout(const Json& json, const std::string& file, const std::string& path,
                   std::vector<Violation>& problems);

/// Everything resolved, in the form read_layout() takes.
Json to_json(const Layout& layout);

std::string_view name_of(RecomputeGranularity granularity);
std::string_view name_of(RecomputeMethod method);
std::string_view name_of(RecomputeModule module);
std::string_view name_of(AttentionKernel attention);
std::string_view name_of(TensorPlacement placement);
std::string_view name_of(ScheduleKind schedule);

}  // namespace benchsuite
