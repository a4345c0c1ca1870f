// Launches any compute op of the vocabulary: products through cuBLASLt, attention in one op through cuDNN where it takes the shape,
// the rest through the kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "engine/device/cuda/fused_attention.h"
#include "engine/device/cuda/gemm.h"
#include "engine/device/cuda/kernels/kernel_call.h"

namespace benchsuite::cuda {

class Compute {
 public:
  /// `gemm_workspace`: bytes a product may use.
  Compute(GemmAlgorithms& algorithms, std::size_t gemm_workspace, Say say)
      : gemm_(algorithms), gemm_workspace_(gemm_workspace), fused_(std::move(say)) {}

  /// Bytes of workspace that an op of this shape takes; makes its plan, where it has one.
  std::uint64_t workspace(const OpShape& shape);

  /// Gets the op's products ready; afterwards the op's outputs and workspace hold anything.
  void prepare(const KernelCall& call);

  /// Launches the op on the call's stream; waits for nothing. The call's workspace has at least the bytes above.
  void run(const KernelCall& call);

 private:
  Gemm gemm_;
  std::size_t gemm_workspace_;
  FusedAttention fused_;
};

}  // namespace benchsuite::cuda
