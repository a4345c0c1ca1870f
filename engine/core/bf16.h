// bf16: the upper half of an fp32. The one place where fp32 values are rounded to it.
#pragma once

#include <bit>
#include <cstdint>

namespace benchsuite {

using Bf16 = std::uint16_t;  ///< the bits

constexpr float widen(Bf16 bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

/// To the nearest, ties to even; beyond the largest finite value to infinity. A NaN stays a NaN of its sign.
constexpr Bf16 round_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<Bf16>(bits >> 16 | 0x40u);
  return static_cast<Bf16>((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}

}  // namespace benchsuite
