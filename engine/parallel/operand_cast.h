// 8-bit operands of the layers' products, as Transformer Engine makes them (pytorch/module: base.py, grad_output_preprocess;
// linear.py; layernorm_linear.py). Activations and gradients are 16 bit between the linears; each product takes copies of its
// operands. What is gathered along the sequence and what is kept for the backward pass is the 8-bit copy.
//
// The product for the weight gradient sums over rows. Where the GPU's 8-bit products take operands with the summed
// dimension innermost only (Stack::transposes_fp8: Hopper), it takes transposed copies: of a tensor that is cast anyway
// they come from the same kernel, of an 8-bit one (gathered, or kept since the forward pass) from a kernel of their own.
//
// With delayed scaling a cast needs nothing but last steps' largest magnitudes, and norms write 8 bit themselves; with
// current scaling a pass over the tensor finds its largest magnitude before each cast.
//
// In every other precision all of this is the tensor itself. Timed only: no device computes in 8 bit.
#pragma once

#include "engine/parallel/context.h"

namespace benchsuite {

/// What products at the present site take: fp8 in the layers' attention and MLP under that precision (the head stays 16 bit), else
/// the type of activations.
DType operand_type(const ParallelContext& context);

/// What the norm before a column-parallel linear writes.
DType norm_output_type(const ParallelContext& context);

struct Operand8 {
  Tensor rows;        ///< as x lies
  Tensor transposed;  ///< the same buffer where no transpose is needed
};

/// x as a product's operand; x itself where it is of that type already. x stays with the caller.
Tensor cast_operand(ParallelContext& context, const Tensor& x, std::uint32_t term);

/// The same with the transposed copy. x stays with the caller.
Operand8 cast_both_ways(ParallelContext& context, const Tensor& x, std::uint32_t term);

/// The transposed copy of an 8-bit tensor; x itself in every other type. x stays with the caller.
Tensor transposed_operand(ParallelContext& context, const Tensor& x, std::uint32_t term);

/// Releases the copies that are not `x` itself.
void release_operand(ParallelContext& context, const Operand8& operand, const Tensor& x);

}  // namespace benchsuite
