// Softmax of attention scores, a row a block: alone (the ops), and fused with scale, mask and dropout
// (attention_softmax.h).
#include <algorithm>

#include "engine/device/cuda/kernels/attention_softmax.h"
#include "engine/device/cuda/kernels/dtypes.h"
#include "engine/device/cuda/kernels/keep_mask.h"
#include "engine/device/cuda/kernels/kernels.h"
#include "engine/device/cuda/kernels/rows.h"
#include "engine/device/cuda/launch.h"
#include "engine/device/op_table.h"

namespace benchsuite::cuda {
namespace {

constexpr int kKept = 4, kKeptBackward = 2;

/// Rows [b, a, queries] of `cols` keys.
struct ScoreRows {
  std::int64_t rows;
  int cols;
  int queries, first_query;
  int heads;
  std::int64_t first_head;
  float scale;
  bool causal, wide;
  KeepMask mask;

  /// A query sees the keys up to its own position.
  __device__ int kept(std::int64_t row) const {
    return causal ? first_query + static_cast<int>(row % queries) + 1 : cols;
  }

  __device__ Eight factors(std::int64_t row, int column) const {
    if (mask.p == 0) return {{1, 1, 1, 1, 1, 1, 1, 1}};
    const std::int64_t matrix = row / queries, sample = matrix / heads, head = matrix - sample * heads;
    const std::int64_t position = first_query + row - matrix * queries;
    return mask.factors(static_cast<int>(sample), position, (first_head + head) * cols + column);
  }
};

template <class In, class Out, int kKeptPacks>
__global__ void softmax_rows(ScoreRows p, const In* scores, Out* probabilities, float* lse) {
  __shared__ float shared[1][kMaxWarps];
  const std::int64_t r = blockIdx.x, start = r * p.cols;
  const int kept = p.kept(r);
  const Row<In, kKeptPacks> row(scores + start, kept, p.wide);
  float most = -INFINITY;
  for_each_pack<kKeptPacks>(kept, [&](int k, int column) {
    const Eight x = row.at(k, column);
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
      if (column + i < kept) most = fmaxf(most, p.scale * x.v[i]);
    }
  });
  most = block_reduce(most, shared, Maximum{});
  float sum = 0;
  for_each_pack<kKeptPacks>(kept, [&](int k, int column) {
    const Eight x = row.at(k, column);
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
      if (column + i < kept) sum += expf(p.scale * x.v[i] - most);
    }
  });
  sum = block_reduce(sum, shared, Sum{});
  if (lse && threadIdx.x == 0) lse[r] = most + logf(sum);
  const float inverse = 1.0f / sum;
  for_each_pack<kKeptPacks>(p.cols, [&](int k, int column) {
    Eight out{};
    if (column < kept) {
      const Eight x = row.at(k, column), factors = p.factors(r, column);
#pragma unroll
      for (int i = 0; i < kPack; ++i) {
        if (column + i < kept) out.v[i] = dropped(expf(p.scale * x.v[i] - most) * inverse, factors.v[i]);
      }
    }
    store8(probabilities + start + column, out, p.cols - column, p.wide);
  });
}

/// dS = P (dP - rowsum(P dP))
template <class T, int kKeptPacks>
__global__ void softmax_gradient_rows(ScoreRows p, const T* dp, const T* probabilities, T* ds) {
  __shared__ float shared[1][kMaxWarps];
  const std::int64_t r = blockIdx.x, start = r * p.cols;
  const int kept = p.kept(r);
  const Row<T, kKeptPacks> gradient(dp + start, kept, p.wide), probability(probabilities + start, kept, p.wide);
  float dot = 0;
  for_each_pack<kKeptPacks>(kept, [&](int k, int column) {
    const Eight g = gradient.at(k, column), x = probability.at(k, column);
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
      if (column + i < kept) dot += x.v[i] * g.v[i];  // beyond the mask a gradient may be anything
    }
  });
  dot = block_reduce(dot, shared, Sum{});
  for_each_pack<kKeptPacks>(p.cols, [&](int k, int column) {
    Eight out{};
    if (column < kept) {
      const Eight g = gradient.at(k, column), x = probability.at(k, column);
#pragma unroll
      for (int i = 0; i < kPack; ++i) {
        if (column + i < kept) out.v[i] = x.v[i] * (g.v[i] - dot);
      }
    }
    store8(ds + start + column, out, p.cols - column, p.wide);
  });
}

template <class In, class Out, int kKeptPacks>
__global__ void attention_gradient_rows(ScoreRows p, const In* scores, const float* lse, const In* dp,
                                        Out* probabilities, Out* ds) {
  __shared__ float shared[1][kMaxWarps];
  const std::int64_t r = blockIdx.x, start = r * p.cols;
  const int kept = p.kept(r);
  const float row_lse = lse[r];
  const Row<In, kKeptPacks> score(scores + start, kept, p.wide), gradient(dp + start, kept, p.wide);
  Eight drawn[kKeptPacks > 0 ? kKeptPacks : 1];  // the mask, once a pack where it can be kept
  float dot = 0;
  for_each_pack<kKeptPacks>(kept, [&](int k, int column) {
    const Eight x = score.at(k, column), g = gradient.at(k, column);
    drawn[k] = p.factors(r, column);
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
      if (column + i < kept) dot += expf(p.scale * x.v[i] - row_lse) * dropped(g.v[i], drawn[k].v[i]);
    }
  });
  dot = block_reduce(dot, shared, Sum{});
  for_each_pack<kKeptPacks>(p.cols, [&](int k, int column) {
    Eight out{}, whole{};
    if (column < kept) {
      const Eight x = score.at(k, column), g = gradient.at(k, column);
      if constexpr (kKeptPacks == 0) drawn[k] = p.factors(r, column);
#pragma unroll
      for (int i = 0; i < kPack; ++i) {
        if (column + i < kept) {
          const float probability = expf(p.scale * x.v[i] - row_lse);
          out.v[i] = probability * (dropped(g.v[i], drawn[k].v[i]) - dot);
          whole.v[i] = dropped(probability, drawn[k].v[i]);
        }
      }
    }
    store8(probabilities + start + column, whole, p.cols - column, p.wide);
    store8(ds + start + column, out, p.cols - column, p.wide);
  });
}

/// The op's rows, or those of attention, without the mask.
ScoreRows rows_of(std::int64_t rows, std::int64_t cols, bool causal, std::initializer_list<const void*> addresses) {
  return {.rows = rows,
          .cols = narrow<int>(cols),
          .queries = narrow<int>(cols),
          .first_query = 0,
          .heads = 1,
          .first_head = 0,
          .scale = 1,
          .causal = causal,
          .wide = wide_access(rows, cols, addresses),
          .mask = {}};
}

ScoreRows rows_of(const AttentionSoftmax& what, std::initializer_list<const void*> addresses) {
  const std::int64_t queries = what.queries == 0 ? what.s : what.queries;
  CHECK(what.first_query >= 0 && what.first_query + queries <= what.s)
      << "queries " << what.first_query << " .. " << what.first_query + queries - 1 << " of " << what.s;
  ScoreRows rows = rows_of(what.b * what.a * queries, what.s, what.causal, addresses);
  rows.queries = narrow<int>(queries);
  rows.first_query = narrow<int>(what.first_query);
  rows.heads = narrow<int>(what.a);
  rows.first_head = what.first_head;
  rows.scale = what.scale;
  if (what.dropout != 0) rows.mask = KeepMask(what.samples, what.b, what.layer, kAttentionDropout, what.dropout);
  return rows;
}

/// A row a block, kept in registers where it fits.
template <class... P>
void launch_rows(const ScoreRows& rows, int kept, void (*in_registers)(ScoreRows, P...),
                 void (*streamed)(ScoreRows, P...), cudaStream_t stream, P... parameters) {
  if (rows.rows == 0 || rows.cols == 0) return;
  const bool fits = row_fits(rows.cols, kept);
  launch(fits ? in_registers : streamed, narrow<unsigned>(rows.rows), row_threads(rows.cols, fits ? kept : 0), stream,
         rows, parameters...);
}

template <class Body>
void with_attention_types(const AttentionSoftmax& what, Body body) {
  CHECK(what.in == what.out || (what.in == DType::fp32 && what.out == DType::bf16))
      << "attention softmax from " << name_of(what.in) << " to " << name_of(what.out);
  with_type(what.in, [&](auto in) {
    if (what.in == what.out) return body(in, in);
    body(float{}, __nv_bfloat16{});
  });
}

}  // namespace

void softmax(const KernelCall& call) {
  call.expect_operands(2);
  with_one_type(call, [&](auto type) {
    using T = decltype(type);
    const std::int64_t rows = call.dim(0), cols = call.dim(1);
    const T* scores = call.operand<const T>(0, rows * cols);
    T* probabilities = call.operand<T>(1, rows * cols);
    launch_rows<const T*, T*, float*>(rows_of(rows, cols, call.shape.causal, {scores, probabilities}), kKept,
                                      softmax_rows<T, T, kKept>, softmax_rows<T, T, 0>, call.stream, scores,
                                      probabilities, nullptr);
  });
}

void softmax_backward(const KernelCall& call) {
  call.expect_operands(3);
  with_one_type(call, [&](auto type) {
    using T = decltype(type);
    const std::int64_t rows = call.dim(0), cols = call.dim(1);
    const T* dp = call.operand<const T>(0, rows * cols);
    const T* probabilities = call.operand<const T>(1, rows * cols);
    T* ds = call.operand<T>(2, rows * cols);
    launch_rows<const T*, const T*, T*>(rows_of(rows, cols, call.shape.causal, {dp, probabilities, ds}), kKept,
                                        softmax_gradient_rows<T, kKept>, softmax_gradient_rows<T, 0>, call.stream, dp,
                                        probabilities, ds);
  });
}

void attention_softmax(const AttentionSoftmax& what, const void* scores, void* dropped, float* lse,
                       cudaStream_t stream) {
  with_attention_types(what, [&](auto in, auto out) {
    using In = decltype(in);
    using Out = decltype(out);
    launch_rows<const In*, Out*, float*>(rows_of(what, {scores, dropped}), kKept, softmax_rows<In, Out, kKept>,
                                         softmax_rows<In, Out, 0>, stream, static_cast<const In*>(scores),
                                         static_cast<Out*>(dropped), lse);
  });
}

void attention_softmax_backward(const AttentionSoftmax& what, const void* scores, const float* lse,
                                const void* dprobabilities, void* dropped, void* dscores, cudaStream_t stream) {
  with_attention_types(what, [&](auto in, auto out) {
    using In = decltype(in);
    using Out = decltype(out);
    launch_rows<const In*, const float*, const In*, Out*, Out*>(
        rows_of(what, {scores, dprobabilities, dropped, dscores}), kKeptBackward,
        attention_gradient_rows<In, Out, kKeptBackward>, attention_gradient_rows<In, Out, 0>, stream,
        static_cast<const In*>(scores), lse, static_cast<const In*>(dprobabilities), static_cast<Out*>(dropped),
        static_cast<Out*>(dscores));
  });
}

}  // namespace benchsuite::cuda
