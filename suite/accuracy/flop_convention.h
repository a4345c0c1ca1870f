// How a source counts FLOPs: from its TFLOP/s or MFU to seconds.
//
// Letters: B global batch, s sequence, L layers, h hidden, f feed-forward width, a heads, k key-value heads, V vocabulary as
// stated (unpadded), N parameters of the whole model, embeddings once. FLOPs of one step of all GPUs.
//   narayanan-2021      96 B s L h^2 (1 + s/6h + V/16Lh): counts full recompute always (arXiv:2104.04473, eq. 3)
//   korthikanti-2022    72 B s L h^2 (1 + s/6h + V/12Lh): model FLOPs (arXiv:2205.05198, appendix A); for grouped queries
//                       and gated MLPs per token L (12 h^2 (1 + k/a + s/h) + 18 h f) + 6 V h
//   megatron-causal     the same with half the attention matrix (Megatron-core from 0.12; Megatron-Bridge)
//   palm-2022           B s (6N + 12 L h s) (arXiv:2204.02311, appendix B)
//   llm-foundry         B s (6N + 12 L h s), hidden size times layers (mosaicml/llm-foundry, scripts/train/benchmarking)
//   six-n               6 N B s
//   bloom-early         8 N B s, N of the transformer layers only: counts full recompute always
// Where a formula counts recompute, it does so whatever the row did.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "engine/model/config.h"

namespace benchsuite {

enum class FlopConvention : std::uint8_t {
  narayanan_2021,
  korthikanti_2022,
  megatron_causal,
  palm_2022,
  llm_foundry,
  six_n,
  bloom_early,
};
inline constexpr int kFlopConventions = 7;

std::string_view id_of(FlopConvention convention);

/// The convention that a row's flop_convention means: an id above, or the words sources use. nullopt when not stated or
/// not known.
std::optional<FlopConvention> flop_convention_of(std::string_view text);

/// FLOPs of one step with `global_batch` samples.
double step_flops(FlopConvention convention, const ModelConfig& model, std::int64_t global_batch);

}  // namespace benchsuite
