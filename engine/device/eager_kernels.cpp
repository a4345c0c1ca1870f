#include "engine/device/eager_kernels.h"

#include "engine/device/op_table.h"

namespace benchsuite {

namespace {

constexpr double kFp32 = 4, kInt64 = 8;
/// Index and mask arithmetic on vectors of tokens in Megatron-LM's cross_entropy.py: they move nothing, but each is launched.
constexpr int kSmallCrossEntropyKernels = 10;

double product_of(const OpShape& shape, int dims) {
  double product = 1;
  for (int i = 0; i < dims; ++i) product *= static_cast<double>(shape.dims[static_cast<std::size_t>(i)]);
  return product;
}

/// Elements of q, or of the context: s b a d.
double heads(const OpShape& shape) { return product_of(shape, 4); }

/// Of k, or of v: s b u d.
double key_heads(const OpShape& shape) {
  const auto& d = shape.dims;
  return d[4] == 0 ? heads(shape) : heads(shape) / static_cast<double>(d[2]) * static_cast<double>(d[4]);
}

}  // namespace

EagerKernels eager_kernels(const OpShape& shape) {
  if (!shape.eager) return {1, bytes_of(shape)};
  const double x = static_cast<double>(size_of(shape.dtype)), y = static_cast<double>(size_of(shape.out_dtype));
  const double matrix = product_of(shape, 2);
  switch (shape.kind) {
    // Megatron-LM, model/transformer.py: the context is permuted into a copy, so is its gradient; autograd multiplies the
    // gradients of q and k by the scale, and puts those of q, k and v side by side.
    case OpKind::attention_scores: {  // bigscience-workshop/Megatron-DeepSpeed, there: baddbmm onto ALiBi's biases, copied for all rows
      if (!shape.accumulate) return {1, bytes_of(shape)};
      const double copied = product_of(shape, 3) * static_cast<double>(shape.dims[0]) * y;
      return {2, bytes_of(shape) + copied, copied};
    }
    case OpKind::attention_context:
    case OpKind::attention_context_backward_p:
    case OpKind::attention_scores_backward_q:
      return {2, bytes_of(shape) + heads(shape) * (x + y)};
    case OpKind::attention_scores_backward_k:
      return {3, bytes_of(shape) + (heads(shape) + 3 * key_heads(shape)) * (x + y)};
    // scaling, core/nn/attention/attention.py: q, k and v are copied sequence by sequence, the context back; their gradients too.
    case OpKind::flash_attention:
    case OpKind::flash_attention_backward:
      return {5, bytes_of(shape) + 2 * (heads(shape) + key_heads(shape)) * (x + y)};
    // scaling (Aleph Alpha), core/nn/norm/rms_norm.py, of the commit that offers FlashAttention's kernel (78489292):
    // (x.float() * rsqrt(mean(x.float()^2) + eps)).type_as(x) * gamma
    case OpKind::rmsnorm:  // fp32 inputs need no casts, which are counted all the same: no published run has them
      // float; pow; mean; add and rsqrt of rows; times x; type_as; times gamma
      return {8, matrix * ((x + kFp32) + 2 * kFp32 + kFp32 + 2 * kFp32 + (kFp32 + x) + (x + y)), matrix * (x + y)};
    case OpKind::rmsnorm_backward:
      // gamma: product, its sum by columns; times gamma; type_as; x * rsqrt: both factors, one summed by rows; of rsqrt by rows:
      // pow, two products; mean spread over columns; of pow: x itself, doubled, times the gradient; both parts added; float
      return {16, matrix * (3 * x + x + 2 * x + (x + kFp32) + (2 + 3 + 1) * kFp32 + kFp32 + (2 + 2 + 3) * kFp32 + 3 * kFp32 +
                            (kFp32 + y)),
              matrix * 2 * x};
    // scaling, core/nn/masked_softmax/masked_softmax.py: a copy of the view, masked_fill_ with a mask for all heads, softmax
    // Megatron-LM, model/fused_softmax.py, forward_torch_softmax with apply_query_key_layer_scaling, its default: float, times the
    // layer's number, masked_fill_, softmax, half
    case OpKind::softmax:
      if (shape.dims[2] == 1) {
        return {5, matrix * ((x + kFp32) + 2 * kFp32 + 2 * kFp32 + 2 * kFp32 + (kFp32 + y)), 0, matrix * 2 * kFp32};
      }
      return {3, matrix * (2 * x + 2 * x + (x + y)), matrix * 2 * x, matrix * (x + y)};
    case OpKind::softmax_backward:  // of softmax; masked_fill of a copy, that of the view's copy being none
      if (shape.dims[2] == 1) {  // to fp32; of softmax; masked_fill of a copy; times the number; back
        return {6, matrix * ((x + kFp32) + 3 * kFp32 + 4 * kFp32 + 2 * kFp32 + (kFp32 + y)), 0, matrix * 3 * kFp32};
      }
      return {3, matrix * (3 * x + 2 * x + (x + y)), matrix * (x + y), matrix * 3 * x};
    // scaling, core/nn/rotary.py: q cos + rotate_half(q) sin with rotate_half(q) = cat(-q2, q1); k likewise. q and k are parts of
    // the linear's output, cos and sin are those of each token, gathered for all heads, twice each.
    case OpKind::rope: {
      const double elements = bytes_of(shape) / (x + y), tokens = product_of(shape, 2) * static_cast<double>(shape.dims[3]);
      return {4 + 10, tokens * 4 * (kInt64 + 2 * x) + elements * (2 * x + x + 2 * x + 2 * x + (2 * x + y)),
              elements * (2 * x + x + 2 * x)};
    }
    case OpKind::rope_backward: {
      // times cos; times sin; of cat: minus; each half put into zeros; these added; all added
      const double elements = bytes_of(shape) / (x + y);
      return {18, elements * (2 * x + 2 * x + x + 2 * (x + x) + 3 * x + (2 * x + y)), elements * (2 * x + 2 * x + x)};
    }
    // scaling, core/nn/mlp.py: silu(x) * gate
    case OpKind::swiglu:
      return {2, matrix * (2 * x + (2 * x + y))};
    case OpKind::swiglu_backward:  // of the product: two; of silu
      return {3, matrix * (3 * x + (2 * x + y) + (2 * x + y))};
    // Megatron-LM, mpu/cross_entropy.py: minus the maximum, exp in place, sum
    case OpKind::ce_sum:
      return {3 + kSmallCrossEntropyKernels, matrix * (2 * kFp32 + 2 * kFp32 + kFp32)};
    // DeepSpeed, runtime/bf16_optimizer.py, update_hp_grads: hp_grad.add_(lp_grad.to(hp_grad.dtype))
    case OpKind::accumulate:
      return {2, static_cast<double>(shape.dims[0]) * ((x + y) + 3 * y)};
    // torch.nn.functional.embedding has a dense gradient: zeros, rows added by sorted ids, then added to the accumulated one
    case OpKind::embedding_backward: {
      const double table = static_cast<double>(shape.dims[1]) * static_cast<double>(shape.dims[2]);
      return {5, table * (x + x + 2 * y) + matrix * 2 * x};
    }
    default:
      return {1, bytes_of(shape)};
  }
}

int launches_of(const OpShape& shape) { return (shape.eager ? eager_kernels(shape).kernels : 1) + shape.extra_kernels; }

}  // namespace benchsuite
