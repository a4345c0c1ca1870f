// All ranks of a world as threads of this process.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "engine/device/cpu/cpu_rank.h"

namespace benchsuite {

/// What the host does around steps. Each runs on the rank's own thread, at the same time as its peers'; any may be
/// empty. Steps count from 0.
struct HostWork {
  std::function<void(CpuRank&)> init;              ///< once, before the first step: parameters, moments
  std::function<void(CpuRank&, int)> before_step;  ///< inputs: tokens, labels, sample indices, step scalars
  std::function<void(CpuRank&, int)> after_step;   ///< reading results
};

/// Runs `steps` steps of all Programs (programs[i]->rank must be i) and returns the ranks, by rank, with their memory
/// and their last timelines. When a rank fails, all stop, and the error of the first to fail is thrown.
std::vector<std::unique_ptr<CpuRank>> run_ranks(const std::vector<const Program*>& programs, const HostWork& host,
                                                int steps, Poison poison = Poison::off);

}  // namespace benchsuite
