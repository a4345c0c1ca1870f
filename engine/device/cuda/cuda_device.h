// Device cuda as the rest of the engine sees it: no header of CUDA, one implementation where the toolkit was found
// (cuda_device.cpp), one that says that it was not (unavailable/).
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/core/say.h"
#include "engine/device/step_rank.h"
#include "engine/program/timeline.h"

namespace benchsuite::cuda {

/// One line that names what is missing for a world of `ranks` ranks on the GPUs of this machine; empty when nothing is.
std::string why_unavailable(int ranks);

struct Options {
  bool graph = true;   ///< from the second step on, a step is one CUDA graph
  bool spans = false;  ///< two events around every op, for timelines
  std::size_t gemm_workspace = std::size_t{32} << 20;  ///< bytes that a matrix product may use
  double patience_s = 600;  ///< that a rank may be in a step, or wait for its peers to connect, before all are stopped
  Say say;  ///< told what ranks do otherwise than they could, by each of them on its thread
};

/// The GPUs of this machine for a world of ranks that are threads of this process, a GPU each, with NCCL between them: the GPU of
/// its number for each rank. When a rank is in a step, or connecting, for longer than the patience (its peers don't come, or its
/// GPU hangs), all stop; that a rank's own host work or kernel never returns nothing but the end of the process helps against.
/// Throws Error (unavailable) with why_unavailable's line when that is not empty.
std::unique_ptr<StepDevice> open_device(int ranks, const Options& options = {});

/// Called on each rank's thread after each step, with the step's timeline (if spans are on).
using StepTimeline = std::function<void(int rank, int step, const Timeline&)>;

/// Runs `steps` steps of all Programs (programs[i]->rank must be i) on a device opened for them. When a rank fails, all stop, and
/// the error of the first to fail is thrown.
void run_ranks(const std::vector<const Program*>& programs, const HostWorkOn<RankMemory>& host, int steps,
               const Options& options = {}, const StepTimeline& timeline = {});

}  // namespace benchsuite::cuda
