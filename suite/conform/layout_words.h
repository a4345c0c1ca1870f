// The words that make a layout of the conformance table from the baseline: "tp2 sp pp2".
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "engine/train/config.h"

namespace benchsuite {

struct LayoutWord {
  std::string_view name;     ///< "sp"; of a word with a number what stands before it: "tp"
  bool numbered = false;     ///< a number above 0 follows: "tp4"
  std::string_view meaning;  ///< for readers of a report
  void (*apply)(TrainConfig& config, std::int64_t number);
};

/// All of them.
std::span<const LayoutWord> layout_words();

/// The word that `text` is, or null.
const LayoutWord* find_layout_word(std::string_view text);

/// Changes the configuration; a word that is none is an error.
void apply_layout_word(std::string_view text, TrainConfig& config);

}  // namespace benchsuite
