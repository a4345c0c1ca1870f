// Judging: expectations against results, and how verdicts become the status of a case.
#pragma once

#include <string>
#include <vector>

#include "suite/expectations/expected.h"
#include "suite/results/run.h"

namespace benchsuite {

struct JudgeContext {
  std::string device;  ///< sim, cpu, cuda
  bool as_written =
      true;  ///< false: the configuration is not the one the expectations were made for (--set, other file)
  bool partial = false;  ///< only some variants were asked for: what speaks of others has no reference
};

/// Where `value` lies: pass inside `pass`, warn inside `warn`, otherwise fail (or improved, on the better side of a
/// measurement or baseline). Bounds are inclusive. Without `warn` there is no zone between pass and fail.
Verdict verdict_of(double value, const Interval& pass, const std::optional<Interval>& warn, Better better,
                   ExpectationKind kind);

/// One expectation over the variants of a case.
CheckResult judge(const Expectation& expectation, const std::vector<VariantResult>& variants,
                  const JudgeContext& context);

/// Judges all that apply on the device, then folds variants and checks into the status of the case:
/// a missing value is an ERROR, then FAIL, WARN, NOREF and PASS, the worst wins; without any gate the case is NOREF.
void judge_case(CaseResult& result, const ExpectedFile* expected, const JudgeContext& context);

}  // namespace benchsuite
