#include "engine/device/cuda/kernels/dispatch.h"

#include "engine/device/cuda/kernels/kernels.h"

namespace benchsuite::cuda {
namespace {

using Kernel = void (*)(const KernelCall&);

/// Null where the op is not one of ours.
Kernel kernel_of(OpKind kind) {
  switch (kind) {
    case OpKind::embedding: return embedding;
    case OpKind::embedding_backward: return embedding_backward;
    case OpKind::position: return position;
    case OpKind::position_backward: return position_backward;
    case OpKind::layernorm: return layernorm;
    case OpKind::layernorm_backward: return layernorm_backward;
    case OpKind::rmsnorm: return rmsnorm;
    case OpKind::rmsnorm_backward: return rmsnorm_backward;
    case OpKind::softmax: return softmax;
    case OpKind::softmax_backward: return softmax_backward;
    case OpKind::bias_add: return bias_add;
    case OpKind::gelu: return gelu;
    case OpKind::gelu_backward: return gelu_backward;
    case OpKind::bias_gelu: return bias_gelu;
    case OpKind::bias_gelu_backward: return bias_gelu_backward;
    case OpKind::swiglu: return swiglu;
    case OpKind::swiglu_backward: return swiglu_backward;
    case OpKind::rope: return rope;
    case OpKind::rope_backward: return rope_backward;
    case OpKind::dropout: return dropout;
    case OpKind::dropout_backward: return dropout_backward;
    case OpKind::bias_dropout_add: return bias_dropout_add;
    case OpKind::bias_gradient: return bias_gradient;
    case OpKind::add: return add;
    case OpKind::accumulate: return accumulate;
    case OpKind::sum_pieces: return sum_pieces;
    case OpKind::cast: return cast;
    case OpKind::fill: return fill;
    case OpKind::pack: return pack;
    case OpKind::unpack: return unpack;
    case OpKind::ce_max: return ce_max;
    case OpKind::ce_sum: return ce_sum;
    case OpKind::ce_loss: return ce_loss;
    case OpKind::ce_backward: return ce_backward;
    case OpKind::sum_squares: return sum_squares;
    case OpKind::clip_coefficient: return clip_coefficient;
    case OpKind::adamw: return static_cast<Kernel>(adamw);
    case OpKind::gemm:
    case OpKind::attention_scores:
    case OpKind::attention_scores_backward_q:
    case OpKind::attention_scores_backward_k:
    case OpKind::attention_context:
    case OpKind::attention_context_backward_p:
    case OpKind::attention_context_backward_v:
    case OpKind::flash_attention:
    case OpKind::flash_attention_backward:
    case OpKind::all_gather:
    case OpKind::reduce_scatter:
    case OpKind::all_reduce:
    case OpKind::shift:
    case OpKind::send:
    case OpKind::receive: break;
  }
  return nullptr;
}

}  // namespace

bool has_kernel(OpKind kind) { return kernel_of(kind) != nullptr; }

std::uint64_t workspace_bytes(const OpShape& shape) {
  switch (shape.kind) {
    case OpKind::bias_gradient: return bias_gradient_workspace(shape);
    case OpKind::layernorm_backward:
    case OpKind::rmsnorm_backward: return norm_backward_workspace(shape);
    case OpKind::sum_squares: return sum_squares_workspace(shape);
    default: return 0;
  }
}

void run_kernel(const KernelCall& call) {
  const Kernel kernel = kernel_of(call.shape.kind);
  CHECK(kernel) << "device cuda has no kernel of its own for " << name_of(call.shape.kind);
  kernel(call);
}

}  // namespace benchsuite::cuda
