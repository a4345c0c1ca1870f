#include "engine/device/sim/model_error.h"

#include "engine/core/fnv1a.h"
#include "engine/core/rng.h"

namespace benchsuite {

double ModelError::at(double u) const {
  if (u <= 0.5) return median * u / 0.5;
  return median + (p90 - median) * (u - 0.5) / 0.4;
}

ModelError of_size(const ModelError& error) { return {error.size_median, error.size_p90}; }

double drawn_factor(const ModelError& error, const ErrorDraw& draw, std::initializer_list<std::int64_t> key) {
  if (error.p90 <= 0) return 1;
  std::uint64_t hash = kFnv1aStart;  // by words, so that high bits must be brought down
  for (const std::int64_t part : key) {
    hash = (hash ^ static_cast<std::uint64_t>(part)) * kFnv1aPrime;
    hash ^= hash >> 32;
  }
  const auto words = philox(draw.seed, {static_cast<std::uint32_t>(hash), static_cast<std::uint32_t>(hash >> 32),
                                        static_cast<std::uint32_t>(draw.draw), 1});
  const double factor = 1 + error.at(static_cast<double>(uniform_from(words[0])));
  return words[1] % 2 == 0 ? factor : 1 / factor;
}

}  // namespace benchsuite
