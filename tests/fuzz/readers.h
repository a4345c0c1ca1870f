// What the fuzzers and the corpus test do with one input. Only Error may come out of a reader; anything else, a crash or a
// verdict that the input doesn't carry, is a defect.
#pragma once

#include <algorithm>
#include <string>

#include "suite/cases/case.h"
#include "suite/cases/data_root.h"
#include "suite/cases/resolve.h"
#include "suite/expectations/expected.h"
#include "suite/expectations/verdict.h"
#include "suite/report/consistency.h"
#include "suite/report/console.h"
#include "suite/report/html.h"
#include "suite/report/markdown.h"
#include "suite/report/result_json.h"

namespace benchsuite::fuzz {

/// Thrown for a wrong answer: no handler below catches it.
struct Wrong {
  std::string what;
};

inline void read_as_case(const std::string& text, const DataRoot& root) {
  try {
    std::vector<Violation> problems;
    const CaseFile source = read_case(parse_json(text, "case.json"), "case.json", problems);
    if (problems.empty()) resolve_case(source, {}, root, problems);
  } catch (const Error& error) {
    if (error.kind() == Error::Kind::internal) throw Wrong{error.what()};
  }
}

/// Whatever an expectation says, nothing that was not measured passes.
inline void read_as_expected(const std::string& text) {
  try {
    std::vector<Violation> problems;
    const ExpectedFile expected = read_expected(parse_json(text, "expected.json"), "expected.json", problems);
    if (!problems.empty()) return;
    std::set<std::string> ids;
    for (const Expectation& expectation : expected.expectations) {
      if (expectation.metric) ids.merge(variants_of(*expectation.metric));
      if (expectation.equals) ids.merge(variants_of(*expectation.equals));
    }
    for (const char* device : {"sim", "cpu"}) {
      CaseResult nothing;
      judge_case(nothing, &expected, {device, true, false});
      if (nothing.status == Status::pass) throw Wrong{"a case without results passed"};
      CaseResult broken;
      for (const std::string& id : ids) {
        broken.variants.emplace_back().id = id;
        broken.variants.back().status = Status::error;
      }
      judge_case(broken, &expected, {device, true, false});
      const auto passed = [](const CheckResult& check) { return check.verdict == Verdict::pass; };
      if (std::any_of(broken.checks.begin(), broken.checks.end(), passed)) throw Wrong{"a check of a broken variant passed"};
    }
  } catch (const Error& error) {
    if (error.kind() == Error::Kind::internal) throw Wrong{error.what()};
  }
}

/// What is read is written the same way again, every rendering survives it, and a case passes only with a value inside bounds.
inline void read_as_result(const std::string& text) {
  Run run;
  try {
    run = run_from_json(parse_json(text, "result.json"), "result.json");
  } catch (const Error& error) {
    if (error.kind() == Error::Kind::internal) throw Wrong{error.what()};
    return;
  }
  const std::string written = result_text(run);
  if (result_text(run_from_json(parse_json(written, "again"), "again")) != written) throw Wrong{"reading and writing changes it"};
  if (!contradictions(run, "result.json").empty()) return;
  for (const CaseResult& result : run.cases) {
    if (result.status != Status::pass) continue;
    const bool earned = std::any_of(result.checks.begin(), result.checks.end(), [](const CheckResult& check) {
      return check.gates && check.value && check.verdict == Verdict::pass;
    });
    const bool spoilt = std::any_of(result.checks.begin(), result.checks.end(), [](const CheckResult& check) {
      return check.gates && (check.verdict == Verdict::fail || check.verdict == Verdict::missing);
    });
    if (!earned || spoilt) throw Wrong{"a case passed that nothing speaks for"};
  }
  markdown_report(run);
  html_report(run);
  for (const CaseResult& result : run.cases) console_case(result, true);
  console_summary(run, "results");
}

}  // namespace benchsuite::fuzz
