// A failed call of CUDA or of its libraries becomes the project's Error (run), with file:line, the expression and what the
// library says. CUDA reports what went wrong in a kernel only at a later call: such errors say so.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

namespace benchsuite::cuda {

/// Throws. `why` is the library's own text.
[[noreturn]] void call_failed(const char* file, int line, const char* expression, const std::string& why);
[[noreturn]] void cuda_failed(const char* file, int line, const char* expression, cudaError_t status);

}  // namespace benchsuite::cuda

#define CUDA_CHECK(expression)                                                                                     \
  do {                                                                                                             \
    const cudaError_t cuda_status_ = (expression);                                                                 \
    if (cuda_status_ != cudaSuccess) ::benchsuite::cuda::cuda_failed(__FILE__, __LINE__, #expression, cuda_status_); \
  } while (0)

/// For libraries whose status is 0 when all is well; `text` turns a status into words.
#define CUDA_LIBRARY_CHECK(expression, text)                                                                      \
  do {                                                                                                            \
    const auto library_status_ = (expression);                                                                    \
    if (static_cast<int>(library_status_) != 0)                                                                   \
      ::benchsuite::cuda::call_failed(__FILE__, __LINE__, #expression, text(library_status_));                    \
  } while (0)

#define CUBLAS_CHECK(expression) CUDA_LIBRARY_CHECK(expression, cublasLtGetStatusString)
#define NCCL_CHECK(expression) CUDA_LIBRARY_CHECK(expression, ncclGetErrorString)
