#include "suite/expectations/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

namespace benchsuite {

namespace {

constexpr const char* kNotSelected = " was not selected";
constexpr const char* kOtherConfiguration =
    "(This run has another configuration: no value of it stands beside the claim.)";

bool gates(const Expectation& expectation) { return expectation.kind != ExpectationKind::claim; }

/// Whether a variant the expectation speaks about was not run for a stated reason, or doesn't exist.
std::string why_not_measured(const Expectation& expectation, const std::vector<VariantResult>& variants,
                             const JudgeContext& context) {
  std::set<std::string> used;
  if (expectation.metric) used.merge(variants_of(*expectation.metric));
  if (expectation.equals) used.merge(variants_of(*expectation.equals));
  for (const std::string& id : used) {
    const auto at =
        std::find_if(variants.begin(), variants.end(), [&](const VariantResult& variant) { return variant.id == id; });
    if (at == variants.end() && context.partial) return "variant \"" + id + "\"" + kNotSelected;
    if (at == variants.end() && !context.as_written) return "the case has no variant \"" + id + "\"";
    if (at == variants.end()) continue;
    if (at->status == Status::skip) return "variant \"" + id + "\" was skipped";
    if (at->status == Status::aborted || at->status == Status::timeout) return "variant \"" + id + "\" did not finish";
  }
  return "";
}

void set_bounds(CheckResult& check, const std::optional<Interval>& pass, const std::optional<Interval>& warn) {
  if (pass) {
    check.pass_low = pass->low;
    check.pass_high = pass->high;
  }
  if (warn) {
    check.warn_low = warn->low;
    check.warn_high = warn->high;
  }
}

std::string sentence(const std::string& first, const std::string& second) {
  if (first.empty() || second.empty()) return first + second;
  return first + ": " + second;
}

std::string describe(const CheckResult& check) {
  const auto side = [](const std::optional<double>& value) {
    return value ? fmt::format("{:.6g}", *value) : std::string("open");
  };
  return fmt::format("{}: {:.6g} {} is outside [{}, {}]", title_of(check), check.value.value_or(0.0), check.unit,
                     side(check.warn_low ? check.warn_low : check.pass_low),
                     side(check.warn_high ? check.warn_high : check.pass_high));
}

struct Outcome {
  Status status;
  std::string code, reason;
};

Outcome outcome_of(const CheckResult& check) {
  switch (check.verdict) {
    case Verdict::missing:
      return {Status::error, "MISSING_METRIC", title_of(check) + ": " + check.explanation};
    case Verdict::fail:
      return {Status::fail, check.kind == "bound" ? "BOUND_BROKEN" : "OUT_OF_RANGE", describe(check)};
    case Verdict::improved:
      return {Status::warn, "PERF_BETTER", describe(check) + " on the better side"};
    case Verdict::warn:
      return {Status::warn, "NEAR_LIMIT",
              fmt::format("{}: {:.6g} {} is between the pass and the warn bounds", title_of(check),
                          check.value.value_or(0.0), check.unit)};
    case Verdict::noref:
      return {Status::noref,
              check.explanation.ends_with(kNotSelected)       ? "NOT_SELECTED"
              : check.explanation.find("this layout") != std::string::npos ? "OTHER_LAYOUT"
                                                              : "STALE_REFERENCE",
              title_of(check) + ": " + check.explanation};
    case Verdict::pass:
    case Verdict::shown:
      break;
  }
  return {Status::pass, "", ""};
}

}  // namespace

Verdict verdict_of(double value, const Interval& pass, const std::optional<Interval>& warn, Better better,
                   ExpectationKind kind) {
  if (pass.contains(value)) return Verdict::pass;
  if (warn && warn->contains(value)) return Verdict::warn;
  if (kind != ExpectationKind::bound) {  // nothing is better than physics
    const Interval& outer = warn ? *warn : pass;
    if (better == Better::lower && outer.low && value < *outer.low) return Verdict::improved;
    if (better == Better::higher && outer.high && value > *outer.high) return Verdict::improved;
  }
  return Verdict::fail;
}

CheckResult judge(const Expectation& expectation, const std::vector<VariantResult>& variants,
                  const JudgeContext& context) {
  CheckResult check;
  check.id = expectation.id;
  check.title = expectation.title;
  check.kind = name_of(expectation.kind);
  check.unit = expectation.unit;
  check.target = expectation.target;
  check.gates = gates(expectation);
  check.source = expectation.provenance();
  check.explanation = expectation.explanation;
  if (expectation.metric) check.metric = to_string(*expectation.metric);
  set_bounds(check, expectation.pass, expectation.warn);

  std::string missing;
  if (expectation.metric) check.value = evaluate(*expectation.metric, variants, &missing);
  if (expectation.kind == ExpectationKind::claim) {
    check.verdict = Verdict::shown;
    std::string verdict = expectation.verdict;
    if (!verdict.empty()) verdict[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(verdict[0])));
    check.explanation = sentence(verdict, expectation.explanation);
    if (!context.as_written) {  // the claim is about the case; what a changed one gives says nothing about it
      check.value.reset();
      check.explanation += (check.explanation.empty() ? "" : " ") + std::string(kOtherConfiguration);
    }
    return check;
  }

  // What somebody measured speaks for the configuration it was chosen for; a formula speaks for every one.
  std::string no_reference = why_not_measured(expectation, variants, context);
  if (no_reference.empty() && !context.as_written && expectation.kind != ExpectationKind::bound) {
    no_reference = "the configuration is not the one this reference was chosen for";
  }
  for (const std::optional<Expression>* side : {&expectation.metric, &expectation.equals}) {
    if (no_reference.empty() && *side && !context.as_written) no_reference = why_not_in_layout(**side, variants);
  }
  if (!no_reference.empty()) {
    check.verdict = Verdict::noref;
    check.explanation = no_reference;
    return check;
  }

  std::optional<Interval> pass = expectation.pass;
  if (expectation.equals) {
    const auto wanted = evaluate(*expectation.equals, variants, &missing);
    if (wanted) {
      const double slack = std::abs(*wanted) * expectation.tolerance;
      pass = Interval{*wanted - slack, *wanted + slack};
      check.target = *wanted;
      set_bounds(check, pass, std::nullopt);
    }
  }
  if (!check.value || !pass) {
    check.verdict = Verdict::missing;
    check.explanation = missing.empty() ? "no value" : missing;
    return check;
  }
  check.verdict = verdict_of(*check.value, *pass, expectation.warn, expectation.better, expectation.kind);
  return check;
}

void judge_case(CaseResult& result, const ExpectedFile* expected, const JudgeContext& context) {
  std::vector<Outcome> outcomes;
  for (const VariantResult& variant : result.variants) {
    if (variant.status != Status::skip)
      outcomes.push_back({variant.status, variant.reason_code, variant.id + ": " + variant.reason});
  }
  const bool all_skipped = outcomes.empty() && !result.variants.empty();
  bool judged = false;
  if (expected) {
    for (const Expectation& expectation : expected->expectations) {
      const auto& devices = expectation.devices;
      if (!devices.empty() && std::find(devices.begin(), devices.end(), context.device) == devices.end()) continue;
      CheckResult check = judge(expectation, result.variants, context);
      judged = judged || (check.gates && check.verdict != Verdict::noref);
      outcomes.push_back(outcome_of(check));
      result.checks.push_back(std::move(check));
    }
  }
  if (all_skipped) {
    result.status = Status::skip;
    result.reason_code = result.variants.front().reason_code;
    result.reason = result.variants.front().reason;
    return;
  }
  if (!judged) {
    outcomes.push_back(
        {Status::noref, "NO_REFERENCE",
         expected ? "no expectation of " + expected->file + " applies here" : "there is no expectation for this case"});
  }
  Outcome worst{Status::pass, "", ""};
  for (const Outcome& outcome : outcomes) {
    if (outcome.status > worst.status) worst = outcome;
  }
  // The number of further findings of the same weight, so that one line doesn't hide the others.
  const auto as_bad = std::count_if(outcomes.begin(), outcomes.end(),
                                    [&](const Outcome& outcome) { return outcome.status == worst.status; });
  result.status = worst.status;
  result.reason_code = worst.code;
  result.reason = worst.reason;
  if (as_bad > 1 && worst.status != Status::pass) result.reason += fmt::format(" (and {} more)", as_bad - 1);
}

}  // namespace benchsuite
