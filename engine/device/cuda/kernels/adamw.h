// AdamW (Loshchilov and Hutter 2019, algorithm 2) over several tensors in one launch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>

#include "engine/core/dtype.h"

namespace benchsuite::cuda {

/// One tensor's state, all of `count` elements in device memory.
struct AdamwTensor {
  const void* gradient = nullptr;
  float* master = nullptr;
  float* first_moment = nullptr;
  float* second_moment = nullptr;
  void* parameter = nullptr;  ///< written from the master; null where the master is the parameter
  std::int64_t count = 0;
};

struct AdamwScalars {
  const float* step = nullptr;  ///< device fp32 [5]: lr, beta1, beta2, eps, step counted from 1
  const float* clip = nullptr;  ///< device fp32 [2]: norm, coefficient the gradient is scaled by
  float weight_decay = 0;       ///< decoupled, scaled by lr
};

/// Updates all tensors; 24 of them go into one launch. Gradients and parameters are fp32 or bf16, alike in all tensors.
void adamw(std::span<const AdamwTensor> tensors, DType gradient, DType parameter, const AdamwScalars& scalars,
           cudaStream_t stream);

}  // namespace benchsuite::cuda
