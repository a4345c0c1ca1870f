#include "suite/results/outcome.h"

#include <algorithm>
#include <array>
#include <csignal>

#include "engine/core/json_reader.h"

namespace benchsuite {

FailurePolicy FailurePolicy::from(const std::vector<std::string>& fail_on, bool strict, bool require_reference) {
  FailurePolicy policy;
  policy.require_reference = require_reference;
  if (!fail_on.empty()) policy.regress = false;
  const std::vector<std::string> words = {"regress", "improve", "warn", "skip", "noref", "never"};
  for (const std::string& word : fail_on) {
    if (word == "regress")
      policy.regress = true;
    else if (word == "improve")
      policy.improve = true;
    else if (word == "warn")
      policy.warn = true;
    else if (word == "skip")
      policy.skip = true;
    else if (word == "noref")
      policy.noref = true;
    else if (word != "never") {
      const std::string guess = did_you_mean(word, words);
      throw Error({Violation{"command line", "--fail-on", word, "not a known word",
                             (guess.empty() ? "" : "did you mean \"" + guess + "\"? ") +
                                 std::string("choose from regress, improve, warn, skip, noref, never")}});
    }
  }
  if (strict) policy.regress = policy.improve = policy.warn = policy.skip = policy.noref = true;
  return policy;
}

int worse_exit(int a, int b) {
  static constexpr std::array<int, 9> order = {kExitUsage, kExitInterrupted, kExitTerminated, kExitTimeout, kExitError,
                                               kExitFail,  kExitNothing,     kExitSkipped,    kExitPass};
  return *std::find_if(order.begin(), order.end(), [&](int code) { return code == a || code == b; });
}

int exit_of(const CaseResult& result, const FailurePolicy& policy, int stop_signal) {
  const bool improved = std::any_of(result.checks.begin(), result.checks.end(),
                                    [](const CheckResult& check) { return check.verdict == Verdict::improved; });
  int code = kExitPass;
  switch (result.status) {
    case Status::error:
      return kExitError;
    case Status::timeout:
      return kExitTimeout;
    case Status::aborted:
      return stop_signal == SIGTERM ? kExitTerminated : kExitInterrupted;
    case Status::fail:
      code = policy.regress ? kExitFail : kExitPass;
      break;
    case Status::xpass:
    case Status::warn:
      code = policy.warn ? kExitFail : kExitPass;
      break;
    case Status::noref:
      code = policy.noref ? kExitFail : policy.require_reference ? kExitNothing : kExitPass;
      break;
    case Status::skip:
      code = policy.skip ? kExitFail : kExitSkipped;
      break;
    case Status::xfail:
    case Status::pass:
      break;
  }
  return improved && policy.improve ? worse_exit(code, kExitFail) : code;
}

int exit_of(const std::vector<CaseResult>& cases, const FailurePolicy& policy, int stop_signal) {
  if (cases.empty()) return kExitNothing;
  const bool all_skipped =
      std::all_of(cases.begin(), cases.end(), [](const CaseResult& result) { return result.status == Status::skip; });
  int code = kExitPass;
  for (const CaseResult& result : cases) {
    const int own = exit_of(result, policy, stop_signal);
    if (own == kExitSkipped && !all_skipped) continue;  // the others decide
    code = worse_exit(code, own);
  }
  return code;
}

bool anything_judged(const std::vector<CaseResult>& cases) {
  return std::any_of(cases.begin(), cases.end(), [](const CaseResult& result) {
    return std::any_of(result.checks.begin(), result.checks.end(),
                       [](const CheckResult& check) { return check.gates && check.verdict != Verdict::noref; });
  });
}

}  // namespace benchsuite
