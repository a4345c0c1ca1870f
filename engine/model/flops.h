// FLOP and parameter counts of a training step, as versioned formulas with their terms.
//
// Multiply-adds count as two, elementwise work as none. Backward costs twice the forward. Two conventions are in use
// and differ only in the attention core:
//   gpt-full-v1    the full s x s attention matrix: 72 B s L h^2 (1 + s/6h + V/12Lh) when f = 4h
//                  (Narayanan et al. 2021, section 3; Korthikanti et al. 2022, appendix A; Megatron-core to 0.11)
//   gpt-causal-v1  the half a causal mask leaves: s/12h in place of s/6h (Megatron-core from 0.12)
//   llama-full-v1, llama-causal-v1   the same for grouped-query attention and a gated MLP: per token and layer
//                  2 h^2 + 2 h u d + 3 h f weights in place of 4 h^2 + 2 h f (Llama 2: Touvron et al. 2023)
// B is the global batch in samples, V the padded vocabulary. MFU is model FLOPs over peak, HFU hardware FLOPs over
// peak.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/config.h"
#include "engine/parallel/layout.h"

namespace benchsuite {

enum class FlopsFormula : std::uint8_t {
  gpt_full_v1,
  gpt_causal_v1,
  llama_full_v1,
  llama_causal_v1,
};

/// The id results carry: "gpt-full-v1", "gpt-causal-v1", "llama-full-v1", "llama-causal-v1".
std::string_view id_of(FlopsFormula formula);

/// The formula of a model family: of the whole attention matrix or of its causal half.
FlopsFormula flops_formula_of(ModelFamily family, bool causal);

/// Throws (config) on an unknown id, with the closest known one.
FlopsFormula flops_formula(std::string_view id);

struct FlopsTerm {
  std::string name;
  double flops = 0;     ///< of one step, all ranks
  std::string formula;  ///< in the letters of engine/core/letters.h
};

struct FlopsCount {
  std::string formula;  ///< id
  std::vector<FlopsTerm> terms;

  double total() const;
};

/// What the model needs, however it is run: linear layers, attention core, vocabulary layer. Recompute never counts. Fails
/// (internal) on the formula of another family.
FlopsCount model_flops(const ModelConfig& model, const Layout& layout, FlopsFormula formula);

/// What is computed: model FLOPs and one more forward of what the recompute policy runs again. Full uniform: every
/// layer, whatever num_layers; full block: the first num_layers of each chunk; selective: the attention core, the MLP's
/// two products, nothing countable for layernorm. `recomputes_head`: full recompute runs the vocabulary layer again, too
/// (Stack). What a flash kernel recomputes inside its backward is its own affair
/// and is not counted.
FlopsCount hardware_flops(const ModelConfig& model, const Layout& layout, FlopsFormula formula, bool recomputes_head = false);

/// Parameters of the whole model, each once.
struct ParameterCount {
  std::int64_t embedding = 0;   ///< V h
  std::int64_t position = 0;    ///< s h; llama none
  std::int64_t layers = 0;      ///< L (4h^2 + 4h  +  2hf + f + h  +  4h); llama L (2h^2 + 2hud + 3hf + 2h)
  std::int64_t final_norm = 0;  ///< 2h; llama h
  std::int64_t head = 0;        ///< V h where it is not tied to the embedding

  std::int64_t total() const { return embedding + position + layers + final_norm + head; }
};

/// `vocab_rows`: model.vocab, or padded_vocab() for what is allocated.
ParameterCount parameter_count(const ModelConfig& model, std::int64_t vocab_rows);

/// Parameters that one rank of pipeline stage `stage` holds.
struct RankParameters {
  std::int64_t sharded = 0;     ///< split over tensor ranks: matrices, column biases, embedding, untied head
  std::int64_t replicated = 0;  ///< equal on all tensor ranks: norms, row biases, positions
  std::int64_t tied_copy = 0;   ///< the last stage's copy of the embedding, V h / t when p > 1 (sharded too)

  std::int64_t total() const { return sharded + replicated + tied_copy; }  // N
};

RankParameters rank_parameters(const ModelConfig& model, const Layout& layout, std::int64_t stage);

}  // namespace benchsuite
