// train: a training run on device cpu, ranks as threads or, started by scripts/mpirun, as processes; or on device cuda, a GPU for
// each rank.
//
// Exit codes: 0 trained to the end; 5 the device is not there; 2 bad command line or configuration, or a folder of checkpoints that the run would not
// continue; 3 the run broke (dead or failing rank, damaged checkpoint, full disk, loss not finite); 130, 143 interrupted or
// terminated, after the step was finished and, with checkpoints on, a checkpoint written.
#pragma once

#include <CLI/CLI.hpp>

#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include "engine/train/cpu_training.h"

namespace benchsuite {

struct TrainRequest {
  std::string config, device = "cpu";
  std::vector<std::string> resume;  ///< at most one; empty although asked for: checkpoint.dir
  bool resumes = false, quiet = false;
};

void define_train(CLI::App& app, TrainRequest& request);

/// The exit code when the verb was given.
std::optional<int> dispatch_train(const CLI::App& app, TrainRequest& request, const TrainingDevice& cuda,
                                  const std::atomic<int>& signal);

int verb_train(const TrainRequest& request, const TrainingDevice& cuda, const std::atomic<int>& signal);

}  // namespace benchsuite
