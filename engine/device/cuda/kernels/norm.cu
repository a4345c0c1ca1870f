// LayerNorm (Ba et al. 2016) and RMSNorm (Zhang and Sennrich 2019), a row a block.
#include "engine/device/cuda/kernels/dtypes.h"
#include "engine/device/cuda/kernels/kernels.h"
#include "engine/device/cuda/kernels/rows.h"
#include "engine/device/cuda/launch.h"

namespace benchsuite::cuda {
namespace {

constexpr int kKept = 4;

template <class T>
struct NormForward {
  const T *x, *gamma, *beta;  ///< beta: LayerNorm only
  T* y;
  float* stats;  ///< [rows, 2] mean, 1/sigma; RMSNorm [rows] 1/rms
  float epsilon;
  int cols;
  bool wide;
};

/// 1 / sqrt(squares / cols + epsilon)
__device__ inline float inverse_root(float squares, int cols, float epsilon) {
  return 1.0f / sqrtf(squares / static_cast<float>(cols) + epsilon);
}

template <class T, int kKeptPacks>
__global__ void layernorm_rows(NormForward<T> p) {
  __shared__ float shared[1][kMaxWarps];
  const std::int64_t start = static_cast<std::int64_t>(blockIdx.x) * p.cols;
  const Row<T, kKeptPacks> row(p.x + start, p.cols, p.wide);
  float sum = 0;
  for_each_pack<kKeptPacks>(p.cols, [&](int k, int column) {
    const Eight x = row.at(k, column);
    for (const float value : x.v) sum += value;  // absent elements are 0
  });
  const float mean = block_reduce(sum, shared, Sum{}) / static_cast<float>(p.cols);
  // Around the mean, in a second loop: sums of squares of large values would cancel.
  float squares = 0;
  for_each_pack<kKeptPacks>(p.cols, [&](int k, int column) {
    const Eight x = row.at(k, column);
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
      if (column + i < p.cols) squares += (x.v[i] - mean) * (x.v[i] - mean);
    }
  });
  const float inverse = inverse_root(block_reduce(squares, shared, Sum{}), p.cols, p.epsilon);
  if (threadIdx.x == 0) {
    p.stats[2 * static_cast<std::int64_t>(blockIdx.x)] = mean;
    p.stats[2 * static_cast<std::int64_t>(blockIdx.x) + 1] = inverse;
  }
  for_each_pack<kKeptPacks>(p.cols, [&](int k, int column) {
    const Eight x = row.at(k, column);
    const Eight gamma = load8(p.gamma + column, p.cols - column, p.wide);
    const Eight beta = load8(p.beta + column, p.cols - column, p.wide);
    Eight out;
#pragma unroll
    for (int i = 0; i < kPack; ++i) out.v[i] = (x.v[i] - mean) * inverse * gamma.v[i] + beta.v[i];
    store8(p.y + start + column, out, p.cols - column, p.wide);
  });
}

template <class T, int kKeptPacks>
__global__ void rmsnorm_rows(NormForward<T> p) {
  __shared__ float shared[1][kMaxWarps];
  const std::int64_t start = static_cast<std::int64_t>(blockIdx.x) * p.cols;
  const Row<T, kKeptPacks> row(p.x + start, p.cols, p.wide);
  float squares = 0;
  for_each_pack<kKeptPacks>(p.cols, [&](int k, int column) {
    const Eight x = row.at(k, column);
    for (const float value : x.v) squares += value * value;
  });
  const float inverse = inverse_root(block_reduce(squares, shared, Sum{}), p.cols, p.epsilon);
  if (threadIdx.x == 0) p.stats[blockIdx.x] = inverse;
  for_each_pack<kKeptPacks>(p.cols, [&](int k, int column) {
    const Eight x = row.at(k, column);
    const Eight gamma = load8(p.gamma + column, p.cols - column, p.wide);
    Eight out;
#pragma unroll
    for (int i = 0; i < kPack; ++i) out.v[i] = x.v[i] * inverse * gamma.v[i];
    store8(p.y + start + column, out, p.cols - column, p.wide);
  });
}

/// Operands: x, gamma [, beta], y, stats.
template <class T>
NormForward<T> forward_of(const KernelCall& call, bool centered) {
  const std::int64_t rows = call.dim(0), cols = call.dim(1);
  call.expect_operands(centered ? 5 : 4);
  std::size_t next = 0;
  NormForward<T> p{};
  p.x = call.operand<const T>(next++, rows * cols);
  p.gamma = call.operand<const T>(next++, cols);
  if (centered) p.beta = call.operand<const T>(next++, cols);
  p.y = call.operand<T>(next++, rows * cols);
  p.stats = call.operand<float>(next, rows * (centered ? 2 : 1));
  p.epsilon = call.scalar(0);
  p.cols = narrow<int>(cols);
  p.wide = wide_access(rows, cols, {p.x, p.gamma, p.beta, p.y});
  return p;
}

template <class T>
void launch_rows(const KernelCall& call, void (*kept)(NormForward<T>), void (*streamed)(NormForward<T>),
                 const NormForward<T>& p) {
  if (call.dim(0) == 0 || p.cols == 0) return;
  const bool fits = row_fits(p.cols, kKept);
  launch(fits ? kept : streamed, narrow<unsigned>(call.dim(0)), row_threads(p.cols, fits ? kKept : 0), call.stream, p);
}

}  // namespace

void layernorm(const KernelCall& call) {
  with_one_type(call, [&](auto type) {
    using T = decltype(type);
    launch_rows<T>(call, layernorm_rows<T, kKept>, layernorm_rows<T, 0>, forward_of<T>(call, true));
  });
}

void rmsnorm(const KernelCall& call) {
  with_one_type(call, [&](auto type) {
    using T = decltype(type);
    launch_rows<T>(call, rmsnorm_rows<T, kKept>, rmsnorm_rows<T, 0>, forward_of<T>(call, false));
  });
}

}  // namespace benchsuite::cuda
