#include "suite/measure/memory_terms.h"

#include <algorithm>
#include <sstream>

#include "engine/core/error.h"
#include "engine/model/flops.h"

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
      {Term::parameter_bucket, {"e N"}, true},
      {Term::parameter_shard, {"e N/d"}, true},
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
      {Term::attention_norm, {"e s b h/r"}},
      {Term::qkv, {"3 e s b h/t", "e s b q/t"}},
      {Term::softmax_output, {"e a s^2 b/t"}},
      {Term::softmax_dropout_mask, {"a s^2 b/t"}},
      {Term::softmax_dropped, {"e a s^2 b/t"}},
      {Term::attention_log_sum, {"4 a s b/t"}},
      {Term::context, {"e s b h/t"}},
      {Term::attention_output_mask, {"s b h/r"}},
      {Term::mlp_input, {"e s b h/r"}},
      {Term::mlp_statistics, {"8 s b/r", "4 s b/r"}},
      {Term::mlp_norm, {"e s b h/r"}},
      {Term::fc1_output, {"e s b f/t", "2 e s b f/t"}},
      {Term::gelu_output, {"e s b f/t"}},
      {Term::mlp_output_mask, {"s b h/r"}},
      {Term::layer_group_input, {"e s b h/r"}},
      {Term::embedding_mask, {"s b h/r"}},
      {Term::final_input, {"e s b h/r"}},
      {Term::final_statistics, {"8 s b/r", "4 s b/r"}},
      {Term::final_norm, {"e s b h/r"}},
      {Term::logits, {"4 s b V/t"}},
      {Term::transient, {"3 e s b h/t", "e s b q/t", "e s b h", "e s b f/t", "2 e s b f/t", "e s b h/t", "e s b h/r"}},
      {Term::bias_sum, {"e s b h/r", "e s b f/t", "3 e s b h/t"}},
      {Term::attention_scores, {"e a s^2 b/t"}},
      {Term::logits_16bit, {"e s b V/t", "e s b h"}},  // both products of the head: logits, gradient of its input
      {Term::cross_entropy_rows, {"4 s b"}},
      {Term::layer_output, {"e s b h/r"}},
      {Term::gradient_of_output, {"e s b h/r"}},
      {Term::gradient_of_input, {"e s b h/r"}},
      {Term::gradient_inside,
       {"e s b h/r", "e s b h", "3 e s b h/t", "e s b q/t", "e s b f/t", "2 e s b f/t", "e s b h/t", "e a s^2 b/t"}},
      {Term::gathered, {"e s b h"}},
      {Term::reduced, {"e s b h/r"}},
      {Term::received_activation, {"e s b h/r"}},
      {Term::received_gradient, {"e s b h/r"}},
      {Term::packed_gradients, {"6 w h L", "6 w h L + 2 w h", "2 w h L", "2 w h L + w h"}},
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

MemoryLetters::MemoryLetters(const TrainConfig& config, std::int64_t stage)
    : config_(config), parameters_(static_cast<double>(rank_parameters(config.model, config.layout, stage).total())) {}

double MemoryLetters::letter(char name) const {
  const ModelConfig& model = config_.model;
  const Layout& layout = config_.layout;
  const auto number = [](std::int64_t value) { return static_cast<double>(value); };
  switch (name) {
    case 'e': return number(size_of(layout.precision));
    case 'w': return number(size_of(config_.stack.gradient_dtype));
    case 'N': return parameters_;
    case 's': return number(model.seq);
    case 'b': return number(layout.micro_batch);
    case 'h': return number(model.hidden);
    case 'f': return number(model.ffn_hidden);
    case 'a': return number(model.heads);
    case 't': return number(layout.tp);
    case 'd': return number(layout.dp);
    case 'm': return number(layout.micro_batches());
    case 'V': return number(padded_vocab(model.vocab, layout.tp));
    case 'L': return number(model.layers) / number(layout.pp);
    case 'r': return number(layout.sequence_parallel ? layout.tp : 1);
    case 'q': return number(model.hidden) * (1 + 2 * number(model.kv_heads) / number(model.heads));
    default: CHECK(false) << "no letter " << name; return 0;
  }
}

double MemoryLetters::value(const std::string& formula) const {
  std::istringstream words(formula);
  double sum = 0, product = 1, sign = 1;
  for (std::string word; words >> word;) {
    if (word == "+" || word == "-") {
      sum += sign * product;
      product = 1;
      sign = word == "+" ? 1 : -1;
      continue;
    }
    std::istringstream factors(word);
    bool divides = false;
    for (std::string factor; std::getline(factors, factor, '/'); divides = true) {
      CHECK(!factor.empty()) << "an empty factor in " << formula;
      const bool digits = factor.find_first_not_of("0123456789") == std::string::npos;
      double value = digits ? std::stod(factor) : letter(factor[0]);
      if (factor.ends_with("^2")) value *= value;
      product = divides ? product / value : product * value;
    }
  }
  return sum + sign * product;
}

std::string term_formula(const MemoryLetters& letters, Term term, double bytes) {
  const TermFormulas* entry = find(term);
  if (!entry) return "";
  for (const char* formula : entry->formulas) {
    if (std::string_view(formula).find('n') != std::string_view::npos) return formula;  // a bucket: no one size
    if (letters.value(formula) == bytes) return formula;
  }
  if (!entry->state) return "";
  // Sharded state: parameters start at multiples of 64 values, buckets end at multiples of lcm(d, 128).
  const char* nearest = nullptr;
  for (const char* formula : entry->formulas) {
    const double padding = bytes - letters.value(formula);
    if (padding > 0 && (!nearest || padding < bytes - letters.value(nearest))) nearest = formula;
  }
  return nearest ? std::string(nearest) + " + padding" : "";
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
