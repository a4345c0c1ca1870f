// What a row's words for kernels and for the division of layers mean to the engine: layout.attention_kernel,
// layout.rmsnorm_kernel, layout.layer_split.
#pragma once

#include "engine/train/config.h"

namespace benchsuite {

/// "flash2", "flash1" or "triton" of fused attention, "unfused (fused softmax kernel)" of unfused; null: fused attention is
/// the stack's, and unfused is computed with the framework's softmax where the row says which kernels there were
/// (rmsnorm_kernel). Returns what cannot be told, empty when all is.
std::string apply_kernels(const Json& attention_kernel, const Json& rmsnorm_kernel, AttentionKernel attention,
                          Stack& stack);

/// "embedding and loss": each counts as a layer where the layers alone don't divide (NeMo, Megatron-core). "layers in turn":
/// likewise (Megatron-DeepSpeed's --pp-partition-method type:transformer|embedding); where that doesn't divide either, stages
/// hold what the fullest must, the last one the rest (its default type:transformer; DeepSpeed, runtime/utils.py,
/// partition_balanced: a stage is filled up to the least bottleneck before the next begins). "uniform modules": the embedding, layers, final norm and head are divided so that the first
/// stages hold one more (scaling, pipeline_partitioning.py). Null or an even division: none.
LayerSplit split_of(const Json& word, std::int64_t layers, std::int64_t pp, std::int64_t vpp);

}  // namespace benchsuite
