// One case from its configurations to its verdict.
#pragma once

#include <atomic>
#include <string>

#include "suite/measure/runner.h"
#include "suite/results/run_files.h"
#include "suite/run/parts.h"
#include "suite/run/screen.h"
#include "suite/run/selection.h"

namespace benchsuite {

/// The case without results.
CaseResult blank(const SelectedCase& selected);

/// Where results and signs of life go while a case runs.
struct RunPlaces {
  EventLog& events;
  Parts& parts;
  Screen& screen;
  std::string reproduce;  ///< the command that makes this case again
};

/// Runs the variants that `places.parts` does not have yet, explains and judges. Every variant and then the case are on
/// disk when it returns, unless they were stopped.
CaseResult run_case(const SelectedCase& selected, const RunOptions& options, const std::atomic<int>& signal,
                    const RunPlaces& places);

}  // namespace benchsuite
