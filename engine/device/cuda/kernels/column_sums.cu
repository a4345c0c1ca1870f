#include "engine/device/cuda/kernels/column_sums.h"

#include <algorithm>

#include "engine/device/cuda/kernels/dtypes.h"
#include "engine/device/cuda/kernels/kernels.h"
#include "engine/device/cuda/kernels/vectors.h"
#include "engine/device/cuda/launch.h"

namespace benchsuite::cuda {
namespace {

// A block is 32 x 8 threads: lane by lane the columns, eight rows at a time.
constexpr int kLanes = 32, kRowsAtOnce = 8;
constexpr int kColumns = kLanes * kPack;  // of a block

template <class T>
__global__ void sum_some_rows(const T* x, std::int64_t rows, int cols, std::int64_t rows_of_block, bool wide,
                              float* partial) {
  __shared__ float shared[kRowsAtOnce][kColumns];
  const int lane = static_cast<int>(threadIdx.x) % kLanes, at_once = static_cast<int>(threadIdx.x) / kLanes;
  const int column = static_cast<int>(blockIdx.x) * kColumns + lane * kPack;
  const std::int64_t first = blockIdx.y * rows_of_block;
  const std::int64_t last = first + rows_of_block < rows ? first + rows_of_block : rows;
  Eight sum{};
  if (column < cols) {
#pragma unroll 4
    for (std::int64_t row = first + at_once; row < last; row += kRowsAtOnce) {
      const Eight values = load8(x + row * cols + column, cols - column, wide);
#pragma unroll
      for (int i = 0; i < kPack; ++i) sum.v[i] += values.v[i];
    }
  }
#pragma unroll
  for (int i = 0; i < kPack; ++i) shared[at_once][lane * kPack + i] = sum.v[i];
  __syncthreads();
  const int own = static_cast<int>(threadIdx.x);  // kColumns threads: one column each
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * kColumns + own;
  if (at >= cols) return;
  float total = 0;
#pragma unroll
  for (int i = 0; i < kRowsAtOnce; ++i) total += shared[i][own];
  partial[blockIdx.y * static_cast<std::int64_t>(cols) + at] = total;
}

template <class T>
__global__ void add_rows(const float* partial, std::int64_t count, std::int64_t stride, std::int64_t cols,
                         T* accumulator) {
  __shared__ double shared[kRowsAtOnce][kLanes];
  const int lane = static_cast<int>(threadIdx.x) % kLanes, at_once = static_cast<int>(threadIdx.x) / kLanes;
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kLanes + lane;
  double sum = 0;
  if (column < cols) {
#pragma unroll 4
    for (std::int64_t row = at_once; row < count; row += kRowsAtOnce)
      sum += static_cast<double>(partial[row * stride + column]);
  }
  shared[at_once][lane] = sum;
  __syncthreads();
  if (at_once != 0 || column >= cols) return;
  double total = 0;
#pragma unroll
  for (int i = 0; i < kRowsAtOnce; ++i) total += shared[i][lane];
  accumulator[column] = from_float<T>(to_float(accumulator[column]) + static_cast<float>(total));
}

/// Into how many groups the rows are cut: enough blocks for any GPU, at least 32 rows each.
std::int64_t row_groups(std::int64_t rows, std::int64_t cols) {
  const std::int64_t slabs = div_ceil<std::int64_t>(cols, kColumns);
  const std::int64_t most = std::max<std::int64_t>(1, 1024 / std::max<std::int64_t>(1, slabs));
  return std::clamp<std::int64_t>(div_ceil<std::int64_t>(rows, 32), 1, most);
}

}  // namespace

void add_partial_rows(const float* partial, std::int64_t count, std::int64_t stride, std::int64_t cols, DType type,
                      void* accumulator, cudaStream_t stream) {
  with_type(type, [&](auto element) {
    using T = decltype(element);
    launch(add_rows<T>, narrow<unsigned>(div_ceil<std::int64_t>(cols, kLanes)), kLanes * kRowsAtOnce, stream, partial,
           count, stride, cols, static_cast<T*>(accumulator));
  });
}

std::uint64_t bias_gradient_workspace(const OpShape& shape) {
  return static_cast<std::uint64_t>(row_groups(shape.dims[0], shape.dims[1]) * shape.dims[1]) * sizeof(float);
}

void bias_gradient(const KernelCall& call) {
  static_assert(kColumns == kLanes * kRowsAtOnce, "a thread finishes one column");
  call.expect_operands(2);
  const std::int64_t rows = call.dim(0), cols = call.dim(1);
  const std::int64_t groups = row_groups(rows, cols);
  float* partial = call.scratch<float>(groups * cols);
  with_type(call.shape.out_dtype, [&](auto type) { call.operand<decltype(type)>(1, cols); });
  if (rows == 0 || cols == 0) return;
  with_type(call.shape.dtype, [&](auto type) {
    using T = decltype(type);
    const T* dy = call.operand<const T>(0, rows * cols);
    const dim3 grid(narrow<unsigned>(div_ceil<std::int64_t>(cols, kColumns)), narrow<unsigned>(groups));
    launch(sum_some_rows<T>, grid, kLanes * kRowsAtOnce, call.stream, dy, rows, narrow<int>(cols),
           div_ceil(rows, groups), wide_access(rows, cols, {dy}), partial);
  });
  add_partial_rows(partial, groups, cols, cols, call.shape.out_dtype, call.operands[1].data(), call.stream);
}

}  // namespace benchsuite::cuda
