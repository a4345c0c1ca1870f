// The ops of dispatch.h one by one, forward beside backward; engine/device/op_table.h says what each computes.
#pragma once

#include "engine/device/cuda/kernels/kernel_call.h"

namespace benchsuite::cuda {

// elementwise.cu
void bias_add(const KernelCall& call);
void gelu(const KernelCall& call);
void gelu_backward(const KernelCall& call);
void bias_gelu(const KernelCall& call);
void bias_gelu_backward(const KernelCall& call);
void swiglu(const KernelCall& call);
void swiglu_backward(const KernelCall& call);
void add(const KernelCall& call);
void accumulate(const KernelCall& call);
void sum_pieces(const KernelCall& call);
void cast(const KernelCall& call);
// copy.cu
void fill(const KernelCall& call);
void pack(const KernelCall& call);
void unpack(const KernelCall& call);
// column_sums.cu
void bias_gradient(const KernelCall& call);
// dropout.cu
void dropout(const KernelCall& call);
void dropout_backward(const KernelCall& call);
void bias_dropout_add(const KernelCall& call);
// norm.cu, norm_backward.cu
void layernorm(const KernelCall& call);
void layernorm_backward(const KernelCall& call);
void rmsnorm(const KernelCall& call);
void rmsnorm_backward(const KernelCall& call);
// softmax.cu
void softmax(const KernelCall& call);
void softmax_backward(const KernelCall& call);
// rope.cu
void rope(const KernelCall& call);
void rope_backward(const KernelCall& call);
// embedding.cu
void embedding(const KernelCall& call);
void embedding_backward(const KernelCall& call);
void position(const KernelCall& call);
void position_backward(const KernelCall& call);
// cross_entropy.cu
void ce_max(const KernelCall& call);
void ce_sum(const KernelCall& call);
void ce_loss(const KernelCall& call);
void ce_backward(const KernelCall& call);
// gradient_norm.cu
void sum_squares(const KernelCall& call);
void clip_coefficient(const KernelCall& call);
// adamw.cu
void adamw(const KernelCall& call);

// Workspace of the ops that have some, bytes.
std::uint64_t bias_gradient_workspace(const OpShape& shape);
std::uint64_t norm_backward_workspace(const OpShape& shape);
std::uint64_t sum_squares_workspace(const OpShape& shape);

}  // namespace benchsuite::cuda
