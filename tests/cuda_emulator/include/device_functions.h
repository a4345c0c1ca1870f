// What kernels call: indices, barriers, warp operations, atomics and arithmetic.
//
// A block's threads run on one CPU thread and change only at barriers and warp operations, so atomics need no care and a
// missing barrier shows when the order of threads changes (cuda_emulator::ThreadOrder).
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "vector_types.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
// One section of its own, so that it can be filled before every block. A function that holds shared memory must have internal
// linkage (static, or in an unnamed namespace): the compiler can't put a shared copy of it into this section.
#define __shared__ static __attribute__((section("cuda_shared")))

// Of the thread that runs; set at every change of thread.
extern uint3 threadIdx;
extern uint3 blockIdx;
extern dim3 blockDim, gridDim;
inline constexpr int warpSize = 32;

namespace cuda_emulator {

enum class WarpKind { sync, shuffle, shuffle_up, shuffle_down, shuffle_xor, ballot, any, all };

/// Waits until all threads of the block that have not ended are at a barrier of this line.
void block_barrier(const char* file, int line);
enum class BlockVote { count, conjunction, disjunction };
int block_vote(BlockVote kind, bool value, const char* file, int line);
/// Waits until all lanes of the mask are at the same operation; the value of the lane it names, or the vote.
std::uint64_t warp_operation(WarpKind kind, unsigned mask, std::uint64_t value, int argument, int width, const char* file,
                             int line);

template <class T>
T shuffle(WarpKind kind, unsigned mask, T value, int argument, int width, const char* file, int line) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8);
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = warp_operation(kind, mask, bits, argument, width, file, line);
  T out;
  std::memcpy(static_cast<void*>(&out), &bits, sizeof out);
  return out;
}

template <class T, class U, class Change>
T exchange(T* address, U operand, Change change) {
  const T before = *address;
  *address = change(before, static_cast<T>(operand));
  return before;
}

}  // namespace cuda_emulator

#define CUDA_EMULATOR_WHERE const char *file = __builtin_FILE(), int line = __builtin_LINE()

inline void __syncthreads(CUDA_EMULATOR_WHERE) { cuda_emulator::block_barrier(file, line); }
inline int __syncthreads_count(int value, CUDA_EMULATOR_WHERE) {
  return cuda_emulator::block_vote(cuda_emulator::BlockVote::count, value != 0, file, line);
}
inline int __syncthreads_and(int value, CUDA_EMULATOR_WHERE) {
  return cuda_emulator::block_vote(cuda_emulator::BlockVote::conjunction, value != 0, file, line);
}
inline int __syncthreads_or(int value, CUDA_EMULATOR_WHERE) {
  return cuda_emulator::block_vote(cuda_emulator::BlockVote::disjunction, value != 0, file, line);
}
inline void __syncwarp(unsigned mask = 0xFFFFFFFFu, CUDA_EMULATOR_WHERE) {
  cuda_emulator::warp_operation(cuda_emulator::WarpKind::sync, mask, 0, 0, 32, file, line);
}
inline void __threadfence() {}
inline void __threadfence_block() {}

template <class T>
T __shfl_sync(unsigned mask, T value, int lane, int width = 32, CUDA_EMULATOR_WHERE) {
  return cuda_emulator::shuffle(cuda_emulator::WarpKind::shuffle, mask, value, lane, width, file, line);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, CUDA_EMULATOR_WHERE) {
  return cuda_emulator::shuffle(cuda_emulator::WarpKind::shuffle_up, mask, value, static_cast<int>(delta), width, file, line);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, CUDA_EMULATOR_WHERE) {
  return cuda_emulator::shuffle(cuda_emulator::WarpKind::shuffle_down, mask, value, static_cast<int>(delta), width, file, line);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32, CUDA_EMULATOR_WHERE) {
  return cuda_emulator::shuffle(cuda_emulator::WarpKind::shuffle_xor, mask, value, lane_mask, width, file, line);
}
inline unsigned __ballot_sync(unsigned mask, int value, CUDA_EMULATOR_WHERE) {
  return static_cast<unsigned>(
      cuda_emulator::warp_operation(cuda_emulator::WarpKind::ballot, mask, value != 0, 0, 32, file, line));
}
inline int __any_sync(unsigned mask, int value, CUDA_EMULATOR_WHERE) {
  return static_cast<int>(cuda_emulator::warp_operation(cuda_emulator::WarpKind::any, mask, value != 0, 0, 32, file, line));
}
inline int __all_sync(unsigned mask, int value, CUDA_EMULATOR_WHERE) {
  return static_cast<int>(cuda_emulator::warp_operation(cuda_emulator::WarpKind::all, mask, value != 0, 0, 32, file, line));
}
#undef CUDA_EMULATOR_WHERE

// Integer atomics only: the engine's kernels add floats in a fixed order. Programs that may, define CUDA_EMULATOR_FLOAT_ATOMICS.
template <class T, class U>
T atomicAdd(T* address, U value) {
#ifndef CUDA_EMULATOR_FLOAT_ATOMICS
  static_assert(std::is_integral_v<T>, "a float atomic makes results depend on the order of threads");
#endif
  return cuda_emulator::exchange(address, value, [](T a, T b) { return static_cast<T>(a + b); });
}
template <class T, class U>
T atomicMax(T* address, U value) {
  static_assert(std::is_integral_v<T>);
  return cuda_emulator::exchange(address, value, [](T a, T b) { return a > b ? a : b; });
}
template <class T, class U>
T atomicMin(T* address, U value) {
  static_assert(std::is_integral_v<T>);
  return cuda_emulator::exchange(address, value, [](T a, T b) { return a < b ? a : b; });
}
template <class T, class U>
T atomicOr(T* address, U value) {
  static_assert(std::is_integral_v<T>);
  return cuda_emulator::exchange(address, value, [](T a, T b) { return static_cast<T>(a | b); });
}
template <class T, class U>
T atomicExch(T* address, U value) {
  return cuda_emulator::exchange(address, value, [](T, T b) { return b; });
}
template <class T, class U, class V>
T atomicCAS(T* address, U expected, V value) {
  static_assert(std::is_integral_v<T>);
  return cuda_emulator::exchange(address, value,
                                 [&](T a, T b) { return a == static_cast<T>(expected) ? b : a; });
}

template <class T>
T __ldg(const T* address) {
  return *address;
}

// CUDA declares these at global scope.
using std::isfinite;
using std::isinf;
using std::isnan;
using std::max;
using std::min;
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
inline double rsqrt(double x) { return 1.0 / std::sqrt(x); }
inline float __expf(float x) { return std::exp(x); }
inline float __logf(float x) { return std::log(x); }
inline float __powf(float x, float y) { return std::pow(x, y); }
inline float __fdividef(float x, float y) { return x / y; }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __fsqrt_rn(float x) { return std::sqrt(x); }
inline float __fadd_rn(float x, float y) { return x + y; }
inline float __fmul_rn(float x, float y) { return x * y; }
inline float __fdiv_rn(float x, float y) { return x / y; }
inline float __fmaf_rn(float x, float y, float z) { return std::fma(x, y, z); }
inline double __dadd_rn(double x, double y) { return x + y; }
inline double __dmul_rn(double x, double y) { return x * y; }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline long long __double_as_longlong(double x) { return std::bit_cast<long long>(x); }
inline double __longlong_as_double(long long x) { return std::bit_cast<double>(x); }
inline long long __double2ll_rn(double x) { return std::llrint(x); }
inline unsigned long long __double2ull_rn(double x) { return static_cast<unsigned long long>(std::rint(x)); }
inline int __float2int_rn(float x) { return static_cast<int>(std::rint(x)); }
inline float __ll2float_rn(long long x) { return static_cast<float>(x); }
inline unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned>((std::uint64_t{a} * b) >> 32); }
__extension__ using CudaEmulatorUInt128 = unsigned __int128;
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return static_cast<unsigned long long>((static_cast<CudaEmulatorUInt128>(a) * b) >> 64);
}
inline int __popc(unsigned x) { return std::popcount(x); }
inline int __popcll(unsigned long long x) { return std::popcount(x); }
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
inline int __clzll(long long x) { return std::countl_zero(static_cast<unsigned long long>(x)); }
inline int __ffs(int x) { return x == 0 ? 0 : std::countr_zero(static_cast<unsigned>(x)) + 1; }
inline float __saturatef(float x) { return x < 0 ? 0.0f : x > 1 ? 1.0f : x; }
