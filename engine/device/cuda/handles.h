// Owners of CUDA's objects: each creates one and destroys it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <utility>

#include "engine/device/cuda/cuda_check.h"

namespace benchsuite::cuda {

/// Owns what `Destroy` takes back; moves, but is not copied.
template <class Handle, cudaError_t (*Destroy)(Handle)>
class Owned {
 public:
  Owned() = default;
  explicit Owned(Handle handle) : handle_(handle) {}
  Owned(Owned&& other) noexcept : handle_(std::exchange(other.handle_, Handle{})) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Owned() {
    if (handle_) Destroy(handle_);
  }
  Handle get() const { return handle_; }
  explicit operator bool() const { return handle_ != Handle{}; }

 private:
  Handle handle_{};
};

using Stream = Owned<cudaStream_t, cudaStreamDestroy>;
using Event = Owned<cudaEvent_t, cudaEventDestroy>;
using Graph = Owned<cudaGraph_t, cudaGraphDestroy>;
using GraphExec = Owned<cudaGraphExec_t, cudaGraphExecDestroy>;
using DeviceMemory = Owned<void*, cudaFree>;
using PinnedMemory = Owned<void*, cudaFreeHost>;

/// Beside the other streams; `high_priority` where its work should not wait behind that of others.
inline Stream make_stream(bool high_priority) {
  int least = 0, greatest = 0;
  CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  cudaStream_t stream = nullptr;
  CUDA_CHECK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, high_priority ? greatest : least));
  return Stream(stream);
}

enum class Timing : bool { off, on };

inline Event make_event(Timing timing) {
  cudaEvent_t event = nullptr;
  CUDA_CHECK(cudaEventCreateWithFlags(&event, timing == Timing::on ? cudaEventDefault : cudaEventDisableTiming));
  return Event(event);
}

inline DeviceMemory make_device_memory(std::size_t bytes) {
  void* memory = nullptr;
  CUDA_CHECK(cudaMalloc(&memory, bytes));
  return DeviceMemory(memory);
}

inline PinnedMemory make_pinned_memory(std::size_t bytes) {
  void* memory = nullptr;
  CUDA_CHECK(cudaMallocHost(&memory, bytes));
  return PinnedMemory(memory);
}

}  // namespace benchsuite::cuda
