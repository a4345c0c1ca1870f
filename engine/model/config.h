// The model: dimensions and nothing else.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/json_reader.h"

namespace benchsuite {

enum class ModelFamily : std::uint8_t {
  gpt,   ///< learned positions, LayerNorm, GELU, biases, tied embeddings (GPT-3)
  llama  ///< rotary positions, RMSNorm, SwiGLU, grouped-query attention, no biases, untied embeddings (Llama 2 and 3)
};

/// Field names are those of the published rows.
struct ModelConfig {
  std::string name;
  std::string source;  ///< where the dimensions are published; may be empty
  ModelFamily family = ModelFamily::gpt;
  std::int64_t layers = 0;      // L
  std::int64_t hidden = 0;      // h
  std::int64_t ffn_hidden = 0;  // f, gpt: default 4h; llama: the width of gate and up each
  std::int64_t heads = 0;       // a
  std::int64_t kv_heads = 0;    // u, default a
  std::int64_t seq = 0;         // s
  std::int64_t vocab = 0;       // before padding
  double dropout = 0.1;         ///< of embedding, attention probabilities, attention and MLP outputs; llama: default 0
  double rope_theta = 10000;    ///< llama: base of the rotary frequencies

  std::int64_t head_dim() const { return hidden / heads; }

  // What sets the families apart.
  bool has_biases() const { return family == ModelFamily::gpt; }
  bool learned_positions() const { return family == ModelFamily::gpt; }
  bool rotary_positions() const { return family == ModelFamily::llama; }
  bool rms_norm() const { return family == ModelFamily::llama; }
  bool gated_mlp() const { return family == ModelFamily::llama; }
  bool tied_embeddings() const { return family == ModelFamily::gpt; }

  friend bool operator==(const ModelConfig&, const ModelConfig&) = default;
};

std::string_view name_of(ModelFamily family);

/// Reads a model object. family, layers, hidden, heads, seq and vocab must be there, ffn_hidden too for llama; problems (file, key, value,
/// remedy) go to `problems`.
ModelConfig read_model(const Json& json, const std::string& file, const std::string& path,
                       std::vector<Violation>& problems);

/// Everything resolved, in the form read_model() takes.
Json to_json(const ModelConfig& model);

/// Vocabulary rows padded to a multiple of 128 t (Megatron's make_vocab_size_divisible_by = 128).
std::int64_t padded_vocab(std::int64_t vocab, std::int64_t tp);

}  // namespace benchsuite
