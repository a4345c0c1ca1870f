// Eight elements at a time: how every kernel reads and writes device memory.
//
// Eight bf16 are one 16-byte access, eight fp32 two. `wide` says that every pack of a tensor may be read so: its
// address is a multiple of 16 and so is the start of each of its rows (wide_access). Where not, or where fewer than
// eight elements are left, elements go one by one and the missing ones read as 0.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <bit>
#include <cstdint>
#include <initializer_list>

namespace benchsuite::cuda {

inline constexpr int kPack = 8;

/// Whether all addresses allow packs of 16-byte words in rows of `cols` elements; one row may end anywhere.
inline bool wide_access(std::int64_t rows, std::int64_t cols, std::initializer_list<const void*> addresses) {
  for (const void* address : addresses) {
    if (reinterpret_cast<std::uintptr_t>(address) % 16 != 0) return false;
  }
  return rows <= 1 || cols % kPack == 0;
}

__device__ inline float to_float(float value) { return value; }
__device__ inline float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }
template <class T>
__device__ T from_float(float value);
template <>
__device__ inline float from_float<float>(float value) {
  return value;
}
template <>
__device__ inline __nv_bfloat16 from_float<__nv_bfloat16>(float value) {
  return __float2bfloat16_rn(value);
}

/// Eight elements as fp32.
struct Eight {
  float v[kPack];
};

/// Eight elements as they lie in memory, in registers.
template <class T>
struct Raw8;

template <>
struct Raw8<float> {
  float4 low, high;

  __device__ static Raw8 from_memory(const float* at) {
    return {*reinterpret_cast<const float4*>(at), *reinterpret_cast<const float4*>(at + 4)};
  }
  __device__ void to_memory(float* at) const {
    *reinterpret_cast<float4*>(at) = low;
    *reinterpret_cast<float4*>(at + 4) = high;
  }
  __device__ static Raw8 pack(const Eight& x) {
    return {float4{x.v[0], x.v[1], x.v[2], x.v[3]}, float4{x.v[4], x.v[5], x.v[6], x.v[7]}};
  }
  __device__ Eight unpack() const { return {{low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w}}; }
};

template <>
struct Raw8<__nv_bfloat16> {
  uint4 words;

  __device__ static Raw8 from_memory(const __nv_bfloat16* at) { return {*reinterpret_cast<const uint4*>(at)}; }
  __device__ void to_memory(__nv_bfloat16* at) const { *reinterpret_cast<uint4*>(at) = words; }
  __device__ static Raw8 pack(const Eight& x) {
    return {uint4{pair(x.v[0], x.v[1]), pair(x.v[2], x.v[3]), pair(x.v[4], x.v[5]), pair(x.v[6], x.v[7])}};
  }
  __device__ Eight unpack() const {
    return {{low(words.x), high(words.x), low(words.y), high(words.y), low(words.z), high(words.z), low(words.w),
             high(words.w)}};
  }

 private:
  // A bf16 is the upper half of an fp32.
  __device__ static float low(unsigned word) { return std::bit_cast<float>(word << 16); }
  __device__ static float high(unsigned word) { return std::bit_cast<float>(word & 0xFFFF0000u); }
  __device__ static unsigned pair(float first, float second) {
    const __nv_bfloat162 both = __floats2bfloat162_rn(first, second);
    return *reinterpret_cast<const unsigned*>(&both);
  }
};

/// The pack at `at`, of which `left` elements exist.
template <class T>
__device__ inline Raw8<T> load_raw(const T* at, std::int64_t left, bool wide) {
  if (wide && left >= kPack) return Raw8<T>::from_memory(at);
  Eight x;
#pragma unroll
  for (int i = 0; i < kPack; ++i) x.v[i] = i < left ? to_float(at[i]) : 0.0f;
  return Raw8<T>::pack(x);
}
template <class T>
__device__ inline Eight load8(const T* at, std::int64_t left, bool wide) {
  return load_raw(at, left, wide).unpack();
}

/// Rounds once to T.
template <class T>
__device__ inline void store8(T* at, const Eight& x, std::int64_t left, bool wide) {
  if (wide && left >= kPack) {
    Raw8<T>::pack(x).to_memory(at);
    return;
  }
#pragma unroll
  for (int i = 0; i < kPack; ++i) {
    if (i < left) at[i] = from_float<T>(x.v[i]);
  }
}

/// Eight mask bytes, 0 or 1.
__device__ inline void store8(std::uint8_t* at, const Eight& x, std::int64_t left, bool wide) {
  if (wide && left >= kPack) {
    uint2 words{0, 0};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      words.x |= (x.v[i] != 0 ? 1u : 0u) << (8 * i);
      words.y |= (x.v[i + 4] != 0 ? 1u : 0u) << (8 * i);
    }
    *reinterpret_cast<uint2*>(at) = words;
    return;
  }
#pragma unroll
  for (int i = 0; i < kPack; ++i) {
    if (i < left) at[i] = x.v[i] != 0;
  }
}
__device__ inline Eight load8(const std::uint8_t* at, std::int64_t left, bool wide) {
  Eight x;
  if (wide && left >= kPack) {
    const uint2 words = *reinterpret_cast<const uint2*>(at);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      x.v[i] = (words.x >> (8 * i) & 0xFFu) != 0 ? 1.0f : 0.0f;
      x.v[i + 4] = (words.y >> (8 * i) & 0xFFu) != 0 ? 1.0f : 0.0f;
    }
    return x;
  }
#pragma unroll
  for (int i = 0; i < kPack; ++i) x.v[i] = i < left && at[i] != 0 ? 1.0f : 0.0f;
  return x;
}

}  // namespace benchsuite::cuda
