// Attention in one op through cuDNN's fused kernels, where they take it; cudnn/ where the library was found,
// without_cudnn/ where it was not.
//
// They take bf16 without dropout (our masks are functions of the global sample and head, which no kernel of the library
// draws). A shape's plan is made once, from the library's proposals for this GPU: those not marked as nondeterministic,
// and of graphs in which nothing is added up in an order of its own (see cudnn/attention_graph.h), so that recompute
// and resume give the same bits.
#pragma once

#include <cstdint>
#include <memory>

#include "engine/core/say.h"
#include "engine/device/cuda/kernels/kernel_call.h"

namespace benchsuite::cuda {

/// The fused attention of one rank. Its device must be current.
class FusedAttention {
 public:
  explicit FusedAttention(Say say);
  ~FusedAttention();
  FusedAttention(const FusedAttention&) = delete;
  FusedAttention& operator=(const FusedAttention&) = delete;

  /// Makes the shape's plan, unless it is known. Where there is none, says why.
  void plan(const OpShape& shape);
  /// Whether ops of this shape run here: it has a plan.
  bool takes(const OpShape& shape) const;

  /// Bytes of workspace of a shape that it takes.
  std::uint64_t workspace(const OpShape& shape) const;

  /// Launches an op of a shape that it takes on the call's stream; waits for nothing.
  void run(const KernelCall& call);

 private:
  struct Plans;
  std::unique_ptr<Plans> plans_;
};

}  // namespace benchsuite::cuda
