// A row by one block: the packs of eight columns that a thread takes, rows kept in registers, sums over the block.
//
// A block has up to kRowThreads threads, in whole warps. Thread t takes packs t, t + blockDim.x, ... of the row. With
// kKept > 0 a row has at most kKept packs a thread and is read once; with kKept = 0 it may be of any length, and is
// read again in every loop.
#pragma once

#include "engine/core/error.h"
#include "engine/device/cuda/kernels/vectors.h"

namespace benchsuite::cuda {

inline constexpr int kWarp = 32;
inline constexpr int kRowThreads = 512;
inline constexpr int kMaxWarps = kRowThreads / kWarp;
inline constexpr unsigned kAllLanes = 0xFFFFFFFFu;

/// Threads of a block that takes a row of `cols` columns with `kept` packs a thread, or as near to it as there are
/// threads.
inline unsigned row_threads(std::int64_t cols, int kept) {
  const std::int64_t packs = div_ceil<std::int64_t>(cols, kPack);
  const std::int64_t warps = div_ceil<std::int64_t>(packs, std::int64_t{kWarp} * (kept == 0 ? 1 : kept));
  return static_cast<unsigned>(warps < 1 ? kWarp : warps > kMaxWarps ? kRowThreads : warps * kWarp);
}
/// Whether a row fits in registers.
inline bool row_fits(std::int64_t cols, int kept) { return cols <= std::int64_t{kRowThreads} * kept * kPack; }

/// body(k, column) for each pack of this thread; k counts the kept ones.
template <int kKept, class Body>
__device__ inline void for_each_pack(int cols, Body body) {
  if constexpr (kKept > 0) {
#pragma unroll
    for (int k = 0; k < kKept; ++k) {
      const int column = static_cast<int>(k * blockDim.x + threadIdx.x) * kPack;
      if (column < cols) body(k, column);
    }
  } else {
    for (int column = static_cast<int>(threadIdx.x) * kPack; column < cols;
         column += static_cast<int>(blockDim.x) * kPack) {
      body(0, column);
    }
  }
}

/// One row of a matrix, read by the whole block.
template <class T, int kKept>
class Row {
 public:
  __device__ Row(const T* data, int cols, bool wide) : data_(data), cols_(cols), wide_(wide) {
    if constexpr (kKept > 0) {
      for_each_pack<kKept>(cols,
                           [&](int k, int column) { kept_[k] = load_raw(data_ + column, cols_ - column, wide_); });
    }
  }
  /// The pack at `column`, which is this thread's k-th.
  __device__ Eight at(int k, int column) const {
    if constexpr (kKept > 0) return kept_[k].unpack();
    return load8(data_ + column, cols_ - column, wide_);
  }

 private:
  const T* data_;
  int cols_;
  bool wide_;
  Raw8<T> kept_[kKept > 0 ? kKept : 1];
};

/// Combines kCount values over the block, in an order that depends on blockDim alone; every thread gets the results.
/// All threads call it; `shared` may be used again by the next call.
template <class T, int kCount, class Combine>
__device__ inline void block_reduce(T (&values)[kCount], T (&shared)[kCount][kMaxWarps], Combine combine) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
#pragma unroll
    for (int offset = kWarp / 2; offset > 0; offset /= 2) {
      values[i] = combine(values[i], __shfl_xor_sync(kAllLanes, values[i], offset));
    }
  }
  if (blockDim.x == kWarp) return;
  const int warp = static_cast<int>(threadIdx.x) / kWarp, warps = static_cast<int>(blockDim.x) / kWarp;
  __syncthreads();  // `shared` may still be read from the call before
  if (threadIdx.x % kWarp == 0) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) shared[i][warp] = values[i];
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    values[i] = shared[i][0];
    for (int other = 1; other < warps; ++other) values[i] = combine(values[i], shared[i][other]);
  }
}

struct Sum {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
struct Maximum {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

/// One value's reduction.
template <class T, class Combine>
__device__ inline T block_reduce(T value, T (&shared)[1][kMaxWarps], Combine combine) {
  T values[1] = {value};
  block_reduce(values, shared, combine);
  return values[0];
}

}  // namespace benchsuite::cuda
