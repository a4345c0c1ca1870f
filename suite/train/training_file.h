// A training configuration on disk, its model and stack found by name in the data root.
#pragma once

#include <string>
#include <vector>

#include "engine/train/train_config.h"
#include "suite/cases/data_root.h"

namespace benchsuite {

/// Reads and judges `json` of `file`. On any violation the plan must not be run.
TrainingPlan read_training_file(const Json& json, const std::string& file, const DataRoot& root, std::vector<Violation>& problems);

/// The training configurations of a data root: ROOT/cases/train/*.json, sorted.
std::vector<std::string> training_files(const DataRoot& root);

/// The plan of a file; throws Error (config) with everything that is wrong with it.
TrainingPlan load_training_file(const std::string& file);

}  // namespace benchsuite
