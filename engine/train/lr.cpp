#include "engine/train/lr.h"

#include <cmath>
#include <numbers>

namespace benchsuite {

double LearningRate::at(std::int64_t step) const {
  if (warmup > 0 && step <= warmup) return peak * static_cast<double>(step) / static_cast<double>(warmup);
  if (decay == Decay::constant) return peak;
  if (step >= decay_steps) return minimum;
  const double part = static_cast<double>(step - warmup) / static_cast<double>(decay_steps - warmup);
  return minimum + (peak - minimum) * (1 + std::cos(std::numbers::pi * part)) / 2;
}

}  // namespace benchsuite
