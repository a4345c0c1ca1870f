#include "suite/measure/memory_terms.h"

#include <cmath>
#include <numeric>
#include <sstream>

#include "engine/core/error.h"
#include "engine/model/flops.h"
#include "engine/model/stage_layers.h"

namespace benchsuite {
namespace {

struct TermFormulas {
  Term term;
  std::vector<const char*> formulas;  ///< what its buffers may be
  bool state = false;                 ///< lives for ever: the formula is the sum of all its buffers
};

const std::vector<TermFormulas>& table() {
  static const std::vector<TermFormulas> terms = {
      {Term::tokens, {"4 m s b"}, true},
      {Term::labels, {"4 m s b"}, true},
      {Term::samples, {"4 m b + 8 m"}, true},
      {Term::step_scalars, {"20"}, true},
      {Term::loss, {"4"}, true},
      {Term::gradient_norm, {"56"}, true},
      {Term::parameter_bucket, {"e N", "e K"}, true},
      {Term::parameter_shard, {"e N/d", "e N/d - e K/d"}, true},
      {Term::gradient_bucket,
       {"w N", "w N + w V h/t", "w N/d", "w N/d + w V h/t - w V h/t/d", "w N/d + 2 w V h/t - w V h/t/d"}, true},
      {Term::master_bucket, {"4 N", "4 N/d"}, true},
      {Term::first_moment, {"4 N", "4 N/d"}, true},
      {Term::second_moment, {"4 N", "4 N/d"}, true},
      {Term::gathered_parameters, {"e n"}},
      {Term::unreduced_gradients, {"w n"}},
      {Term::reduced_gradients, {"w n/d"}},
      {Term::attention_input, {"e s b h/r"}},
      {Term::attention_statistics, {"8 s b/r", "4 s b/r"}},
      {Term::attention_norm, {"e s b h/r", "e s b h", "o s b h/r", "o s b h"}},
      {Term::qkv, {"3 e s b h/t", "e s b q/t"}},
      {Term::softmax_output, {"e a s^2 b/t"}},
      {Term::softmax_dropout_mask, {"a s^2 b/t"}},
      {Term::softmax_dropped, {"e a s^2 b/t"}},
      {Term::attention_log_sum, {"4 a s b/t"}},
      {Term::context, {"e s b h/t"}},
      {Term::attention_output_mask, {"s b h/r"}},
      {Term::mlp_input, {"e s b h/r"}},
      {Term::mlp_statistics, {"8 s b/r", "4 s b/r"}},
      {Term::mlp_norm, {"e s b h/r", "e s b h", "o s b h/r", "o s b h"}},
      {Term::fc1_output, {"e s b f/t", "2 e s b f/t"}},
      {Term::gelu_output, {"e s b f/t", "o s b f/t"}},
      {Term::mlp_output_mask, {"s b h/r"}},
      {Term::attention_scaled, {"4 s b h/r"}},
      {Term::context_copy, {"e s b h/t"}},
      {Term::mlp_scaled, {"4 s b h/r"}},
      {Term::silu_output, {"e s b f/t"}},
      {Term::rotated, {"e s b h/t/2 + e s b q/t/2"}},
      {Term::context_operand, {"o s b h/t"}},
      {Term::layer_group_input, {"e s b h/r"}},
      {Term::embedding_mask, {"s b h/r"}},
      {Term::final_input, {"e s b h/r"}},
      {Term::final_statistics, {"8 s b/r", "4 s b/r"}},
      {Term::final_norm, {"e s b h/r", "e s b h"}},
      {Term::logits, {"4 s b V/t", "4 s b V"}},
      {Term::transient, {"3 e s b h/t", "e s b q/t", "e s b h", "e s b f/t", "2 e s b f/t", "e s b h/t", "e s b h/r"}},
      {Term::operand,
       {"o s b h", "o s b h/t", "o s b h/r", "3 o s b h/t", "o s b q/t", "o s b f/t", "2 o s b f/t"}},
      {Term::bias_sum, {"e s b h/r", "e s b f/t", "3 e s b h/t"}},
      {Term::attention_scores, {"e a s^2 b/t"}},
      {Term::logits_16bit, {"e s b V/t", "e s b h", "e s b V"}},  // both products of the head: logits, gradient of its input
      {Term::cross_entropy_rows, {"4 s b"}},
      {Term::layer_output, {"e s b h/r"}},
      {Term::gradient_of_output, {"e s b h/r"}},
      {Term::gradient_of_input, {"e s b h/r"}},
      {Term::gradient_inside,
       {"e s b h/r", "e s b h", "3 e s b h/t", "e s b q/t", "e s b f/t", "2 e s b f/t", "e s b h/t", "e a s^2 b/t"}},
      {Term::gathered, {"e s b h", "o s b h"}},
      {Term::reduced, {"e s b h/r"}},
      {Term::received_activation, {"e s b h/r"}},
      {Term::received_gradient, {"e s b h/r"}},
      {Term::weight_gradient, {"e h q/t", "e h^2/t", "e h f/t", "2 e h f/t", "e V h/t"}},
      {Term::packed_gradients, {"6 w h L", "6 w h L + 2 w h", "2 w h L", "2 w h L + w h", "4 n"}},
  };
  return terms;
}

const TermFormulas* find(Term term) {
  for (const TermFormulas& entry : table()) {
    if (entry.term == term) return &entry;
  }
  return nullptr;
}

}  // namespace

namespace {

/// Sizes of the parameters a rank holds of one layer, each a tensor of its own.
std::vector<std::int64_t> layer_tensors(const ModelConfig& model, std::int64_t t) {
  const std::int64_t h = model.hidden, f = model.ffn_hidden, q = h + 2 * model.kv_heads * (h / model.heads);
  if (model.family == ModelFamily::llama) return {h, h * q / t, h * h / t, h, 2 * h * f / t, f * h / t};
  return {h, h, h * q / t, q / t, h * h / t, h, h, h, h * f / t, f / t, f * h / t, h};
}

}  // namespace

MemoryLetters::MemoryLetters(const TrainConfig& config, std::int64_t stage)
    : config_(config),
      parameters_(rank_parameters(config.model, config.layout, stage).total()),
      layers_(stage_layers(config.model, config.layout, stage).all) {
  const ModelConfig& model = config.model;
  const Layout& layout = config.layout;
  const std::int64_t kept_below = config.stack.sharded_parameters.persistence_threshold;
  const bool keeps = layout.zero_stage == 3, llama = model.family == ModelFamily::llama;
  const auto count = [&](std::int64_t elements, std::int64_t times, bool may_be_kept) {
    tensors_ += times;
    if (keeps && may_be_kept && elements <= kept_below) kept_ += elements * times;
  };
  for (const std::int64_t elements : layer_tensors(model, layout.tp)) {
    count(elements, letter('L'), true);
  }
  const std::int64_t words = letter('V') * model.hidden / layout.tp;
  if (stage == 0) {
    count(words, 1, !model.tied_embeddings());
    if (!llama) count(model.seq * model.hidden, 1, true);
  }
  if (stage == layout.pp - 1) {
    count(model.hidden, llama ? 1 : 2, true);
    count(words, 1, !model.tied_embeddings());
  }
}

std::int64_t MemoryLetters::letter(char name) const {
  const ModelConfig& model = config_.model;
  const Layout& layout = config_.layout;
  switch (name) {
    case 'e': return size_of(layout.stored());
    case 'o': return size_of(layout.precision);
    case 'w': return size_of(config_.stack.gradient_dtype);
    case 'N': return parameters_;
    case 'K': return kept_;
    case 's': return model.seq / layout.cp;
    case 'b': return layout.micro_batch;
    case 'h': return model.hidden;
    case 'f': return model.ffn_hidden;
    case 'a': return model.heads;
    case 't': return layout.tp;
    case 'd': return layout.replicas();
    case 'm': return layout.micro_batches();
    case 'V': return padded_vocab(model.vocab, layout.tp);
    case 'L': return layers_;
    case 'r': return layout.sequence_parallel ? layout.tp : 1;
    case 'q': return model.hidden + 2 * model.kv_heads * (model.hidden / model.heads);
    default: CHECK(false) << "no letter " << name; return 0;
  }
}

double MemoryLetters::value(const std::string& formula) const {
  std::istringstream words(formula);
  std::int64_t numerator = 1, denominator = 1;
  double sum = 0, sign = 1;
  for (std::string word; words >> word;) {
    if (word == "+" || word == "-") {
      sum += sign * static_cast<double>(numerator) / static_cast<double>(denominator);
      numerator = denominator = 1;
      sign = word == "+" ? 1 : -1;
      continue;
    }
    std::istringstream factors(word);
    bool divides = false;
    for (std::string factor; std::getline(factors, factor, '/'); divides = true) {
      CHECK(!factor.empty()) << "an empty factor in " << formula;
      const bool digits = factor.find_first_not_of("0123456789") == std::string::npos;
      std::int64_t value = digits ? std::stoll(factor) : letter(factor[0]);
      if (factor.ends_with("^2")) value *= value;
      (divides ? denominator : numerator) *= value;
    }
  }
  return sum + sign * static_cast<double>(numerator) / static_cast<double>(denominator);
}

double MemoryLetters::most_padding() const {
  if (config_.layout.zero_stage == 0) return 0;
  return static_cast<double>(tensors_ * (63 + std::lcm(config_.layout.replicas(), std::int64_t{128})));
}

std::string term_formula(const MemoryLetters& letters, Term term, double bytes) {
  const TermFormulas* entry = find(term);
  if (!entry) return "";
  for (const std::string formula : entry->formulas) {
    if (const std::size_t bucket = formula.find('n'); bucket != std::string::npos) {
      // "e n/d": a bucket holds a whole number of values, at most all of the rank's and their padding.
      const double each = letters.value(formula.substr(0, 1)), shards = formula.ends_with("/d") ? letters.value("d") : 1;
      const double values = bytes * shards / each;
      if (values == std::floor(values) && values <= letters.value("N") + letters.most_padding()) return formula;
    } else if (letters.value(formula) == bytes) {
      return formula;
    }
  }
  if (!entry->state) return "";
  std::string nearest;
  double least = 0;
  for (const std::string formula : entry->formulas) {
    const double shards = formula.find("/d") != std::string::npos ? letters.value("d") : 1;
    const double padding = bytes - letters.value(formula), most = 4 * letters.most_padding() / shards;
    if (padding > 0 && padding <= most && (nearest.empty() || padding < least)) {
      nearest = formula + " + padding";
      least = padding;
    }
  }
  return nearest;
}

bool is_state(Term term) {
  const TermFormulas* entry = find(term);
  return entry && entry->state;
}

bool is_neglected_in_paper(Term term) {
  return term == Term::attention_statistics || term == Term::mlp_statistics || term == Term::final_statistics ||
         term == Term::attention_log_sum;
}

}  // namespace benchsuite
