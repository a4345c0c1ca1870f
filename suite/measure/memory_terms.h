// Closed formulas of everything a rank holds, by the name of what it is: state from the number of its parameters, each kept
// or short-lived tensor from the letters.
//
//   e, w   bytes of an activation, of a gradient          N   parameters of the rank
//   s, b, h, f, a, t, d, m, V, L   as in engine/core/letters.h (V padded, L layers of the rank)
//   r      t under sequence parallelism, else 1           q   width of query, key and value: h (1 + 2 u/a), 3h without groups
//   K      parameters of the rank that ZeRO-3 keeps whole: those of at most persistence_threshold values
//   n      values of one bucket of ZeRO-2 and 3: any number up to N
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

  /// In bytes, exact below 2^53 where it is whole. Fails (internal) on a letter it does not know.
  double value(const std::string& formula) const;

  /// Most values that alignment adds to sharded buckets: every parameter starts at a multiple of 64, every bucket ends at a
  /// multiple of lcm(d, 128), and no bucket is without a parameter.
  double most_padding() const;

 private:
  std::int64_t letter(char name) const;

  const TrainConfig& config_;
  std::int64_t parameters_, layers_, kept_ = 0, tensors_ = 0;
};

/// The formula of `term` that gives `bytes`: of all buffers of that name for state, else of one buffer. Sharded state may be
/// followed by "+ padding", within most_padding(). Empty when none does.
std::string term_formula(const MemoryLetters& letters, Term term, double bytes);

/// Whether the term's formula is about all its buffers together (they live for ever).
bool is_state(Term term);

/// Kept tensors that Korthikanti et al. 2022 leave out because they are small.
bool is_neglected_in_paper(Term term);

}  // namespace benchsuite
