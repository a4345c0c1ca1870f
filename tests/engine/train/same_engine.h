// The small configurations whose execution on device cpu is held against the Program and the closed formulas.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <tuple>

#include "engine/parallel/rank_grid.h"
#include "engine/train/config.h"

namespace benchsuite::testing_train {

/// Dimensions at which no ZeRO bucket is padded on one tensor rank: sizes of all buckets are multiples of 128 d. Two query heads
/// of the Llama share a key-value head; it has no dropout, like its family.
inline TrainConfig small(ModelFamily family) {
  TrainConfig config;
  if (family == ModelFamily::llama) {
    config.model = {.name = "small", .family = family, .layers = 4, .hidden = 128, .ffn_hidden = 256, .heads = 8,
                    .kv_heads = 4, .seq = 16, .vocab = 512, .dropout = 0};
  } else {
    config.model = {.name = "small", .layers = 4, .hidden = 128, .ffn_hidden = 512, .heads = 4, .kv_heads = 4, .seq = 16,
                    .vocab = 512, .dropout = 0.1};
  }
  config.layout.precision = DType::fp32;
  config.layout.attention = AttentionKernel::unfused;
  config.layout.global_batch = 4;
  config.stack.sharded_parameters = {
      .prefetch_elements = 0, .max_live_elements = 0, .max_reuse_distance = 0, .persistence_threshold = 0};
  return config;
}

struct Configuration {
  const char* name;
  std::function<void(TrainConfig&)> change;
};

inline void full(TrainConfig& c, std::int64_t layers, RecomputeMethod method = RecomputeMethod::uniform) {
  c.layout.recompute = {.granularity = RecomputeGranularity::full, .method = method, .num_layers = layers};
}

inline const Configuration kConfigurations[] = {
    {"one_rank", [](auto&) {}},
    {"one_rank_bf16", [](auto& c) { c.layout.precision = DType::bf16; }},
    {"flash_full_1", [](auto& c) { c.layout.attention = AttentionKernel::flash, full(c, 1); }},
    {"full_2", [](auto& c) { full(c, 2); }},
    {"block_3_regenerated", [](auto& c) { full(c, 3, RecomputeMethod::block), c.stack.stores_dropout_masks = false; }},
    {"core_attn", [](auto& c) { c.layout.recompute.granularity = RecomputeGranularity::selective; }},
    {"norm_mlp",
     [](auto& c) {
       c.layout.recompute = {.granularity = RecomputeGranularity::selective,
                             .modules = {RecomputeModule::layernorm, RecomputeModule::mlp}};
     }},
    {"micro_batch_2", [](auto& c) { c.layout.micro_batch = 2; }},
    {"pp2_bf16", [](auto& c) { c.layout.pp = 2, c.layout.precision = DType::bf16; }},
    {"pp4_gpipe", [](auto& c) { c.layout.pp = 4, c.layout.schedule = ScheduleKind::gpipe; }},
    {"pp2_v2", [](auto& c) { c.layout.pp = 2, c.layout.vpp = 2, c.layout.schedule = ScheduleKind::interleaved; }},
    {"pp4_overlapped", [](auto& c) { c.layout.pp = 4, c.stack.overlaps_pipeline = true; }},
    {"tp2", [](auto& c) { c.layout.tp = 2; }},
    {"tp2_sp_dropout", [](auto& c) { c.layout.tp = 2, c.layout.sequence_parallel = true, c.model.dropout = 0.2; }},
    {"tp4_sp_full_1", [](auto& c) { c.layout.tp = 4, c.layout.sequence_parallel = true, full(c, 1); }},
    {"tp2_sp_pp2_bf16",
     [](auto& c) {
       c.layout.tp = c.layout.pp = 2, c.layout.sequence_parallel = true, c.layout.precision = DType::bf16;
     }},
    {"tp2_sp_mlp",
     [](auto& c) {
       c.layout.tp = 2, c.layout.sequence_parallel = true;
       c.layout.recompute = {.granularity = RecomputeGranularity::selective, .modules = {RecomputeModule::mlp}};
     }},
    {"dp2_overlapped", [](auto& c) { c.layout.dp = 2, c.stack.overlaps_gradient_reduction = true; }},
    {"dp2_zero1_bf16", [](auto& c) { c.layout.dp = 2, c.layout.zero_stage = 1, c.layout.precision = DType::bf16; }},
    {"dp2_zero1_late_gather_bf16",
     [](auto& c) {
       c.layout.dp = 2, c.layout.zero_stage = 1, c.layout.precision = DType::bf16;
       c.stack.overlaps_gradient_reduction = c.stack.overlaps_parameter_gather = true;
     }},
    {"pp2_dp2_zero2", [](auto& c) { c.layout.pp = c.layout.dp = 2, c.layout.zero_stage = 2; }},
    {"dp2_zero3_full_1", [](auto& c) { c.layout.dp = 2, c.layout.zero_stage = 3, full(c, 1); }},
    {"pp2_dp2_zero3_bf16",
     [](auto& c) { c.layout.pp = c.layout.dp = 2, c.layout.zero_stage = 3, c.layout.precision = DType::bf16; }},
    {"tp2_pp2_scattered", [](auto& c) { c.layout.tp = c.layout.pp = 2, c.stack.scatters_pipeline_activations = true; }},
    {"tp4_pp2_v2_scattered_full_1_bf16",
     [](auto& c) {
       c.layout.tp = 4, c.layout.pp = c.layout.vpp = 2, c.layout.schedule = ScheduleKind::interleaved;
       c.stack.scatters_pipeline_activations = true, c.layout.precision = DType::bf16, full(c, 1);
     }},
    {"tp2_distributed_full_2",
     [](auto& c) { c.layout.tp = 2, full(c, 2), c.layout.recompute.distribute_saved_activations = true; }},
    {"tp2_pp2_distributed_block_1",
     [](auto& c) {
       c.layout.tp = c.layout.pp = 2, full(c, 1, RecomputeMethod::block);
       c.layout.recompute.distribute_saved_activations = true;
     }},
    {"tp4_sp_tiles", [](auto& c) { c.layout.tp = 4, c.layout.sequence_parallel = c.stack.overlaps_tensor_gemms = true; }},
    {"tp2_sp_pp2_tiles_full_1_bf16",
     [](auto& c) {
       c.layout.tp = c.layout.pp = 2, c.layout.sequence_parallel = c.stack.overlaps_tensor_gemms = true, full(c, 1);
       c.layout.precision = DType::bf16;
     }},
    {"dp2_zero3_by_parameter",
     [](auto& c) {
       c.layout.dp = 2, c.layout.zero_stage = 3, c.stack.sharded_parameters.synchronous = true;
       c.stack.sharded_parameters.by_lists = true;
       c.stack.sharded_parameters.unit = ShardedParameterConfig::Unit::parameter;
     }},
    {"tp2_sp_unfused_accumulation_bf16",
     [](auto& c) {
       c.layout.tp = 2, c.layout.sequence_parallel = true, c.layout.precision = DType::bf16;
       c.stack.fused_gradient_accumulation = false;
     }},
    {"pp3_short_ends", [](auto& c) { c.layout.pp = 3, c.layout.layer_split = {.first_stage = 1, .last_stage = 1}; }},
    {"pp2_dp2_zero2_long_start",
     [](auto& c) { c.layout.pp = c.layout.dp = 2, c.layout.zero_stage = 2, c.layout.layer_split.first_stage = 3; }},
    {"pp2_v2_ends_count",
     [](auto& c) {
       c.model.layers = 6, c.layout.pp = c.layout.vpp = 2, c.layout.schedule = ScheduleKind::interleaved;
       c.layout.layer_split = {.counts_embedding = true, .counts_loss = true};
     }},
    {"pp6_ends_without_layers",
     [](auto& c) { c.layout.pp = 6, c.layout.layer_split = {.counts_embedding = true, .counts_loss = true}; }},
    {"tp2_sp_pp2_dp2",
     [](auto& c) { c.layout.tp = c.layout.pp = c.layout.dp = 2, c.layout.sequence_parallel = true; }},
};

inline void PrintTo(const Configuration& configuration, std::ostream* out) { *out << configuration.name; }

class SameEngine : public testing::TestWithParam<std::tuple<ModelFamily, Configuration>> {
 protected:
  static TrainConfig config() {
    const auto& [family, configuration] = GetParam();
    TrainConfig config = small(family);
    configuration.change(config);
    return config;
  }
  static std::int64_t stage_of(const TrainConfig& config, std::size_t rank) {
    return RankGrid(config.layout).coordinates(static_cast<int>(rank)).pp;
  }
};

inline const auto kBothModels =
    testing::Combine(testing::Values(ModelFamily::gpt, ModelFamily::llama), testing::ValuesIn(kConfigurations));

inline std::string configuration_name(const testing::TestParamInfo<std::tuple<ModelFamily, Configuration>>& info) {
  return std::string(name_of(std::get<0>(info.param))) + "_" + std::get<1>(info.param).name;
}

}  // namespace benchsuite::testing_train
