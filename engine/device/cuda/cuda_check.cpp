#include "engine/device/cuda/cuda_check.h"

#include <fmt/format.h>

#include "engine/core/error.h"

namespace benchsuite::cuda {

namespace {

/// Errors that a kernel or copy launched earlier has left behind.
bool is_asynchronous(cudaError_t status) {
  return status == cudaErrorIllegalAddress || status == cudaErrorLaunchFailure || status == cudaErrorLaunchTimeout;
}

}  // namespace

void call_failed(const char* file, int line, const char* expression, const std::string& why) {
  throw Error(Error::Kind::run, fmt::format("{}:{}: {}: {}", file, line, expression, why));
}

void cuda_failed(const char* file, int line, const char* expression, cudaError_t status) {
  const char* const note = is_asynchronous(status) ? ", left behind by work launched before this call" : "";
  call_failed(file, line, expression, fmt::format("{} ({}){}", cudaGetErrorString(status), cudaGetErrorName(status), note));
}

}  // namespace benchsuite::cuda
