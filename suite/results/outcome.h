// From statuses to the exit code of a run.
//
//   0    every selected case passed, or skipped, warned or had no reference without being asked to fail for it
//   1    an expectation failed (or a warning and the like that --fail-on or --strict makes a failure)
//   2    bad command line, case, expectation or configuration
//   3    the run broke: an error, a missing metric, results that can't be written
//   4    nothing to judge: no case matched, or no reference with --require-reference
//   5    everything was skipped
//   124  a time limit ended a case
//   130, 143  interrupted (SIGINT), terminated (SIGTERM), after partial results were written
//
// Where several apply: 2 > 130, 143 > 124 > 3 > 1 > 4 > 5 > 0.
#pragma once

#include <string>
#include <vector>

#include "suite/results/run.h"

namespace benchsuite {

enum ExitCode : int {
  kExitPass = 0,
  kExitFail = 1,
  kExitUsage = 2,
  kExitError = 3,
  kExitNothing = 4,
  kExitSkipped = 5,
  kExitTimeout = 124,
  kExitInterrupted = 130,
  kExitTerminated = 143,
};

/// What counts as a failure.
struct FailurePolicy {
  bool regress = true, improve = false, warn = false, skip = false, noref = false;
  bool require_reference = false;  ///< no reference: exit 4

  /// From --fail-on words (regress, improve, warn, skip, noref, never) and --strict. Throws Error (config) on another
  /// word.
  static FailurePolicy from(const std::vector<std::string>& fail_on, bool strict, bool require_reference);
};

/// The one of two exit codes that goes first.
int worse_exit(int a, int b);

/// Exit code of a case on its own. `stop_signal` is SIGINT or SIGTERM for an aborted run, 0 otherwise.
int exit_of(const CaseResult& result, const FailurePolicy& policy, int stop_signal);

/// Exit code of a run; a run without cases is kExitNothing.
int exit_of(const std::vector<CaseResult>& cases, const FailurePolicy& policy, int stop_signal);

/// Whether at least one gate gave a verdict.
bool anything_judged(const std::vector<CaseResult>& cases);

}  // namespace benchsuite
