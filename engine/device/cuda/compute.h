// Launches any compute op of the vocabulary: products through cuBLASLt, the rest through the kernels.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/device/cuda/gemm.h"
#include "engine/device/cuda/kernels/kernel_call.h"

namespace benchsuite::cuda {

class Compute {
 public:
  /// `gemm_workspace`: bytes a product may use.
  Compute(GemmAlgorithms& algorithms, std::size_t gemm_workspace) : gemm_(algorithms), gemm_workspace_(gemm_workspace) {}

  /// Bytes of workspace that an op of this shape takes.
  std::uint64_t workspace(const OpShape& shape) const;

  /// Gets the op's products ready; afterwards the op's outputs and workspace hold anything.
  void prepare(const KernelCall& call);

  /// Launches the op on the call's stream; waits for nothing. The call's workspace has at least the bytes above.
  void run(const KernelCall& call);

 private:
  Gemm gemm_;
  std::size_t gemm_workspace_;
};

}  // namespace benchsuite::cuda
