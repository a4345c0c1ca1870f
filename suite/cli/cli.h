// The command line: flags to requests, errors to exit codes.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "engine/train/cpu_training.h"
#include "suite/measure/runner.h"

namespace benchsuite {

/// Parses `argv` (without the program's name) and carries the verb out. Returns the exit code; every failure has been
/// told on standard error. `simulate` is what device sim runs, `cuda` what device cuda does; `signal` is written by the signal
/// handler.
int run_cli(const std::vector<std::string>& argv, const SimulateFunction& simulate, const TrainingDevice& cuda,
            const std::atomic<int>& signal);

}  // namespace benchsuite
