// Closed formulas of everything a rank holds, by the name of what it is: state from the number of its parameters, each kept
// or short-lived tensor from the letters.
//
//   e, w   bytes of an activation, of a gradient          N   parameters of the rank
//   s, b, h, f, a, t, d, m, V, L   as in engine/core/letters.h (V padded, L layers of the rank)
//   r      t under sequence parallelism, else 1           q   width of query, key and value: h (1 + 2 u/a), 3h without groups
//   n      values of a bucket: whole units (layer halves, word or position embedding, final norm) of the model
#pragma once

#include <string>
#include <vector>

#include "engine/model/terms.h"
#include "engine/train/config.h"

namespace benchsuite {

/// A formula is a sum of products: "w N/d + w V h/t", "e a s^2 b/t".
class MemoryLetters {
 public:
  /// Of a rank of pipeline stage `stage`.
  MemoryLetters(const TrainConfig& config, std::int64_t stage);  // keeps a reference to `config`

  /// In bytes. Fails (internal) on a letter it does not know.
  double value(const std::string& formula) const;

 private:
  double letter(char name) const;

  const TrainConfig& config_;
  double parameters_;
};

/// The formula of `term` that gives `bytes`: of all buffers of that name for state, else of one buffer. Empty when none does.
std::string term_formula(const MemoryLetters& letters, Term term, double bytes);

/// Whether the term's formula is about all its buffers together (they live for ever).
bool is_state(Term term);

/// Kept tensors that Korthikanti et al. 2022 leave out because they are small.
bool is_neglected_in_paper(Term term);

}  // namespace benchsuite
