#include "engine/device/op_table.h"

#include <algorithm>
#include <numeric>

#include "engine/core/error.h"
#include "engine/core/exact_sum.h"

namespace benchsuite {

namespace {

constexpr double kFp32 = 4;
constexpr double kInt32 = 4;
constexpr std::int64_t kWidestLoad = 16;

/// Elements of a dropout operand: [b, a, s, s] probabilities at the attention site, [s, b, cols] elsewhere.
double dropout_elements(const OpShape& shape) {
  const auto& d = shape.dims;
  const double elements = static_cast<double>(d[0]) * static_cast<double>(d[1]) * static_cast<double>(d[2]);
  return d[5] == kAttentionDropout ? elements * static_cast<double>(d[0]) : elements;
}

/// `samples` is int32 [b + 2].
double sample_bytes(std::int64_t batch) { return kInt32 * static_cast<double>(batch + 2); }

double attention_bytes(const OpShape& shape, double in, double out) {
  const double s = static_cast<double>(shape.dims[0]), b = static_cast<double>(shape.dims[1]);
  const double a = static_cast<double>(shape.dims[2]), d = static_cast<double>(shape.dims[3]);
  const double part = s * b * a * d;                               // q or ctx
  const double key = shape.dims[4] == 0 ? part : s * b * d * static_cast<double>(shape.dims[4]);  // k or v
  const double matrix = b * a * s * s;          // scores or probabilities
  const double statistics = kFp32 * b * a * s;  // log-sum-exp
  switch (shape.kind) {
    case OpKind::attention_scores:              // q, k
    case OpKind::attention_context_backward_p:  // dctx, v
      return (part + key) * in + matrix * out;
    case OpKind::attention_context:             // v, ctx
    case OpKind::attention_scores_backward_q:   // k, dq
      return matrix * in + key * in + part * out;
    case OpKind::attention_context_backward_v:  // dctx, dv
    case OpKind::attention_scores_backward_k:   // q, dk
      return matrix * in + part * in + key * out;
    case OpKind::flash_attention:
      return (part + 2 * key) * in + sample_bytes(shape.dims[1]) + part * out + statistics;
    case OpKind::flash_attention_backward:
      return (3 * part + 2 * key) * in + statistics + sample_bytes(shape.dims[1]) + (part + 2 * key) * out;
    case OpKind::rope:
    case OpKind::rope_backward:
      return (part + key) * (in + out);
    default:
      return 0;
  }
}

}  // namespace

MatrixProduct matrix_product_of(const OpShape& shape) {
  const std::int64_t s = shape.dims[0], d = shape.dims[3], batch = shape.dims[1] * shape.dims[2];
  switch (shape.kind) {
    case OpKind::gemm:
      // A plain product may leave the batch dimension out.
      return {shape.dims[0], shape.dims[1], shape.dims[2], std::max<std::int64_t>(1, shape.dims[3])};
    case OpKind::attention_scores:
    case OpKind::attention_context_backward_p:
      return {s, s, d, batch};
    case OpKind::attention_context:
    case OpKind::attention_context_backward_v:
    case OpKind::attention_scores_backward_q:
    case OpKind::attention_scores_backward_k:
      return {s, d, s, batch};
    default:
      return {};
  }
}

std::int64_t row_alignment_of(const OpShape& shape) {
  const MatrixProduct p = matrix_product_of(shape);
  if (p.batch == 0) return kWidestLoad;
  const std::int64_t in = size_of(shape.dtype), out = size_of(shape.out_dtype);
  const bool gemm = shape.kind == OpKind::gemm;
  const std::int64_t a = gemm ? (shape.transpose_a ? p.m : p.k) : shape.dims[3];
  const std::int64_t b = gemm ? (shape.transpose_b ? p.k : p.n) : shape.dims[0];
  return std::gcd(kWidestLoad, std::gcd(std::gcd(a * in, b * in), p.n * out));
}

double flops_of(const OpShape& shape) {
  if (shape.kind == OpKind::flash_attention || shape.kind == OpKind::flash_attention_backward) {
    const double s = static_cast<double>(shape.dims[0]), b = static_cast<double>(shape.dims[1]);
    const double a = static_cast<double>(shape.dims[2]), d = static_cast<double>(shape.dims[3]);
    // Two products forward; backward five, the scores among them again.
    return (shape.kind == OpKind::flash_attention ? 4 : 10) * b * a * s * s * d;
  }
  const MatrixProduct p = matrix_product_of(shape);
  return 2.0 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k) *
         static_cast<double>(p.batch);
}

double bytes_of(const OpShape& shape) {
  const auto& d = shape.dims;
  const double in = static_cast<double>(size_of(shape.dtype)), out = static_cast<double>(size_of(shape.out_dtype));
  const double d0 = static_cast<double>(d[0]), d1 = static_cast<double>(d[1]), d2 = static_cast<double>(d[2]);
  const double matrix = d0 * d1;  // rows x cols, or tokens x cols
  switch (shape.kind) {
    case OpKind::gemm: {
      const double batch = static_cast<double>(std::max<std::int64_t>(1, d[3]));
      const double written = d0 * d1 * out * (shape.accumulate ? 2 : 1);
      return batch * ((d0 * d2 + d2 * d1) * in + written);
    }
    case OpKind::attention_scores:
    case OpKind::attention_scores_backward_q:
    case OpKind::attention_scores_backward_k:
    case OpKind::attention_context:
    case OpKind::attention_context_backward_p:
    case OpKind::attention_context_backward_v:
    case OpKind::flash_attention:
    case OpKind::flash_attention_backward:
    case OpKind::rope:
    case OpKind::rope_backward:
      return attention_bytes(shape, in, out);
    case OpKind::embedding:  // dims tokens h rows first_row: at most one table row a token
      return kInt32 * d0 + std::min(d0, d2) * d1 * in + d0 * d1 * out;
    case OpKind::embedding_backward:
      return kInt32 * d0 + d0 * d1 * in + 2 * std::min(d0, d2) * d1 * out;
    case OpKind::position:  // dims s b h: x, table rows, y
      return d0 * d1 * d2 * (in + out) + d0 * d2 * in;
    case OpKind::position_backward:
      return d0 * d1 * d2 * in + 2 * d0 * d2 * out;
    case OpKind::layernorm:  // x, gamma, beta, y, stats
      return matrix * (in + out) + 2 * d1 * in + 2 * d0 * kFp32;
    case OpKind::layernorm_backward:  // dy, x, gamma, stats, dx, dgamma+ and dbeta+ in fp32
      return matrix * (2 * in + out) + d1 * in + 2 * d0 * kFp32 + 4 * d1 * kFp32;
    case OpKind::rmsnorm:  // x, gamma, y, stats
      return matrix * (in + out) + d1 * in + d0 * kFp32;
    case OpKind::rmsnorm_backward:  // dy, x, gamma, stats, dx, dgamma+ in fp32
      return matrix * (2 * in + out) + d1 * in + d0 * kFp32 + 2 * d1 * kFp32;
    case OpKind::swiglu:  // two columns in, one out
      return matrix * (2 * in + out);
    case OpKind::swiglu_backward:  // dy and both columns in, both out
      return matrix * (3 * in + 2 * out);
    case OpKind::softmax:
    case OpKind::gelu:
      return matrix * (in + out);
    case OpKind::softmax_backward:
    case OpKind::gelu_backward:
      return matrix * (2 * in + out);
    case OpKind::bias_add:
    case OpKind::bias_gelu:
      return matrix * (in + out) + d1 * in;
    case OpKind::bias_gelu_backward:
      return matrix * (2 * in + out) + d1 * in;
    case OpKind::dropout:
      return dropout_elements(shape) * (in + out + (shape.stores_mask ? 1 : 0)) + sample_bytes(d[1]);
    case OpKind::dropout_backward:
      return dropout_elements(shape) * (in + out + (shape.stores_mask ? 1 : 0)) +
             (shape.stores_mask ? 0 : sample_bytes(d[1]));
    case OpKind::bias_dropout_add:
      return dropout_elements(shape) * (2 * in + out + (shape.stores_mask ? 1 : 0)) + d2 * in + sample_bytes(d[1]);
    case OpKind::bias_gradient:
      return matrix * in + 2 * d1 * out;
    case OpKind::add:
      return d0 * (2 * in + out);
    case OpKind::accumulate:
      return d0 * (in + 2 * out);
    case OpKind::sum_pieces:
      return d0 * (d1 * in + out);
    case OpKind::cast:  // with a second, transposed copy, and a pass for the largest magnitude
      return d0 * ((1 + static_cast<double>(d[3])) * in + std::max(1.0, d2) * out);
    case OpKind::pack:
    case OpKind::unpack:
      return d0 * (in + out);
    case OpKind::fill:
      return d0 * out;
    case OpKind::ce_max:
      return matrix * in + d0 * kFp32;
    case OpKind::ce_sum:  // logits+, rowmax, labels, predicted, sumexp
      return 2 * matrix * in + d0 * (3 * kFp32 + kInt32);
    case OpKind::ce_loss:  // logits+, predicted, sumexp, loss+
      return 2 * matrix * in + d0 * 2 * kFp32 + 2 * kFp32;
    case OpKind::ce_backward:
      return 2 * matrix * in + d0 * kInt32;
    case OpKind::sum_squares:
      return d0 * in + 2 * kExactSumDigits * kFp32;
    case OpKind::clip_coefficient:
      return (kExactSumDigits + 2) * kFp32;
    case OpKind::adamw: {  // grad, master+, m+, v+, param*; five scalars and the clip pair
      const bool separate = shape.out_dtype != DType::fp32;
      return d0 * (in + 6 * kFp32 + (separate ? out : 0)) + 7 * kFp32;
    }
    case OpKind::all_gather:
    case OpKind::reduce_scatter:
    case OpKind::all_reduce:
    case OpKind::shift:
    case OpKind::send:
    case OpKind::receive:
      return 0;
  }
  CHECK(false) << "op kind " << static_cast<int>(shape.kind);
  return 0;
}

}  // namespace benchsuite
