// The learning rate by step: linear warm-up from 0, then a cosine to the minimum (megatron-core optimizer_param_scheduler.py).
#pragma once

#include <cstdint>

namespace benchsuite {

enum class Decay : std::uint8_t { constant, cosine };

struct LearningRate {
  double peak = 1e-3, minimum = 0;
  std::int64_t warmup = 0;       ///< steps
  std::int64_t decay_steps = 1;  ///< cosine only: from this step on the minimum holds
  Decay decay = Decay::cosine;

  /// Of step `step`, counted from 0: peak step / warmup up to `warmup` (so the first step of a warm-up has rate 0), then
  /// minimum + (peak - minimum) (1 + cos(pi r)) / 2 with r = (step - warmup) / (decay_steps - warmup), then the minimum.
  double at(std::int64_t step) const;
};

}  // namespace benchsuite
