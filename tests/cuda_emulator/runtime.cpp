// The CUDA runtime's calls: devices, memory, kernels, errors.
#include <cstdio>
#include <cstring>

#include "kernel_run.h"
#include "machine.h"
#include "tasks.h"

namespace cuda_emulator {

namespace {

thread_local cudaError_t last_error = cudaSuccess;

}  // namespace

cudaError_t note(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

cudaError_t queue_work(cudaStream_t stream, std::function<void()> body) {
  Machine& machine = Machine::get();
  return machine.queue(machine.stream_or_default(stream, current_device()), std::make_unique<Work>(std::move(body)));
}

cudaError_t launch_kernel(const cudaLaunchConfig_t& config, const void*, KernelBody body) {
  Machine& machine = Machine::get();
  if (const cudaError_t error = machine.injected("cudaLaunchKernelEx")) return note(error);
  if (config.dynamicSmemBytes != 0 || config.numAttrs != 0) return note(cudaErrorInvalidValue);
  const dim3 grid = config.gridDim, block = config.blockDim;
  const unsigned threads = block.x * block.y * block.z;
  if (threads == 0 || threads > 1024 || grid.x == 0 || grid.x > 0x7FFFFFFFu || grid.y == 0 || grid.y > 65535 || grid.z == 0 ||
      grid.z > 65535) {
    return note(cudaErrorInvalidValue);
  }
  {
    const std::unique_lock lock(machine.mutex);
    ++machine.counts.launches;
  }
  return note(queue_work(config.stream, [grid, block, body = std::move(body)] {
    Machine& here = Machine::get();
    KernelOrder order{here.settings.order, here.settings.seed, here.settings.fill};
    {
      const std::unique_lock lock(here.mutex);
      order.seed = here.settings.seed * 1000003u + static_cast<std::uint64_t>(++here.counts.kernels);
    }
    if (here.kernel_fails()) {
      here.fail(cudaErrorIllegalAddress, "a kernel touches an illegal address");
      return;
    }
    const std::string why = run_kernel(grid, block, body, order);
    if (why.empty()) return;
    std::fprintf(stderr, "cuda emulator: %s\n", why.c_str());
    here.fail(cudaErrorLaunchFailure, why);
  }));
}

}  // namespace cuda_emulator

using namespace cuda_emulator;

namespace {

cudaError_t wait_for_all(int device) {
  Machine& machine = Machine::get();
  {
    const std::unique_lock lock(machine.mutex);
    ++machine.counts.waits;
    for (const auto& stream : machine.streams) {
      if (stream->device == device && stream->capture) return cudaErrorStreamCaptureUnsupported;
    }
  }
  return machine.drive_until([&] {
    for (const auto& stream : machine.streams) {
      if (stream->device == device && !stream->queue.empty()) return false;
    }
    return true;
  });
}

/// Device pointers must lie in device memory; a host pointer must not.
bool plausible(const void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  const bool to_device = on_device(to, bytes), from_device = on_device(from, bytes);
  switch (kind) {
    case cudaMemcpyHostToHost: return !to_device && !from_device;
    case cudaMemcpyHostToDevice: return to_device && !from_device;
    case cudaMemcpyDeviceToHost: return !to_device && from_device;
    case cudaMemcpyDeviceToDevice: return to_device && from_device;
    case cudaMemcpyDefault: return true;
  }
  return false;
}

}  // namespace

cudaError_t cudaGetDeviceCount(int* count) {
  Machine& machine = Machine::get();
  if (const cudaError_t error = machine.injected("cudaGetDeviceCount")) return note(error);
  *count = machine.settings.devices;
  return machine.settings.devices > 0 ? cudaSuccess : note(cudaErrorNoDevice);
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  const Settings& settings = Machine::get().settings;
  if (device < 0 || device >= settings.devices) return note(cudaErrorInvalidDevice);
  *properties = {};
  std::strcpy(properties->name, "Emulated GPU");
  properties->totalGlobalMem = settings.memory_bytes;
  properties->major = settings.compute_major;
  properties->minor = settings.compute_minor;
  properties->multiProcessorCount = 4;
  properties->l2CacheSize = 1 << 20;
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() { return note(wait_for_all(current_device())); }

cudaError_t cudaDriverGetVersion(int* version) {
  if (const cudaError_t error = Machine::get().injected("cudaDriverGetVersion")) return note(error);
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *total = Machine::get().settings.memory_bytes;
  *free = *total - device_bytes(current_device());
  return cudaSuccess;
}

cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
cudaError_t cudaPeekAtLastError() { return last_error; }

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "cudaSuccess";
    case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorInsufficientDriver: return "cudaErrorInsufficientDriver";
    case cudaErrorNoDevice: return "cudaErrorNoDevice";
    case cudaErrorInvalidDevice: return "cudaErrorInvalidDevice";
    case cudaErrorInvalidResourceHandle: return "cudaErrorInvalidResourceHandle";
    case cudaErrorNotReady: return "cudaErrorNotReady";
    case cudaErrorIllegalAddress: return "cudaErrorIllegalAddress";
    case cudaErrorLaunchOutOfResources: return "cudaErrorLaunchOutOfResources";
    case cudaErrorLaunchTimeout: return "cudaErrorLaunchTimeout";
    case cudaErrorLaunchFailure: return "cudaErrorLaunchFailure";
    case cudaErrorStreamCaptureUnsupported: return "cudaErrorStreamCaptureUnsupported";
    case cudaErrorStreamCaptureInvalidated: return "cudaErrorStreamCaptureInvalidated";
    case cudaErrorStreamCaptureUnjoined: return "cudaErrorStreamCaptureUnjoined";
    case cudaErrorStreamCaptureWrongThread: return "cudaErrorStreamCaptureWrongThread";
    case cudaErrorUnknown: return "cudaErrorUnknown";
  }
  return "unrecognized error code";
}

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "no error";
    case cudaErrorInvalidValue: return "invalid argument";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorInsufficientDriver: return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorNoDevice: return "no CUDA-capable device is detected";
    case cudaErrorIllegalAddress: return "an illegal memory access was encountered";
    default: return cudaGetErrorName(error);
  }
}

cudaError_t cudaMalloc(void** pointer, std::size_t bytes) {
  Machine& machine = Machine::get();
  if (const cudaError_t error = machine.injected("cudaMalloc")) return note(error);
  const int device = current_device();
  if (device >= machine.settings.devices) return note(cudaErrorNoDevice);
  if (device_bytes(device) + bytes > machine.settings.memory_bytes) return note(cudaErrorMemoryAllocation);
  {
    const std::unique_lock lock(machine.mutex);
    ++machine.counts.allocations;
  }
  *pointer = bytes == 0 ? nullptr : allocate_device(device, bytes);
  return cudaSuccess;
}

cudaError_t cudaFree(void* pointer) {
  if (!pointer) return cudaSuccess;
  wait_for_all(device_of(pointer));  // the real one waits, too
  return free_device(pointer) ? cudaSuccess : note(cudaErrorInvalidValue);
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  Machine& machine = Machine::get();
  if (const cudaError_t error = machine.injected("cudaMemcpyAsync")) return note(error);
  if (!plausible(to, from, bytes, kind)) return note(cudaErrorInvalidValue);
  if (kind == cudaMemcpyHostToDevice && !is_pinned(from, bytes)) {
    // Pageable memory is staged before the call returns.
    const auto* first = static_cast<const char*>(from);
    return note(queue_work(stream, [to, staged = std::vector<char>(first, first + bytes)] {
      std::memcpy(to, staged.data(), staged.size());
    }));
  }
  const cudaError_t queued = queue_work(stream, [=] { std::memmove(to, from, bytes); });
  if (queued != cudaSuccess || kind != cudaMemcpyDeviceToHost || is_pinned(to, bytes)) return note(queued);
  return cudaStreamSynchronize(stream);
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  if (const cudaError_t error = Machine::get().injected("cudaMemcpy")) return note(error);
  const cudaError_t queued = cudaMemcpyAsync(to, from, bytes, kind, nullptr);
  return queued != cudaSuccess ? queued : cudaStreamSynchronize(nullptr);
}

cudaError_t cudaMemsetAsync(void* pointer, int value, std::size_t bytes, cudaStream_t stream) {
  if (const cudaError_t error = Machine::get().injected("cudaMemsetAsync")) return note(error);
  if (!on_device(pointer, bytes)) return note(cudaErrorInvalidValue);
  return note(queue_work(stream, [=] { std::memset(pointer, value, bytes); }));
}

cudaError_t cudaMemset(void* pointer, int value, std::size_t bytes) {
  const cudaError_t queued = cudaMemsetAsync(pointer, value, bytes, nullptr);
  return queued != cudaSuccess ? queued : cudaStreamSynchronize(nullptr);
}
