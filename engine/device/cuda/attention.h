// The matrix products of attention, read from and written into packed tensors by strides, and attention in one op.
//
// A product over the heads of a batch is one strided batched product for each of the a/u query heads that share a key-value
// head: the queries of one such head of all groups lie at a constant distance. K and V gradients of shared heads add up in the
// output, rounded to its type each time.
//
// flash_attention is, where no library kernel computes it, scores, the fused scale-mask-softmax-dropout of attention_softmax.h,
// and context, with the [b, a, s, s] matrices in the workspace; its backward pass makes the scores again.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/device/cuda/gemm.h"
#include "engine/device/cuda/kernels/attention_softmax.h"
#include "engine/device/cuda/kernels/kernel_call.h"

namespace benchsuite::cuda {

/// The products a matrix op amounts to, in order: gemm and the six attention products.
std::vector<GemmCall> products_of(const KernelCall& call);

/// Attention in one op as products around one fused kernel.
struct UnfusedAttention {
  std::vector<GemmCall> before;  ///< scores; backward also the gradient of the probabilities
  AttentionSoftmax softmax;
  const void* scores = nullptr;
  const void* dprobabilities = nullptr;  ///< backward
  void* dropped = nullptr;               ///< probabilities after dropout
  void* dscores = nullptr;               ///< backward
  float* lse = nullptr;
  std::vector<GemmCall> after;

  bool backward() const { return dscores != nullptr; }
};

/// Lays the matrices into the call's workspace, which holds at least flash_workspace bytes.
UnfusedAttention unfused(const KernelCall& call);
std::uint64_t flash_workspace(const OpShape& shape);

}  // namespace benchsuite::cuda
