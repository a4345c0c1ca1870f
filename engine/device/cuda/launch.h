// Launching a kernel without the <<<>>> of nvcc, so that the same source compiles with every C++ compiler.
//
//   launch(softmax_rows<float>, dim3(rows), dim3(256), stream, x, y, cols);
#pragma once

#include <cuda_runtime.h>

#include "engine/device/cuda/cuda_check.h"

namespace benchsuite::cuda {

/// Arguments convert to the kernel's parameters as in a call. Errors of the launch itself are thrown here, those of the kernel
/// by a later call that waits for it.
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, cudaStream_t stream, Arguments&&... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.stream = stream;
  CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...));
}

}  // namespace benchsuite::cuda
