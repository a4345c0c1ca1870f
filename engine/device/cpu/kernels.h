// The compute ops of engine/device/op_table.h in fp32 and bf16. Forward stands beside backward.
//
// bf16 is a storage type: operands are widened, all arithmetic is that of fp32, results are rounded once (kernel_call.h).
// Cross-entropy, statistics, log-sum-exp, moments and masters are fp32 in both.
// Every kernel is deterministic: a result is a function of the operands and never of threads or time. Sums over rows or
// columns run in double, products in fp32. An output may lie in the place of an input of the same size where the kernel
// is elementwise or row-wise (layernorm, softmax and their backward passes included).
#pragma once

#include "engine/device/cpu/kernel_call.h"

namespace benchsuite::cpu {

/// Runs any compute op. Throws on a communication op, on dtypes other than fp32 and bf16 and on operands of the wrong
/// size.
void run_kernel(const KernelCall& call);

// matmul.cpp
void gemm(const KernelCall& call);
// attention.cpp
void attention_scores(const KernelCall& call);
void attention_scores_backward_q(const KernelCall& call);
void attention_scores_backward_k(const KernelCall& call);
void attention_context(const KernelCall& call);
void attention_context_backward_p(const KernelCall& call);
void attention_context_backward_v(const KernelCall& call);
void rope(const KernelCall& call);
void rope_backward(const KernelCall& call);
// flash_attention.cpp
void flash_attention(const KernelCall& call);
void flash_attention_backward(const KernelCall& call);
// embedding.cpp
void embedding(const KernelCall& call);
void embedding_backward(const KernelCall& call);
void position(const KernelCall& call);
void position_backward(const KernelCall& call);
// norm.cpp
void layernorm(const KernelCall& call);
void layernorm_backward(const KernelCall& call);
void rmsnorm(const KernelCall& call);
void rmsnorm_backward(const KernelCall& call);
void softmax(const KernelCall& call);
void softmax_backward(const KernelCall& call);
// elementwise.cpp
void bias_add(const KernelCall& call);
void bias_gradient(const KernelCall& call);
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
void fill(const KernelCall& call);
void pack(const KernelCall& call);
void unpack(const KernelCall& call);
// dropout.cpp
void dropout(const KernelCall& call);
void dropout_backward(const KernelCall& call);
void bias_dropout_add(const KernelCall& call);
// loss.cpp
void ce_max(const KernelCall& call);
void ce_sum(const KernelCall& call);
void ce_loss(const KernelCall& call);
void ce_backward(const KernelCall& call);
// optimizer.cpp
void sum_squares(const KernelCall& call);
void clip_coefficient(const KernelCall& call);
void adamw(const KernelCall& call);

}  // namespace benchsuite::cpu
