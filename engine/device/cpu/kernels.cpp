#include "engine/device/cpu/kernels.h"

namespace benchsuite::cpu {
namespace {

bool computable(DType type) { return type == DType::fp32 || type == DType::bf16; }

void dispatch(const KernelCall& call) {
  switch (call.shape.kind) {
    case OpKind::gemm: return gemm(call);
    case OpKind::attention_scores: return attention_scores(call);
    case OpKind::attention_scores_backward_q: return attention_scores_backward_q(call);
    case OpKind::attention_scores_backward_k: return attention_scores_backward_k(call);
    case OpKind::attention_context: return attention_context(call);
    case OpKind::attention_context_backward_p: return attention_context_backward_p(call);
    case OpKind::attention_context_backward_v: return attention_context_backward_v(call);
    case OpKind::flash_attention: return flash_attention(call);
    case OpKind::flash_attention_backward: return flash_attention_backward(call);
    case OpKind::embedding: return embedding(call);
    case OpKind::embedding_backward: return embedding_backward(call);
    case OpKind::position: return position(call);
    case OpKind::position_backward: return position_backward(call);
    case OpKind::layernorm: return layernorm(call);
    case OpKind::layernorm_backward: return layernorm_backward(call);
    case OpKind::rmsnorm: return rmsnorm(call);
    case OpKind::rmsnorm_backward: return rmsnorm_backward(call);
    case OpKind::softmax: return softmax(call);
    case OpKind::softmax_backward: return softmax_backward(call);
    case OpKind::bias_add: return bias_add(call);
    case OpKind::gelu: return gelu(call);
    case OpKind::gelu_backward: return gelu_backward(call);
    case OpKind::bias_gelu: return bias_gelu(call);
    case OpKind::bias_gelu_backward: return bias_gelu_backward(call);
    case OpKind::swiglu: return swiglu(call);
    case OpKind::swiglu_backward: return swiglu_backward(call);
    case OpKind::rope: return rope(call);
    case OpKind::rope_backward: return rope_backward(call);
    case OpKind::dropout: return dropout(call);
    case OpKind::dropout_backward: return dropout_backward(call);
    case OpKind::bias_dropout_add: return bias_dropout_add(call);
    case OpKind::bias_gradient: return bias_gradient(call);
    case OpKind::add: return add(call);
    case OpKind::accumulate: return accumulate(call);
    case OpKind::sum_pieces: return sum_pieces(call);
    case OpKind::cast: return cast(call);
    case OpKind::fill: return fill(call);
    case OpKind::pack: return pack(call);
    case OpKind::unpack: return unpack(call);
    case OpKind::ce_max: return ce_max(call);
    case OpKind::ce_sum: return ce_sum(call);
    case OpKind::ce_loss: return ce_loss(call);
    case OpKind::ce_backward: return ce_backward(call);
    case OpKind::sum_squares: return sum_squares(call);
    case OpKind::clip_coefficient: return clip_coefficient(call);
    case OpKind::adamw: return adamw(call);
    case OpKind::all_gather:
    case OpKind::reduce_scatter:
    case OpKind::all_reduce:
    case OpKind::shift:
    case OpKind::send:
    case OpKind::receive: break;
  }
  CHECK(false) << name_of(call.shape.kind) << " is not a compute op";
}

}  // namespace

void run_kernel(const KernelCall& call) {
  CHECK(computable(call.shape.dtype) && computable(call.shape.out_dtype))
      << "device cpu computes in fp32 and bf16, not from " << name_of(call.shape.dtype) << " to "
      << name_of(call.shape.out_dtype) << " (" << name_of(call.shape.kind) << ")";
  call.staging.clear();
  dispatch(call);
  call.staging.finish();
}

}  // namespace benchsuite::cpu
