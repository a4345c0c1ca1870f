#include "suite/report/consistency.h"

#include <filesystem>

#include "suite/report/result_json.h"

namespace benchsuite {

namespace {

bool inside(double value, const std::optional<double>& low, const std::optional<double>& high) {
  return (!low || value >= *low) && (!high || value <= *high);
}

}  // namespace

std::vector<Violation> contradictions(const Run& run, const std::string& file) {
  std::vector<Violation> found;
  const auto add = [&](const std::string& key, std::string_view value, const char* problem) {
    found.push_back({file, key, std::string(value), problem, "the file is damaged or was changed: run the case again"});
  };
  for (const CaseResult& result : run.cases) {
    const std::string key = "cases." + result.id;
    bool gated = false;
    for (const CheckResult& check : result.checks) {
      const std::string check_key = key + ".checks." + check.id;
      if (check.verdict == Verdict::pass) {
        const bool holds = check.value && (check.pass_low || check.pass_high) &&
                           inside(*check.value, check.pass_low, check.pass_high);
        if (!holds) add(check_key, name_of(check.verdict), "passed without a value inside its bounds");
      }
      if (check.kind == "claim" && check.verdict != Verdict::shown) {
        add(check_key, name_of(check.verdict), "a claim is never judged");
      }
      const bool bad = check.verdict == Verdict::fail || check.verdict == Verdict::missing;
      if (bad && result.status < Status::fail) add(key + ".status", name_of(result.status), "an expectation failed");
      gated = gated || (check.gates && check.verdict != Verdict::noref && check.verdict != Verdict::shown);
    }
    for (const VariantResult& variant : result.variants) {
      if (variant.status > result.status && variant.status >= Status::fail) {
        add(key + ".status", name_of(result.status), "a variant fared worse");
      }
    }
    if (result.status == Status::pass && !gated) add(key + ".status", "PASS", "nothing was judged");
    const bool broken =
        result.status == Status::error || result.status == Status::timeout || result.status == Status::aborted;
    if (broken && run.exit_code == 0) add("exit_code", "0", "a case broke");
  }
  return found;
}

std::string result_file(const std::string& given) {
  std::error_code ignored;
  return std::filesystem::is_directory(given, ignored) ? given + "/result.json" : given;
}

Run load_result(const std::string& given) {
  const std::string file = result_file(given);
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(file, ignored)) {
    throw Error({Violation{"command line", "RESULT", given, "there is no result.json",
                           "name a result.json or the folder of a run"}});
  }
  Run run = run_from_json(parse_json_file(file), file);
  std::vector<Violation> problems = contradictions(run, file);
  if (!problems.empty()) throw Error(problems);
  return run;
}

}  // namespace benchsuite
