// Entering and leaving a tensor-parallel region (Korthikanti et al. 2022, section 4.2.2; the operators g and g-bar), and the
// overlapped forms used in the backward pass of a column-parallel linear.
//
//            tensor parallel only     with sequence parallelism
//   enter    identity                 all-gather along s
//   leave    all-reduce               reduce-scatter along s
#pragma once

#include "engine/parallel/context.h"

namespace benchsuite {

/// x [s/t | s, b, h] -> [s, b, h]. Without sequence parallelism the result is x itself; `owned(result, x)` tells.
Tensor enter_region(ParallelContext& context, const Tensor& x, std::uint32_t term);

/// x [s, b, h] partial sums -> [s/t | s, b, h] sums. Releases x when the result is another buffer.
Tensor leave_region(ParallelContext& context, const Tensor& x, std::uint32_t term);

/// As a column-parallel linear takes it: x itself, or where the stack keeps inputs whole, x gathered; x is released then.
Tensor linear_input(ParallelContext& context, const Tensor& x, std::uint32_t term);

/// Releases `entered` unless it is the same buffer as `x`.
void release_entered(ParallelContext& context, const Tensor& entered, const Tensor& x);

/// Makes compute wait for the tensor stream when the stack does not overlap the backward pass.
void settle_backward(ParallelContext& context);

/// This rank's 1/t of the elements of x, which all tensor ranks hold whole: a view.
Tensor piece_of(const ParallelContext& context, const Tensor& x);

/// The tensor of which every tensor rank holds a piece_of(), gathered; `shape` is the whole one. Releases `piece`.
Tensor gather_pieces(ParallelContext& context, const Tensor& piece, const std::array<std::int64_t, 4>& shape,
                     std::uint32_t term);

/// x goes to `to` of the tensor rank `distance` places on, round the group.
void shift_tensor(ParallelContext& context, const Tensor& x, const Tensor& to, std::int64_t distance);

/// All-reduce of a small tensor over the tensor-parallel group, in place; nothing when t = 1.
void all_reduce_tensor(ParallelContext& context, const Tensor& x, Reduction reduction);

}  // namespace benchsuite
