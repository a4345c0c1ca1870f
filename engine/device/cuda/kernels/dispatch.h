// The hand-written kernels of device cuda: which ops they compute, and the one call that launches them.
//
// Everything of engine/device/op_table.h except matrix products, the attention products, fused attention and
// communication. An op is a few launches on the call's stream; nothing here synchronises, allocates or reads device
// memory, so a call may be captured into a graph. Every kernel is deterministic, bit for bit: a result is a function of
// the operands and of the shape, never of time, nor of the GPU's size. No kernel needs 16-byte aligned operands or
// columns that divide evenly, but those are fast.
//
// fp32 and bf16; arithmetic is that of fp32 in the formulas of device cpu, results are rounded once. Sums over rows or
// columns run in fp32 over a fixed tree; the gradient norm is the integer of engine/core/exact_sum.h and equals that of
// device cpu bit for bit. An output may lie in the place of an input of the same size where the op is elementwise or
// row-wise (norms, softmax and their backward passes included).
#pragma once

#include "engine/device/cuda/kernels/kernel_call.h"

namespace benchsuite::cuda {

/// Whether run_kernel computes ops of this kind.
bool has_kernel(OpKind kind);

/// Bytes of workspace that run_kernel needs for an op of this shape; 0 for most.
std::uint64_t workspace_bytes(const OpShape& shape);

/// Launches the op. Throws on a kind it has no kernel for, on dtypes other than fp32 and bf16 and on operands or
/// workspace of the wrong size. An op of no elements launches nothing.
void run_kernel(const KernelCall& call);

}  // namespace benchsuite::cuda
