// bf16 and pairs of it, as kernels use them. Conversions round to nearest even; arithmetic goes through fp32.
#pragma once

#include <bit>
#include <cstdint>

#include "vector_types.h"

struct alignas(2) __nv_bfloat16 {
  std::uint16_t bits;

  __nv_bfloat16() = default;
  __nv_bfloat16(float value) : bits(rounded(value)) {}
  operator float() const { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

  static std::uint16_t rounded(float value) {
    const auto word = std::bit_cast<std::uint32_t>(value);
    if ((word & 0x7FFFFFFFu) > 0x7F800000u) return 0x7FFF;  // the hardware's one NaN
    return static_cast<std::uint16_t>((word + 0x7FFFu + (word >> 16 & 1u)) >> 16);
  }
};
using nv_bfloat16 = __nv_bfloat16;

struct alignas(4) __nv_bfloat162 {
  __nv_bfloat16 x, y;
  __nv_bfloat162() = default;
  __nv_bfloat162(__nv_bfloat16 low, __nv_bfloat16 high) : x(low), y(high) {}
};
using nv_bfloat162 = __nv_bfloat162;

inline __nv_bfloat16 __float2bfloat16(float value) { return __nv_bfloat16(value); }
inline __nv_bfloat16 __float2bfloat16_rn(float value) { return __nv_bfloat16(value); }
inline float __bfloat162float(__nv_bfloat16 value) { return value; }
inline __nv_bfloat162 __floats2bfloat162_rn(float low, float high) { return {__nv_bfloat16(low), __nv_bfloat16(high)}; }
inline __nv_bfloat162 __float22bfloat162_rn(float2 pair) { return __floats2bfloat162_rn(pair.x, pair.y); }
inline float2 __bfloat1622float2(__nv_bfloat162 pair) { return {pair.x, pair.y}; }
inline float __low2float(__nv_bfloat162 pair) { return pair.x; }
inline float __high2float(__nv_bfloat162 pair) { return pair.y; }
inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 value) { return value.bits; }
inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) {
  __nv_bfloat16 value;
  value.bits = bits;
  return value;
}
