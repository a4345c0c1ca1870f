// Memory of emulated devices: every allocation lies between two red zones, and is filled with the pattern of the settings.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>

#include "machine.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace cuda_emulator {

namespace {

constexpr std::size_t kAlignment = 512, kRedZone = 4096;

struct Allocation {
  std::size_t bytes;
  int device;  // -1: pinned host memory
  void* memory;
};

struct Memory {
  std::mutex mutex;
  std::map<const char*, Allocation> allocations;
};

Memory& memory() {
  static Memory all;
  return all;
}

thread_local int device_of_thread = 0;

void guard(const void* pointer, std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  ASAN_POISON_MEMORY_REGION(pointer, bytes);
#else
  (void)pointer, (void)bytes;
#endif
}

void unguard(const void* pointer, std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  ASAN_UNPOISON_MEMORY_REGION(pointer, bytes);
#else
  (void)pointer, (void)bytes;
#endif
}

void* allocate(int device, std::size_t bytes) {
  const std::size_t inside = (bytes + kAlignment - 1) / kAlignment * kAlignment, whole = inside + 2 * kRedZone;
  void* block = std::aligned_alloc(kAlignment, whole);
  if (!block) return nullptr;
  char* inner = static_cast<char*>(block) + kRedZone;
  std::memset(inner, static_cast<int>(Machine::get().settings.fill), bytes);
  guard(block, kRedZone);
  guard(inner + bytes, inside - bytes + kRedZone);
  const std::lock_guard lock(memory().mutex);
  memory().allocations[inner] = {bytes, device, block};
  return inner;
}

bool release(void* pointer, bool pinned) {
  const std::lock_guard lock(memory().mutex);
  const auto found = memory().allocations.find(static_cast<const char*>(pointer));
  if (found == memory().allocations.end() || (found->second.device < 0) != pinned) return false;
  const std::size_t inside = (found->second.bytes + kAlignment - 1) / kAlignment * kAlignment;
  unguard(found->second.memory, inside + 2 * kRedZone);
  std::free(found->second.memory);
  memory().allocations.erase(found);
  return true;
}

bool lies_in(const void* pointer, std::size_t bytes, bool pinned) {
  const std::lock_guard lock(memory().mutex);
  const auto* first = static_cast<const char*>(pointer);
  auto after = memory().allocations.upper_bound(first);
  if (after == memory().allocations.begin()) return false;
  const auto& [start, allocation] = *--after;
  const auto offset = static_cast<std::size_t>(first - start);
  return (allocation.device < 0) == pinned && offset <= allocation.bytes && bytes <= allocation.bytes - offset;
}

}  // namespace

int current_device() { return device_of_thread; }
void* allocate_device(int device, std::size_t bytes) { return allocate(device, bytes); }
bool free_device(void* pointer) { return release(pointer, false); }
int device_of(const void* pointer) {
  const std::lock_guard lock(memory().mutex);
  const auto found = memory().allocations.find(static_cast<const char*>(pointer));
  return found == memory().allocations.end() ? -1 : found->second.device;
}
bool on_device(const void* pointer, std::size_t bytes) { return lies_in(pointer, bytes, false); }
bool is_pinned(const void* pointer, std::size_t bytes) { return lies_in(pointer, bytes, true); }

std::size_t device_bytes(int device) {
  const std::lock_guard lock(memory().mutex);
  std::size_t sum = 0;
  for (const auto& [start, allocation] : memory().allocations) {
    if (allocation.device == device || (device < 0 && allocation.device >= 0)) sum += allocation.bytes;
  }
  return sum;
}

std::size_t allocated_bytes() { return device_bytes(-1); }

}  // namespace cuda_emulator

using cuda_emulator::Machine;

cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= Machine::get().settings.devices) return cudaErrorInvalidDevice;
  cuda_emulator::device_of_thread = device;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  *device = cuda_emulator::device_of_thread;
  return cudaSuccess;
}

cudaError_t cudaMallocHost(void** pointer, std::size_t bytes) {
  if (const cudaError_t error = Machine::get().injected("cudaMallocHost")) return error;
  *pointer = cuda_emulator::allocate(-1, bytes);
  return *pointer ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaHostAlloc(void** pointer, std::size_t bytes, unsigned) { return cudaMallocHost(pointer, bytes); }

cudaError_t cudaFreeHost(void* pointer) {
  if (!pointer) return cudaSuccess;
  return cuda_emulator::release(pointer, true) ? cudaSuccess : cudaErrorInvalidValue;
}
