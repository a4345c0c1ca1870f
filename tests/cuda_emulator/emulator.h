// What tests set and ask of the emulated GPUs. Settings hold until `reset`; set them while no work is queued.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace cuda_emulator {

/// In which order the threads of a block run between two barriers, and the blocks of a grid.
enum class ThreadOrder { forward, reverse, shuffled };

/// What fresh device memory and shared memory hold.
enum class Fill : std::uint8_t {
  not_a_number = 0xFF,  ///< NaN in fp32 and bf16, -1 as an integer
  small = 0x3C,         ///< a finite number in fp32 and bf16
};

/// When queued work runs, beside the places where the host waits for it.
enum class Pace {
  late,   ///< only when the host waits
  early,  ///< as soon as it can
  mixed,  ///< sometimes
};

struct Settings {
  int devices = 1;
  std::uint64_t seed = 1;  ///< of the interleaving of streams, and of shuffled threads
  ThreadOrder order = ThreadOrder::forward;
  Fill fill = Fill::not_a_number;
  Pace pace = Pace::mixed;
  int compute_major = 9, compute_minor = 0;
  std::size_t memory_bytes = std::size_t{4} << 30;  ///< of each device
  std::size_t cudnn_version = 91900;
  double patience_s = 60;                           ///< how long a wait may see nothing move
};

/// Ends everything: drops queued work, errors and faults, and starts anew. Streams, events and memory must be gone.
void reset(const Settings& settings = {});
const Settings& settings();

/// Makes the `nth` next call of an API function (counted from 1) return `error`, e.g. ("cudaMalloc", 2).
void fail_call(const std::string& function, int nth, cudaError_t error);
/// The `nth` next kernel to run fails as if it had touched an illegal address.
void fail_kernel(int nth);
/// What went wrong in a kernel or on a stream, in words; empty when nothing did.
std::string failure();

/// How often the host waited (synchronisations, blocking copies), kernels and graphs were launched, kernels ran.
struct Counts {
  std::int64_t waits = 0, launches = 0, graph_launches = 0, kernels = 0, allocations = 0;
};
Counts counts();
/// Bytes of device memory that are allocated now, on all devices.
std::size_t allocated_bytes();

/// Called before and after each operation on a stream, with the payload of the NVTX range in which it was queued.
struct Operation {
  int device;
  std::uint64_t payload;
  std::string range;
};
using Observer = std::function<void(const Operation&, bool begins)>;
void observe(Observer observer);

}  // namespace cuda_emulator
