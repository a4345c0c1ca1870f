// conform: every layout held against one rank, or, on device cuda, against itself on device cpu. Exit 0 all conform, 1 one does
// not, 4 the filter selects nothing, 5 the device is not there.
#pragma once

#include <CLI/CLI.hpp>

#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include "engine/train/cpu_training.h"

namespace benchsuite {

struct ConformRequest {
  std::string filter = "*", device = "cpu";
  int steps = 20, jobs = 0;
  std::string json;  ///< "-": standard output, human text then goes to standard error
  std::string html;
  std::vector<std::string> injections;
  bool quiet = false;
};
int verb_conform(const ConformRequest& request, const TrainingDevice& cuda, const std::atomic<int>& signal);

/// Adds the verb; `request` lives as long as the parser.
void define_conform(CLI::App& app, ConformRequest& request);

/// Runs the verb if it was called.
std::optional<int> dispatch_conform(const CLI::App& app, const ConformRequest& request, const TrainingDevice& cuda,
                                    const std::atomic<int>& signal);

}  // namespace benchsuite
