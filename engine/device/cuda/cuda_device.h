// Device cuda as the rest of the engine sees it: no header of CUDA, one implementation where the toolkit was found
// (cuda_device.cpp), one that says that it was not (unavailable/).
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "engine/device/rank_memory.h"
#include "engine/program/timeline.h"

namespace benchsuite::cuda {

/// One line that names what is missing for a world of `ranks` ranks on the GPUs of this machine; empty when nothing is.
std::string why_unavailable(int ranks);

struct Options {
  bool graph = true;   ///< from the second step on, a step is one CUDA graph
  bool spans = false;  ///< two events around every op, for timelines
  std::size_t gemm_workspace = std::size_t{32} << 20;  ///< bytes that a matrix product may use
  double patience_s = 600;  ///< that a rank may be in a step, or wait for its peers to connect, before all are stopped
};

/// Called on each rank's thread after each step, with the step's timeline (if spans are on).
using StepTimeline = std::function<void(int rank, int step, const Timeline&)>;

/// Runs `steps` steps of all Programs (programs[i]->rank must be i), each rank a thread of this process on the GPU of its number,
/// collectives through NCCL. When a rank fails, or is in a step for longer than the patience (its peers don't come, or its GPU
/// hangs), all stop, and the error of the first to fail is thrown; that a rank's own host work or kernel never returns nothing
/// but the end of the process helps against. Throws Error (unavailable) with why_unavailable's line when that is not empty.
void run_ranks(const std::vector<const Program*>& programs, const HostWorkOn<RankMemory>& host, int steps,
               const Options& options = {}, const StepTimeline& timeline = {});

}  // namespace benchsuite::cuda
