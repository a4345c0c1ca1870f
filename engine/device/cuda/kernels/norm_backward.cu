// LayerNorm and RMSNorm backwards: dx row by row, and on the way the sums over rows for gamma and beta.
//
// Each block takes rows blockIdx.x, + gridDim.x, ... and sums dgamma and dbeta of its columns in registers (or, where
// rows are too long for that, in its own rows of the workspace); column_sums.h adds the blocks' sums up. So dy and x
// are read once.
#include <algorithm>
#include <type_traits>

#include "engine/device/cuda/kernels/column_sums.h"
#include "engine/device/cuda/kernels/dtypes.h"
#include "engine/device/cuda/kernels/kernels.h"
#include "engine/device/cuda/kernels/rows.h"
#include "engine/device/cuda/launch.h"

namespace benchsuite::cuda {
namespace {

// As many packs as registers hold: of dy, x and both sums.
template <class T>
constexpr int kKept = std::is_same_v<T, float> ? 2 : 3;

constexpr std::int64_t kMaxBlocks = 256;

template <class T>
struct NormBackward {
  const T *dy, *x, *gamma;
  const float* stats;
  T* dx;
  float* partial;  ///< [blocks, 2 or 1, cols]: sums for gamma, then for beta
  int rows, cols;
  bool wide;
};

__device__ inline void store_sums(float* to, const Eight& sums, int left) {
#pragma unroll
  for (int i = 0; i < kPack; ++i) {
    if (i < left) to[i] = sums.v[i];
  }
}

/// With n = (x - mean) / sigma and g = dy gamma: dx = (g - mean(g) - n mean(g n)) / sigma. RMSNorm has neither mean.
template <class T, int kKeptPacks, bool kCentered>
__global__ void norm_backward_rows(NormBackward<T> p) {
  __shared__ float shared[2][kMaxWarps];
  float* gamma_sums = p.partial + static_cast<std::int64_t>(blockIdx.x) * (kCentered ? 2 : 1) * p.cols;
  float* beta_sums = gamma_sums + p.cols;
  Eight in_gamma[kKeptPacks > 0 ? kKeptPacks : 1] = {}, in_beta[kKeptPacks > 0 ? kKeptPacks : 1] = {};
  if constexpr (kKeptPacks == 0) {
    for_each_pack<0>(p.cols, [&](int, int column) {
      store_sums(gamma_sums + column, in_gamma[0], p.cols - column);
      if constexpr (kCentered) store_sums(beta_sums + column, in_beta[0], p.cols - column);
    });
  }
  for (int r = static_cast<int>(blockIdx.x); r < p.rows; r += static_cast<int>(gridDim.x)) {
    const std::int64_t start = static_cast<std::int64_t>(r) * p.cols;
    const float mean = kCentered ? p.stats[2 * static_cast<std::int64_t>(r)] : 0.0f;
    const float inverse = kCentered ? p.stats[2 * static_cast<std::int64_t>(r) + 1] : p.stats[r];
    const Row<T, kKeptPacks> dy(p.dy + start, p.cols, p.wide), x(p.x + start, p.cols, p.wide);
    float sums[2] = {0, 0};
    for_each_pack<kKeptPacks>(p.cols, [&](int k, int column) {
      const int left = p.cols - column;
      const Eight gradient = dy.at(k, column), in = x.at(k, column), gamma = load8(p.gamma + column, left, p.wide);
      Eight of_gamma = in_gamma[k], of_beta = in_beta[k];
      if constexpr (kKeptPacks == 0) {
        of_gamma = load8(gamma_sums + column, left, false);
        if constexpr (kCentered) of_beta = load8(beta_sums + column, left, false);
      }
#pragma unroll
      for (int i = 0; i < kPack; ++i) {
        const float normal = (in.v[i] - mean) * inverse;  // absent elements have dy = 0 and gamma = 0
        const float g = gradient.v[i] * gamma.v[i];
        sums[0] += g;
        sums[1] += g * normal;
        of_gamma.v[i] += gradient.v[i] * normal;
        of_beta.v[i] += gradient.v[i];
      }
      if constexpr (kKeptPacks == 0) {
        store_sums(gamma_sums + column, of_gamma, left);
        if constexpr (kCentered) store_sums(beta_sums + column, of_beta, left);
      } else {
        in_gamma[k] = of_gamma;
        in_beta[k] = of_beta;
      }
    });
    block_reduce(sums, shared, Sum{});
    const float mean_g = kCentered ? sums[0] / static_cast<float>(p.cols) : 0.0f;
    const float mean_gn = sums[1] / static_cast<float>(p.cols);
    for_each_pack<kKeptPacks>(p.cols, [&](int k, int column) {
      const int left = p.cols - column;
      const Eight gradient = dy.at(k, column), in = x.at(k, column), gamma = load8(p.gamma + column, left, p.wide);
      Eight out;
#pragma unroll
      for (int i = 0; i < kPack; ++i) {
        const float normal = (in.v[i] - mean) * inverse;
        out.v[i] = (gradient.v[i] * gamma.v[i] - mean_g - normal * mean_gn) * inverse;
      }
      store8(p.dx + start + column, out, left, p.wide);
    });
  }
  if constexpr (kKeptPacks > 0) {
    for_each_pack<kKeptPacks>(p.cols, [&](int k, int column) {
      store_sums(gamma_sums + column, in_gamma[k], p.cols - column);
      if constexpr (kCentered) store_sums(beta_sums + column, in_beta[k], p.cols - column);
    });
  }
}

/// Four rows a block where there are many: a function of the shape alone, as results depend on it.
std::int64_t blocks_of(std::int64_t rows) { return std::min(div_ceil<std::int64_t>(rows, 4), kMaxBlocks); }

/// Operands: dy, x, gamma, stats, dx, dgamma [, dbeta].
template <class T, bool kCentered>
void run(const KernelCall& call) {
  call.expect_operands(kCentered ? 7 : 6);
  const std::int64_t rows = call.dim(0), cols = call.dim(1), blocks = blocks_of(rows), width = kCentered ? 2 : 1;
  NormBackward<T> p{};
  p.dy = call.operand<const T>(0, rows * cols);
  p.x = call.operand<const T>(1, rows * cols);
  p.gamma = call.operand<const T>(2, cols);
  p.stats = call.operand<const float>(3, rows * width);
  p.dx = call.operand<T>(4, rows * cols);
  p.partial = call.scratch<float>(blocks * width * cols);
  p.rows = narrow<int>(rows);
  p.cols = narrow<int>(cols);
  p.wide = wide_access(rows, cols, {p.dy, p.x, p.gamma, p.dx});
  if (rows == 0 || cols == 0) return;
  const bool fits = row_fits(cols, kKept<T>);
  launch(fits ? norm_backward_rows<T, kKept<T>, kCentered> : norm_backward_rows<T, 0, kCentered>,
         narrow<unsigned>(blocks), row_threads(cols, fits ? kKept<T> : 0), call.stream, p);
  for (std::int64_t i = 0; i < width; ++i) {
    const std::size_t accumulator = 5 + static_cast<std::size_t>(i);
    const DType type = accumulator_type(call, accumulator, cols);
    if (type == DType::fp32) call.operand<float>(accumulator, cols);
    add_partial_rows(p.partial + i * cols, blocks, width * cols, cols, type, call.operands[accumulator].data(),
                     call.stream);
  }
}

}  // namespace

std::uint64_t norm_backward_workspace(const OpShape& shape) {
  const std::int64_t width = shape.kind == OpKind::layernorm_backward ? 2 : 1;
  return static_cast<std::uint64_t>(blocks_of(shape.dims[0]) * width * shape.dims[1]) * sizeof(float);
}

void layernorm_backward(const KernelCall& call) {
  with_one_type(call, [&](auto type) { run<decltype(type), true>(call); });
}
void rmsnorm_backward(const KernelCall& call) {
  with_one_type(call, [&](auto type) { run<decltype(type), false>(call); });
}

}  // namespace benchsuite::cuda
