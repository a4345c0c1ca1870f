// Word and position embeddings. The backward passes scatter without atomics: every table row has one owner, which adds
// the tokens' gradients in their order, so that sums are those of device cpu.
#include "engine/device/cuda/kernels/dtypes.h"
#include "engine/device/cuda/kernels/kernels.h"
#include "engine/device/cuda/kernels/pack_grid.h"
#include "engine/device/cuda/kernels/rows.h"
#include "engine/device/cuda/launch.h"

namespace benchsuite::cuda {
namespace {

/// Rows are copied as they are; ids of other vocabulary shards give zeros, which a sum over the shards fills.
template <class T>
__global__ void gather_rows(PackGrid grid, const std::int32_t* ids, const T* table, std::int64_t rows,
                            std::int64_t first_row, T* y) {
  const PackPlace at = grid.place();
  if (at.left <= 0) return;
  const std::int64_t row = ids[at.row] - first_row;
  const bool here = row >= 0 && row < rows;
  const T* from = table + row * grid.cols + at.column;
  if (grid.wide && at.left >= kPack) {
    (here ? Raw8<T>::from_memory(from) : Raw8<T>::pack(Eight{})).to_memory(y + at.offset);
    return;
  }
#pragma unroll
  for (int i = 0; i < kPack; ++i) {
    if (i < at.left) y[at.offset + i] = here ? from[i] : from_float<T>(0);
  }
}

constexpr unsigned kScatterThreads = 256;
constexpr int kScatterWarps = kScatterThreads / kWarp;

/// Block (t, slab): when token t is the first of its id, adds the gradients of all tokens of that id, in their order,
/// to the slab's columns of the table row; else does nothing. That is tokens x tokens comparisons of ids, which stay in the
/// caches: little beside a step's products for the tokens of a micro-batch, and no sort, no scratch, no atomics.
template <class In, class Out>
__global__ void scatter_rows(const std::int32_t* ids, int tokens, const In* dy, int cols, bool wide, std::int64_t rows,
                             std::int64_t first_row, Out* table) {
  __shared__ unsigned matches[kScatterWarps];
  const int token = static_cast<int>(blockIdx.x), warp = static_cast<int>(threadIdx.x) / kWarp;
  const int threads = static_cast<int>(blockDim.x), warps = threads / kWarp;
  const std::int32_t id = ids[token];
  const std::int64_t row = id - first_row;
  if (row < 0 || row >= rows) return;

  bool earlier = false;
  for (int other = static_cast<int>(threadIdx.x); other < token; other += threads)
    earlier = earlier || ids[other] == id;
  const bool in_warp = __any_sync(kAllLanes, earlier);
  if (threadIdx.x % kWarp == 0) matches[warp] = in_warp;
  __syncthreads();
  for (int i = 0; i < warps; ++i) {
    if (matches[i] != 0) return;  // the block of that token adds this one's gradient too
  }

  const int column = static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x) * kPack;
  Out* const to = table + row * cols + column;
  Eight sum{};
  if (column < cols) sum = load8(to, cols - column, wide);
  for (int first = token; first < tokens; first += threads) {
    const int other = first + static_cast<int>(threadIdx.x);
    const unsigned of_warp = __ballot_sync(kAllLanes, other < tokens && ids[other] == id);
    __syncthreads();  // `matches` has been read
    if (threadIdx.x % kWarp == 0) matches[warp] = of_warp;
    __syncthreads();
    for (int i = 0; i < warps; ++i) {
      int at = first + i * kWarp;
      for (unsigned left = matches[i]; left != 0; left >>= 1, ++at) {
        if ((left & 1u) == 0 || column >= cols) continue;
        const Eight gradient = load8(dy + static_cast<std::int64_t>(at) * cols + column, cols - column, wide);
#pragma unroll
        for (int k = 0; k < kPack; ++k) sum.v[k] += gradient.v[k];
      }
    }
  }
  if (column < cols) store8(to, sum, cols - column, wide);
}

/// y[s, b, h] = x + table[s, h]; the grid's rows are s x b.
template <class T>
__global__ void add_positions(PackGrid grid, int b, const T* x, const T* table, T* y) {
  const PackPlace at = grid.place();
  if (at.left <= 0) return;
  const Eight in = load8(x + at.offset, at.left, grid.wide);
  const Eight position = load8(table + at.row / b * grid.cols + at.column, at.left, grid.wide);
  Eight out;
#pragma unroll
  for (int i = 0; i < kPack; ++i) out.v[i] = in.v[i] + position.v[i];
  store8(y + at.offset, out, at.left, grid.wide);
}

/// table[s, h] += sum over samples of dy[s, b, h], in their order; the grid's rows are s.
template <class In, class Out>
__global__ void sum_positions(PackGrid grid, int b, const In* dy, Out* table) {
  const PackPlace at = grid.place();
  if (at.left <= 0) return;
  Eight sum = load8(table + at.offset, at.left, grid.wide);
  for (int sample = 0; sample < b; ++sample) {
    const Eight gradient = load8(dy + (at.row * b + sample) * grid.cols + at.column, at.left, grid.wide);
#pragma unroll
    for (int i = 0; i < kPack; ++i) sum.v[i] += gradient.v[i];
  }
  store8(table + at.offset, sum, at.left, grid.wide);
}

/// Rows first .. first + s - 1 of a table operand of any number of rows.
template <class T>
T* table_rows(const KernelCall& call, std::size_t index) {
  using Element = std::remove_const_t<T>;
  const std::int64_t s = call.dim(0), h = call.dim(2), first = call.dim(3);
  const auto elements = static_cast<std::int64_t>(call.bytes(index) / sizeof(Element));
  CHECK(elements >= (first + s) * h) << name_of(call.shape.kind) << " with a table of " << elements
                                     << " elements, positions " << first << " .. " << first + s - 1 << " of " << h
                                     << " channels";
  return call.operand<T>(index, elements) + first * h;
}

}  // namespace

void embedding(const KernelCall& call) {
  call.expect_operands(3);
  const std::int64_t tokens = call.dim(0), h = call.dim(1), rows = call.dim(2), first_row = call.dim(3);
  const auto* ids = call.operand<const std::int32_t>(0, tokens);
  with_one_type(call, [&](auto type) {
    using T = decltype(type);
    const T* table = call.operand<const T>(1, rows * h);
    T* y = call.operand<T>(2, tokens * h);
    const PackGrid grid(tokens, h, wide_access(rows + tokens, h, {table, y}));
    if (grid.empty()) return;
    launch(gather_rows<T>, grid.blocks(), grid.threads(), call.stream, grid, ids, table, rows, first_row, y);
  });
}

void embedding_backward(const KernelCall& call) {
  call.expect_operands(3);
  const std::int64_t tokens = call.dim(0), h = call.dim(1), rows = call.dim(2), first_row = call.dim(3);
  const auto* ids = call.operand<const std::int32_t>(0, tokens);
  with_type(call.shape.dtype, [&](auto in) {
    with_type(call.shape.out_dtype, [&](auto out) {
      using In = decltype(in);
      using Out = decltype(out);
      const In* dy = call.operand<const In>(1, tokens * h);
      Out* table = call.operand<Out>(2, rows * h);
      if (tokens * h == 0) return;
      const auto packs = narrow<unsigned>(div_ceil<std::int64_t>(h, kPack));
      const unsigned threads = packs < kScatterThreads ? round_up(packs, unsigned{kWarp}) : kScatterThreads;
      launch(scatter_rows<In, Out>, dim3(narrow<unsigned>(tokens), div_ceil(packs, threads)), threads, call.stream, ids,
             narrow<int>(tokens), dy, narrow<int>(h), wide_access(rows + tokens, h, {dy, table}), rows, first_row,
             table);
    });
  });
}

void position(const KernelCall& call) {
  call.expect_operands(3);
  const std::int64_t s = call.dim(0), b = call.dim(1), h = call.dim(2);
  with_one_type(call, [&](auto type) {
    using T = decltype(type);
    const T* x = call.operand<const T>(0, s * b * h);
    const T* table = table_rows<const T>(call, 1);
    T* y = call.operand<T>(2, s * b * h);
    const PackGrid grid(s * b, h, wide_access(s * b, h, {x, table, y}));
    if (grid.empty()) return;
    launch(add_positions<T>, grid.blocks(), grid.threads(), call.stream, grid, narrow<int>(b), x, table, y);
  });
}

void position_backward(const KernelCall& call) {
  call.expect_operands(2);
  const std::int64_t s = call.dim(0), b = call.dim(1), h = call.dim(2);
  with_type(call.shape.dtype, [&](auto in) {
    with_type(call.shape.out_dtype, [&](auto out) {
      using In = decltype(in);
      using Out = decltype(out);
      const In* dy = call.operand<const In>(0, s * b * h);
      Out* table = table_rows<Out>(call, 1);
      const PackGrid grid(s, h, wide_access(s * b, h, {dy, table}));
      if (grid.empty() || b == 0) return;
      launch(sum_positions<In, Out>, grid.blocks(), grid.threads(), call.stream, grid, narrow<int>(b), dy, table);
    });
  });
}

}  // namespace benchsuite::cuda
