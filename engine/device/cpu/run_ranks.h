// All ranks of a world as threads of this process.
#pragma once

#include <memory>
#include <vector>

#include "engine/device/cpu/cpu_rank.h"

namespace benchsuite {

using HostWork = HostWorkOn<CpuRank>;

/// Runs `steps` steps of all Programs (programs[i]->rank must be i) and returns the ranks, by rank, with their memory
/// and their last timelines. When a rank fails, all stop, and the error of the first to fail is thrown.
std::vector<std::unique_ptr<CpuRank>> run_ranks(const std::vector<const Program*>& programs, const HostWork& host,
                                                int steps, Poison poison = Poison::off);

}  // namespace benchsuite
