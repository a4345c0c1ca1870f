// Dropout with masks made where they are needed; see keep_mask.h for the mask.
#include "engine/device/cuda/kernels/dtypes.h"
#include "engine/device/cuda/kernels/keep_mask.h"
#include "engine/device/cuda/kernels/kernels.h"
#include "engine/device/cuda/kernels/pack_grid.h"
#include "engine/device/cuda/launch.h"
#include "engine/device/op_table.h"

namespace benchsuite::cuda {
namespace {

/// Which (sample, position, channel) an element of the operand has. A row is [cols] of [s_, b, cols], or the keys [s]
/// of probabilities [b, a, s, s].
struct MaskRows {
  std::int64_t rows, cols;
  std::int64_t s, heads;  ///< probabilities only; heads = 0: not probabilities
  int b;
  std::int64_t first_position, first_channel;

  explicit MaskRows(const KernelCall& call) {
    const auto [d0, d1, d2, position, channel, site] = call.shape.dims;
    const bool attention = site == kAttentionDropout;
    rows = attention ? d0 * d1 * d2 : d0 * d1;
    cols = attention ? d0 : d2;
    s = d0;
    heads = attention ? d2 : 0;
    b = narrow<int>(d1);
    first_position = position;
    first_channel = channel;
  }

  __device__ Eight factors(const KeepMask& mask, std::int64_t row, std::int64_t column) const {
    if (heads == 0) {
      const std::int64_t position = row / b;
      return mask.factors(static_cast<int>(row - position * b), first_position + position, first_channel + column);
    }
    const std::int64_t matrix = row / s, sample = matrix / heads, head = matrix - sample * heads;
    return mask.factors(static_cast<int>(sample), row - matrix * s, (first_channel + head) * s + column);
  }
};

KeepMask mask_of(const KernelCall& call, std::size_t samples_operand) {
  const std::int64_t b = call.dim(1);
  return {call.operand<const std::int32_t>(samples_operand, b + 2), b, call.layer, call.dim(5), call.scalar(0)};
}

/// y = x mask, also dropout's backward pass.
template <class T>
__global__ void drop(PackGrid grid, MaskRows rows, KeepMask mask, const T* x, T* y, std::uint8_t* stored) {
  const PackPlace at = grid.place();
  if (at.left <= 0) return;
  const Eight in = load8(x + at.offset, at.left, grid.wide);
  const Eight factors = rows.factors(mask, at.row, at.column);
  Eight out;
#pragma unroll
  for (int i = 0; i < kPack; ++i) out.v[i] = dropped(in.v[i], factors.v[i]);
  store8(y + at.offset, out, at.left, grid.wide);
  if (stored) store8(stored + at.offset, factors, at.left, grid.wide);
}

template <class T>
__global__ void drop_stored(PackGrid grid, float scale, const T* dy, const std::uint8_t* stored, T* dx) {
  const PackPlace at = grid.place();
  if (at.left <= 0) return;
  const Eight gradient = load8(dy + at.offset, at.left, grid.wide);
  const Eight kept = load8(stored + at.offset, at.left, grid.wide);
  Eight out;
#pragma unroll
  for (int i = 0; i < kPack; ++i) out.v[i] = dropped(gradient.v[i], kept.v[i] == 0 ? 0.0f : scale);
  store8(dx + at.offset, out, at.left, grid.wide);
}

template <class T>
__global__ void bias_drop_add(PackGrid grid, MaskRows rows, KeepMask mask, const T* x, const T* bias, const T* residual,
                              T* y, std::uint8_t* stored) {
  const PackPlace at = grid.place();
  if (at.left <= 0) return;
  const Eight in = load8(x + at.offset, at.left, grid.wide);
  const Eight past = load8(residual + at.offset, at.left, grid.wide);
  const Eight shift = load8(bias + at.column, at.left, grid.wide);
  const Eight factors = rows.factors(mask, at.row, at.column);
  Eight out;
#pragma unroll
  for (int i = 0; i < kPack; ++i) out.v[i] = past.v[i] + dropped(in.v[i] + shift.v[i], factors.v[i]);
  store8(y + at.offset, out, at.left, grid.wide);
  if (stored) store8(stored + at.offset, factors, at.left, grid.wide);
}

template <class T>
void drop_by_mask(const KernelCall& call, std::uint8_t* stored) {
  const MaskRows rows(call);
  const std::int64_t n = rows.rows * rows.cols;
  const T* x = call.operand<const T>(0, n);
  T* y = call.operand<T>(2, n);
  const KeepMask mask = mask_of(call, 1);
  const PackGrid grid(rows.rows, rows.cols, wide_access(rows.rows, rows.cols, {x, y, stored}));
  if (grid.empty()) return;
  launch(drop<T>, grid.blocks(), grid.threads(), call.stream, grid, rows, mask, x, y, stored);
}

std::uint8_t* stored_mask(const KernelCall& call, std::size_t index) {
  const MaskRows rows(call);
  return call.shape.stores_mask ? call.operand<std::uint8_t>(index, rows.rows * rows.cols) : nullptr;
}

}  // namespace

void dropout(const KernelCall& call) {
  call.expect_operands(call.shape.stores_mask ? 4 : 3);
  with_one_type(call, [&](auto type) { drop_by_mask<decltype(type)>(call, stored_mask(call, 3)); });
}

void dropout_backward(const KernelCall& call) {
  call.expect_operands(3);
  with_one_type(call, [&](auto type) {
    using T = decltype(type);
    if (!call.shape.stores_mask) return drop_by_mask<T>(call, nullptr);
    const MaskRows rows(call);
    const std::int64_t n = rows.rows * rows.cols;
    const T* dy = call.operand<const T>(0, n);
    const std::uint8_t* stored = stored_mask(call, 1);
    T* dx = call.operand<T>(2, n);
    const PackGrid grid(1, n, wide_access(1, n, {dy, stored, dx}));
    if (grid.empty()) return;
    launch(drop_stored<T>, grid.blocks(), grid.threads(), call.stream, grid, 1.0f / (1.0f - call.scalar(0)), dy, stored,
           dx);
  });
}

void bias_dropout_add(const KernelCall& call) {
  call.expect_operands(call.shape.stores_mask ? 6 : 5);
  CHECK(call.dim(5) != kAttentionDropout) << "attention probabilities have neither bias nor residual";
  with_one_type(call, [&](auto type) {
    using T = decltype(type);
    const MaskRows rows(call);
    const std::int64_t n = rows.rows * rows.cols;
    const T* x = call.operand<const T>(0, n);
    const T* bias = call.operand<const T>(1, rows.cols);
    const T* residual = call.operand<const T>(2, n);
    const KeepMask mask = mask_of(call, 3);
    T* y = call.operand<T>(4, n);
    std::uint8_t* stored = stored_mask(call, 5);
    const PackGrid grid(rows.rows, rows.cols, wide_access(rows.rows, rows.cols, {x, bias, residual, y, stored}));
    if (grid.empty()) return;
    launch(bias_drop_add<T>, grid.blocks(), grid.threads(), call.stream, grid, rows, mask, x, bias, residual, y,
           stored);
  });
}

}  // namespace benchsuite::cuda
