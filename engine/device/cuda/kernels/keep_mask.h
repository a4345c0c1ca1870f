// Dropout masks on the device: the function of engine/device/cpu/dropout_mask.h, eight channels at a time.
//
// Philox counter: {channel / 4, position, sample, (layer + 1) 256 + site}, key: seed and step; channel mod 4 picks the
// word. An element is kept when its uniform number in [0, 1) is at least p, and then scaled by 1 / (1 - p).
#pragma once

#include "engine/core/error.h"
#include "engine/core/rng.h"
#include "engine/device/cuda/kernels/vectors.h"

namespace benchsuite::cuda {

struct KeepMask {
  const std::int32_t* samples = nullptr;  ///< device int32 [b + 2]: sample indices, step, seed
  int b = 0;
  std::uint32_t layer_and_site = 0;
  float p = 0;
  float scale = 1;  ///< 1 / (1 - p)

  KeepMask() = default;
  KeepMask(const std::int32_t* sample_indices, std::int64_t batch, std::int32_t layer, std::int64_t site,
           float probability)
      : samples(sample_indices),
        b(narrow<int>(batch)),
        layer_and_site(static_cast<std::uint32_t>(layer + 1) * 256u + static_cast<std::uint32_t>(site)),
        p(probability),
        scale(1.0f / (1.0f - probability)) {
    CHECK(p >= 0 && p < 1) << "dropout probability " << p;
    CHECK(site >= 0 && site < 256) << "dropout site " << site;
  }

  /// `scale` where (batch, position, channel + i) is kept, else 0.
  __device__ Eight factors(int batch, std::int64_t position, std::int64_t channel) const {
    if (p == 0) return {{1, 1, 1, 1, 1, 1, 1, 1}};  // nothing to draw
    const std::uint64_t key =
        std::uint64_t{static_cast<std::uint32_t>(samples[b])} << 32 | static_cast<std::uint32_t>(samples[b + 1]);
    const auto sample = static_cast<std::uint32_t>(samples[batch]);
    const auto first = static_cast<std::uint32_t>(channel / 4);
    const auto skipped = static_cast<unsigned>(channel % 4);
    std::uint32_t word[12];
#pragma unroll
    for (int draw = 0; draw < 3; ++draw) {
      PhiloxCounter words{};
      if (draw < 2 || skipped != 0) {
        words = philox(key, {first + static_cast<std::uint32_t>(draw), static_cast<std::uint32_t>(position), sample,
                             layer_and_site});
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) word[4 * draw + i] = words[static_cast<std::size_t>(i)];
    }
    // A shift by `skipped` words whose indices are constants, so that the words stay in registers.
#pragma unroll
    for (int i = 0; i < 11; ++i) word[i] = skipped & 1 ? word[i + 1] : word[i];
#pragma unroll
    for (int i = 0; i < 10; ++i) word[i] = skipped & 2 ? word[i + 2] : word[i];
    Eight out;
#pragma unroll
    for (int i = 0; i < kPack; ++i) out.v[i] = uniform_from(word[i]) >= p ? scale : 0.0f;
    return out;
  }
};

/// A dropped element is zero whatever it was.
__device__ inline float dropped(float value, float factor) { return factor == 0 ? 0.0f : value * factor; }

}  // namespace benchsuite::cuda
