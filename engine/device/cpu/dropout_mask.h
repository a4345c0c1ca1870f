// Dropout masks as a pure function of (seed, step, layer, site, sample, position, channel), equal under every layout.
//
// Philox counter: {channel / 4, position, sample, (layer + 1) 256 + site}, key: seed and step; channel mod 4 picks the
// word. An element is kept when its uniform number in [0, 1) is at least p, and then scaled by 1 / (1 - p).
#pragma once

#include <cstdint>

#include "engine/core/error.h"
#include "engine/core/rng.h"

namespace benchsuite::cpu {

class DropoutMask {
 public:
  /// `samples` is the op's operand: int32 [b + 2], the sample indices, then step, then seed.
  DropoutMask(const std::int32_t* samples, std::int64_t b, std::int32_t layer, std::int64_t site, float p)
      : samples_(samples),
        key_(std::uint64_t{static_cast<std::uint32_t>(samples[b])} << 32 | static_cast<std::uint32_t>(samples[b + 1])),
        layer_and_site_(static_cast<std::uint32_t>(layer + 1) * 256u + static_cast<std::uint32_t>(site)),
        p_(p),
        scale_(1.0f / (1.0f - p)) {
    CHECK(p >= 0 && p < 1) << "dropout probability " << p;
    CHECK(site >= 0 && site < 256) << "dropout site " << site;
  }

  /// factors[i] = 1 / (1 - p) where (batch, position, first_channel + i) is kept, else 0.
  void factors(std::int64_t batch, std::int64_t position, std::int64_t first_channel, std::int64_t count,
               float* factors) const {
    PhiloxCounter words{};
    std::int64_t drawn = -1;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t channel = first_channel + i;
      if (channel / 4 != drawn) {
        drawn = channel / 4;
        words = philox(key_, {static_cast<std::uint32_t>(drawn), static_cast<std::uint32_t>(position),
                              static_cast<std::uint32_t>(samples_[batch]), layer_and_site_});
      }
      factors[i] = uniform_from(words[static_cast<std::size_t>(channel % 4)]) >= p_ ? scale_ : 0.0f;
    }
  }

  float scale() const { return scale_; }

 private:
  const std::int32_t* samples_;
  std::uint64_t key_;
  std::uint32_t layer_and_site_;
  float p_;
  float scale_;
};

}  // namespace benchsuite::cpu
