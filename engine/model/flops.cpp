#include "engine/model/flops.h"

#include <algorithm>

#include "engine/model/stage_layers.h"

namespace benchsuite {

namespace {

constexpr FlopsFormula kFormulas[] = {FlopsFormula::gpt_full_v1, FlopsFormula::gpt_causal_v1, FlopsFormula::llama_full_v1,
                                      FlopsFormula::llama_causal_v1};

bool is_causal(FlopsFormula formula) {
  return formula == FlopsFormula::gpt_causal_v1 || formula == FlopsFormula::llama_causal_v1;
}

/// The sizes the formulas are written in; double, because their products pass 2^53 only beyond any real step.
struct Sizes {
  double tokens, layers, h, f, s, vocab;
  double kv;           // width of all keys, and of all values: u d
  double mlp_weights;  // in units of h f

  Sizes(const ModelConfig& model, const Layout& layout)
      : tokens(static_cast<double>(layout.global_batch) * static_cast<double>(model.seq)),
        layers(static_cast<double>(model.layers)),
        h(static_cast<double>(model.hidden)),
        f(static_cast<double>(model.ffn_hidden)),
        s(static_cast<double>(model.seq)),
        vocab(static_cast<double>(padded_vocab(model.vocab, layout.tp))),
        kv(static_cast<double>(model.kv_heads * model.head_dim())),
        mlp_weights(model.gated_mlp() ? 3 : 2) {}

  /// Forward FLOPs of one layer over the whole batch.
  double attention_linears() const { return 2 * tokens * (2 * h * h + 2 * h * kv); }
  double mlp() const { return 2 * tokens * mlp_weights * h * f; }
  double attention_core(FlopsFormula formula) const {
    return (is_causal(formula) ? 2 : 4) * tokens * s * h;
  }
};

/// Weights of a layer's products.
std::string weights_text(const ModelConfig& model) {
  return model.family == ModelFamily::llama ? "(2 h^2 + 2 h u d + 3 h f)" : "(4 h^2 + 2 h f)";
}

}  // namespace

std::string_view id_of(FlopsFormula formula) {
  switch (formula) {
    case FlopsFormula::gpt_full_v1:
      return "gpt-full-v1";
    case FlopsFormula::gpt_causal_v1:
      return "gpt-causal-v1";
    case FlopsFormula::llama_full_v1:
      return "llama-full-v1";
    case FlopsFormula::llama_causal_v1:
      return "llama-causal-v1";
  }
  return "?";
}

FlopsFormula flops_formula_of(ModelFamily family, bool causal) {
  if (family == ModelFamily::llama) return causal ? FlopsFormula::llama_causal_v1 : FlopsFormula::llama_full_v1;
  return causal ? FlopsFormula::gpt_causal_v1 : FlopsFormula::gpt_full_v1;
}

FlopsFormula flops_formula(std::string_view id) {
  std::vector<std::string> ids;
  std::string list;
  for (const FlopsFormula formula : kFormulas) {
    if (id_of(formula) == id) return formula;
    ids.emplace_back(id_of(formula));
    list += (list.empty() ? "" : ", ") + ids.back();
  }
  const std::string guess = did_you_mean(id, ids);
  throw Error({Violation{"", "flops_formula", "\"" + std::string(id) + "\"", "not a known FLOP formula",
                         guess.empty() ? "choose one of: " + list : "did you mean \"" + guess + "\"? (" + list + ")"}});
}

double FlopsCount::total() const {
  double sum = 0;
  for (const FlopsTerm& term : terms) sum += term.flops;
  return sum;
}

FlopsCount model_flops(const ModelConfig& model, const Layout& layout, FlopsFormula formula) {
  CHECK(formula == flops_formula_of(model.family, is_causal(formula)))
      << id_of(formula) << " of family " << name_of(model.family);
  const Sizes size(model, layout);
  const bool full = !is_causal(formula);
  FlopsCount count{std::string(id_of(formula)), {}};
  count.terms.push_back(
      {"linear layers", 3 * size.layers * (size.attention_linears() + size.mlp()), "6 B s L " + weights_text(model)});
  count.terms.push_back(
      {"attention core", 3 * size.layers * size.attention_core(formula), full ? "12 B s^2 L h" : "6 B s^2 L h"});
  count.terms.push_back({"vocabulary layer", 6 * size.tokens * size.h * size.vocab, "6 B s h V"});
  return count;
}

namespace {

/// Layers that block recompute runs again: the first k of every chunk.
std::int64_t layers_in_blocks(const ModelConfig& model, const Layout& layout) {
  const std::int64_t k = layout.recompute.num_layers;
  std::int64_t layers = 0;
  for (std::int64_t stage = 0; stage < layout.pp; ++stage) {
    const StageLayers held = stage_layers(model, layout, stage);
    layers += layout.vpp * std::min(k, held.chunk);
    if (held.light != StageLayers::Light::none && k >= held.chunk) --layers;
  }
  return layers;
}

}  // namespace

FlopsCount hardware_flops(const ModelConfig& model, const Layout& layout, FlopsFormula formula, bool recomputes_head) {
  const Sizes size(model, layout);
  const std::string core = is_causal(formula) ? "2 B s^2 h" : "4 B s^2 h";
  const RecomputeConfig& recompute = layout.recompute;
  FlopsCount count = model_flops(model, layout, formula);
  if (recompute.granularity == RecomputeGranularity::full) {
    const bool uniform = recompute.method == RecomputeMethod::uniform;
    const std::int64_t layers = uniform ? model.layers : layers_in_blocks(model, layout);
    const std::string layer_text = uniform ? "L" : layout.layer_split.even() ? "p v k" : "sum over chunks of min(k, l)";
    count.terms.push_back({"recomputed linear layers",
                           static_cast<double>(layers) * (size.attention_linears() + size.mlp()),
                           "2 B s " + layer_text + " " + weights_text(model)});
    count.terms.push_back({"recomputed attention core", static_cast<double>(layers) * size.attention_core(formula),
                           layer_text + " " + core});
    if (recomputes_head) {
      count.terms.push_back({"recomputed vocabulary layer", 2 * size.tokens * size.h * size.vocab, "2 B s h V"});
    }
  }
  if (recompute.selects(RecomputeModule::core_attn)) {
    count.terms.push_back({"recomputed attention core", size.layers * size.attention_core(formula), "L " + core});
  }
  if (recompute.selects(RecomputeModule::mlp)) {
    count.terms.push_back({"recomputed MLP", size.layers * size.mlp(), model.gated_mlp() ? "6 B s L h f" : "4 B s L h f"});
  }
  return count;
}

ParameterCount parameter_count(const ModelConfig& model, std::int64_t vocab_rows) {
  const std::int64_t h = model.hidden;
  const std::int64_t f = model.ffn_hidden;
  ParameterCount count;
  count.embedding = vocab_rows * h;
  if (model.family == ModelFamily::llama) {
    const std::int64_t attention = 2 * h * h + 2 * h * model.kv_heads * model.head_dim();
    count.layers = model.layers * (attention + 3 * h * f + 2 * h);
    count.final_norm = h;
    count.head = vocab_rows * h;
    return count;
  }
  const std::int64_t attention = 4 * h * h + 4 * h;
  const std::int64_t mlp = 2 * h * f + f + h;
  const std::int64_t norms = 4 * h;
  count.position = model.seq * h;
  count.layers = model.layers * (attention + mlp + norms);
  count.final_norm = 2 * h;
  return count;
}

RankParameters rank_parameters(const ModelConfig& model, const Layout& layout, std::int64_t stage) {
  CHECK(stage >= 0 && stage < layout.pp) << "stage " << stage << " of " << layout.pp;
  const std::int64_t h = model.hidden;
  const std::int64_t f = model.ffn_hidden;
  const std::int64_t layers = stage_layers(model, layout, stage).all;
  const std::int64_t embedding = div_exact(padded_vocab(model.vocab, layout.tp) * h, layout.tp);
  const bool first = stage == 0;
  const bool last = stage == layout.pp - 1;
  if (model.family == ModelFamily::llama) {
    const std::int64_t matrices = 2 * h * h + 2 * h * model.kv_heads * model.head_dim() + 3 * h * f;
    RankParameters count;
    count.sharded = layers * div_exact(matrices, layout.tp) + (first ? embedding : 0) + (last ? embedding : 0);
    count.replicated = layers * 2 * h + (last ? h : 0);
    return count;
  }

  // Column-parallel: QKV and FC1 with their biases. Row-parallel: the matrices of attention-out and FC2, not the
  // biases.
  const std::int64_t split_weights = 3 * h * h + 3 * h + h * h + h * f + f + f * h;
  const std::int64_t row_biases = 2 * h;
  const std::int64_t norms = 4 * h;
  RankParameters count;
  count.sharded = layers * div_exact(split_weights, layout.tp) + (first ? embedding : 0);
  count.replicated = layers * (row_biases + norms) + (first ? model.seq * h : 0) + (last ? 2 * h : 0);
  count.tied_copy = last && !first ? embedding : 0;
  return count;
}

}  // namespace benchsuite
