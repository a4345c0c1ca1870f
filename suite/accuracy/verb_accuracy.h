// accuracy: predictions against published training-step measurements. Exit 0 when something was compared, 2 for a wrong
// command line or file, 4 when nothing is selected, 5 when no row of the selection could be mapped.
#pragma once

#include <CLI/CLI.hpp>

#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include "suite/accuracy/accuracy.h"

namespace benchsuite {

struct AccuracyRequest {
  AccuracyOptions options;
  int ensemble = 0;      ///< draws of constants and unstated settings; 0: constants alone, 32 draws
  std::string json;      ///< "-": standard output, text then goes to standard error
  std::string html;
  std::string markdown;
  bool rows = false, quiet = false;
  std::vector<std::string> argv;  ///< as given, without the program's name
};
int verb_accuracy(const AccuracyRequest& request, const std::atomic<int>& signal);

/// Adds the verb; `request` lives as long as the parser.
void define_accuracy(CLI::App& app, AccuracyRequest& request);

/// Runs the verb if it was called.
std::optional<int> dispatch_accuracy(const CLI::App& app, const AccuracyRequest& request, const std::atomic<int>& signal);

}  // namespace benchsuite
