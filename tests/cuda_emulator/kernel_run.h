// Runs one kernel: blocks one after another, the threads of a block as fibers that change at barriers and warp operations.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <string>

#include "emulator.h"

namespace cuda_emulator {

/// How blocks and threads are ordered, and what shared memory holds before each block.
struct KernelOrder {
  ThreadOrder order = ThreadOrder::forward;
  std::uint64_t seed = 1;
  Fill fill = Fill::not_a_number;
};

/// Empty, or why the kernel could not go on: a barrier that not all threads reach, a lane outside its mask. One at a time.
std::string run_kernel(dim3 grid, dim3 block, const KernelBody& body, const KernelOrder& order);

}  // namespace cuda_emulator
