// Column- and row-parallel linears (Shoeybi et al. 2019, section 3; Korthikanti et al. 2022, section 4.2).
//
// y = x W^T with W [out, in]. Column parallel: rows of W (outputs) are split over t, the input is whole. Row parallel: columns
// of W (inputs) are split, the output is a partial sum that leaves the region by a reduction. Biases are the caller's
// business, since stacks fuse them into what follows.
//
// Activations are 4-d views [1, s, b, width]. In 8 bit a column-parallel linear takes its input cast, as the norm before it gives
// it; every other operand is cast here (operand_cast.h).
//
// In tiles (Transformer Engine with userbuffers, megatron-core --tp-comm-overlap): under sequence parallelism the gather before a
// column-parallel product, the scatter after a row-parallel one and the gather before its input gradient are exchanged in
// t pieces beside the product's t tiles (tiles.h). The re-gather and the scatter of a column-parallel backward pass overlap
// whole, as without tiles ("bulk").
#pragma once

#include "engine/parallel/context.h"
#include "engine/parallel/parameter.h"

namespace benchsuite {

/// Whether the layers' products run in tiles. The head's never does: it is not Transformer Engine's.
bool runs_in_tiles(const ParallelContext& context);

struct LinearTerms {
  std::uint32_t gathered;  ///< input of a column-parallel linear, gathered; output gradient of a row-parallel one
  std::uint32_t output;
  std::uint32_t reduced;   ///< result of the reduction that leaves the region
  std::uint32_t operand;   ///< 8-bit copies
  std::uint32_t weight_gradient;  ///< of one micro-batch, where it is not added to the accumulator at once
};

class ColumnParallelLinear {
 public:
  /// `parts`: linears of their own that the weight's rows are, of one input; their gradients of it are computed, and
  /// without sequence parallelism reduced, one by one.
  ColumnParallelLinear(ParallelContext& context, Parameter& weight, LinearTerms terms, bool tiles, std::int64_t parts = 1)
      : context_(context), weight_(weight), terms_(terms), tiles_(tiles), parts_(parts) {}

  /// x [s/t | s, b, in] -> y [s, b, out/t]. x stays with the caller.
  Tensor forward(const Tensor& x);

  /// dy [s, b, out/t], the forward's x -> dx [s/t | s, b, in]; accumulates the weight gradient. Under sequence parallelism
  /// x is gathered again behind the dgrad product, and dx is reduced behind the wgrad product. Releases nothing of the caller's.
  Tensor backward(const Tensor& dy, const Tensor& x);

 private:
  Tensor whole_dgrad(const Tensor& dy);
  Tensor dgrad_of_parts(const Tensor& dy);

  ParallelContext& context_;
  Parameter& weight_;
  LinearTerms terms_;
  bool tiles_;
  std::int64_t parts_;
};

class RowParallelLinear {
 public:
  RowParallelLinear(ParallelContext& context, Parameter& weight, LinearTerms terms, bool tiles)
      : context_(context), weight_(weight), terms_(terms), tiles_(tiles) {}

  struct Forward {
    Tensor output;  ///< [s/t | s, b, out], reduced over t
    Tensor kept;    ///< what backward wants of x: x itself, or its 8-bit copy, which the caller then has to release
  };
  /// x [s, b, in/t] stays with the caller.
  Forward forward(const Tensor& x);

  /// dy [s/t | s, b, out], what the forward pass kept -> dx [s, b, in/t]; accumulates the weight gradient.
  Tensor backward(const Tensor& dy, const Tensor& kept);

 private:
  Tensor local_backward(const Tensor& dy, const Tensor& kept);
  Tensor gathered_backward(const Tensor& dy, const Tensor& kept);

  ParallelContext& context_;
  Parameter& weight_;
  LinearTerms terms_;
  bool tiles_;
};

}  // namespace benchsuite
