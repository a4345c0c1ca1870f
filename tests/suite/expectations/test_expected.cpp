// Expectation files, expressions, and the truth table of verdicts.
#include "suite/expectations/expected.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "suite/expectations/metric_value.h"
#include "suite/expectations/verdict.h"
#include "tests/suite/support.h"

namespace benchsuite {
namespace {

using testing::HasSubstr;

std::string text_of(const std::vector<Violation>& problems) {
  std::string text;
  for (const Violation& problem : problems) text += to_string(problem) + "\n";
  return text;
}

std::string problems_of(const Json& expectation) {
  std::vector<Violation> problems;
  read_expected(expected_for("c", {expectation}), "e.json", problems);
  return text_of(problems);
}

Expectation read(const Json& expectation) {
  std::vector<Violation> problems;
  const ExpectedFile file = read_expected(expected_for("c", {expectation}), "e.json", problems);
  EXPECT_EQ(text_of(problems), "");
  return file.expectations.at(0);
}

Json measurement() {
  return Json::parse(
      R"({"id": "r", "title": "ratio", "metric": {"ratio": ["a.iteration_s", "b.iteration_s"]}, "unit": "x",
    "kind": "measurement", "pass": [1.2, 1.4], "warn": [1.1, 1.5], "target": 1.3, "provenance": {"source": "paper", "where": "Table 5", "hardware": "A100"}})");
}

Json claim() {
  return Json::parse(
      R"({"id": "c", "metric": {"value": "a.mfu"}, "unit": "1", "kind": "claim", "target": 0.24, "verdict": "inconsistent",
    "explanation": "2 + 2 = 4.", "provenance": {"source": "document"}})");
}

/// Variants a and b whose iteration times have the given ratio.
std::vector<VariantResult> with_ratio(double ratio) { return {variant_result("a", ratio), variant_result("b", 1)}; }

TEST(Expected, ReadsEverything) {
  const Expectation expectation = read(measurement());
  EXPECT_EQ(expectation.provenance(), "paper, Table 5 (A100)");
  EXPECT_EQ(to_string(*expectation.metric), "a.iteration_s / b.iteration_s");
  EXPECT_EQ(expectation.pass->low, 1.2);
  EXPECT_EQ(expectation.warn->high, 1.5);
}

TEST(Expected, RefusesWhatMakesNoSense) {
  const auto broken = [](const char* key, const Json& value) {
    Json json = measurement();
    if (value.is_discarded())
      json.erase(key);
    else
      json[key] = value;
    return problems_of(json);
  };
  const Json gone(Json::value_t::discarded);
  EXPECT_THAT(broken("kind", "published"), HasSubstr("not a known choice"));
  EXPECT_THAT(broken("metric", gone), HasSubstr("metric: missing"));
  EXPECT_THAT(broken("metric", {{"quotient", {"a.mfu", "b.mfu"}}}), HasSubstr("not an expression"));
  EXPECT_THAT(broken("metric", {{"ratio", {"a.mfu"}}}), HasSubstr("needs a list of two"));
  EXPECT_THAT(broken("metric", {{"value", "a.iteration"}}),
              HasSubstr("unknown metric \"iteration\"; did you mean \"iteration_s\"?"));
  EXPECT_THAT(broken("metric", {{"value", "a"}}), HasSubstr("write VARIANT.METRIC"));
  EXPECT_THAT(broken("metric", {{"value", "a.communication_bytes"}}), HasSubstr("name the kind of communication"));
  EXPECT_THAT(broken("metric", {{"value", "a.saved_activation_bytes.first"}}), HasSubstr("not a stage number"));
  EXPECT_THAT(broken("metric", {{"value", "a.mfu.0"}}), HasSubstr("has no parts"));
  EXPECT_THAT(broken("pass", gone), HasSubstr("pass: missing"));
  EXPECT_THAT(broken("pass", {1.4, 1.2}), HasSubstr("low is above high"));
  EXPECT_THAT(broken("pass", {nullptr, nullptr}), HasSubstr("both sides are open"));
  EXPECT_THAT(broken("pass", {1.0}), HasSubstr("must be a pair of numbers"));
  EXPECT_THAT(broken("pass", {1.0, 1.3}), HasSubstr("does not enclose pass"));
  EXPECT_THAT(broken("warn", {1.1, 1.3}), HasSubstr("does not enclose pass"));
  EXPECT_THAT(broken("equals", 1), HasSubstr("stands beside pass or warn"));
  EXPECT_THAT(broken("provenance", gone), HasSubstr("provenance: missing"));
  EXPECT_THAT(broken("provenance", {{"where", "Table 5"}}), HasSubstr("provenance.source: missing"));
  EXPECT_THAT(broken("devices", {"gpu"}), HasSubstr("unknown device \"gpu\""));
  EXPECT_THAT(broken("unit", "s"), HasSubstr("can't gate the simulator"));
  EXPECT_THAT(broken("unit", "tokens/s"), HasSubstr("can't gate the simulator"));
  EXPECT_THAT(broken("verdict", "consistent"), HasSubstr("only a claim has a verdict"));
  EXPECT_THAT(broken("targget", 1), HasSubstr("did you mean \"target\"?"));
  Json cuda = measurement();
  cuda["unit"] = "s";
  cuda["devices"] = {"cuda"};
  EXPECT_EQ(problems_of(cuda), "") << "an absolute time may gate the device it was measured for";

  Json gating_claim = claim();
  gating_claim["pass"] = {0, 1};
  EXPECT_THAT(problems_of(gating_claim), HasSubstr("a claim never gates"));
  Json bare = claim();
  bare.erase("verdict");
  bare.erase("explanation");
  EXPECT_THAT(problems_of(bare),
              testing::AllOf(HasSubstr("needs its verdict"), HasSubstr("needs one sentence of arithmetic")));
  Json exact = gate("e", "a.mfu", 0, 1);
  exact.erase("pass");
  exact["equals"] = 3;
  EXPECT_THAT(problems_of(exact), HasSubstr("tolerance: missing"));
  std::vector<Violation> twice;
  read_expected(expected_for("c", {claim(), claim()}), "e.json", twice);
  EXPECT_THAT(text_of(twice), HasSubstr("two expectations have this id"));
}

TEST(Expression, Arithmetic) {
  std::vector<VariantResult> variants = with_ratio(3);
  variants[0].layout = {{"global_batch", 12}};
  const auto value = [&](const char* text) {
    std::vector<Violation> problems;
    const Expression expression = read_expression(Json::parse(text), "e", "metric", problems);
    EXPECT_EQ(text_of(problems), "");
    return evaluate(expression, variants);
  };
  EXPECT_EQ(value(R"({"ratio": ["a.iteration_s", "b.iteration_s"]})"), 3.0);
  EXPECT_EQ(value(R"({"diff": ["a.iteration_s", 1]})"), 2.0);
  EXPECT_EQ(value(R"({"sum": [1, 2, {"product": [2, "a.iteration_s"]}]})"), 9.0);
  EXPECT_EQ(value(R"({"max": ["a.iteration_s", "b.iteration_s", 2]})"), 3.0);
  EXPECT_EQ(value(R"({"min": ["a.iteration_s", "b.iteration_s", 2]})"), 1.0);
  EXPECT_EQ(value(R"({"value": "a.samples_per_s"})"), 4.0);
  EXPECT_FALSE(value(R"({"value": "a.mfu"})").has_value()) << "null is missing, not 0";
  EXPECT_FALSE(value(R"({"value": "c.iteration_s"})").has_value());
  EXPECT_FALSE(value(R"({"ratio": [1, 0]})").has_value()) << "not finite";
  EXPECT_FALSE(value(R"({"sum": [1, "a.mfu"]})").has_value());
}

TEST(Expression, KindsAndStages) {
  VariantResult variant = variant_result("a", 1);
  variant.communication.push_back({"tensor all_gather (recomputed)", 0.5, 0.25, 8, 9, 3});
  variant.communication.push_back({"pipeline send", 0, 0, 4, -1, 1});
  for (int stage = 0; stage < 2; ++stage) {
    StageResult result;
    result.stage = stage;
    result.memory.saved_bytes = 10 + stage;
    result.memory.saved_formula_bytes = stage == 0 ? 10 : -1;
    variant.stages.push_back(result);
  }
  const auto value = [&](const char* path) { return metric_value(variant, parse_metric(path)); };
  EXPECT_EQ(value("a.communication_bytes.tensor all_gather (recomputed)"), 8.0);
  EXPECT_EQ(value("a.communication_bytes_formula.tensor all_gather (recomputed)"), 9.0);
  EXPECT_EQ(value("a.communication_exposed_s.tensor all_gather (recomputed)"), 0.5);
  EXPECT_EQ(value("a.communication_hidden_s.tensor all_gather (recomputed)"), 0.25);
  EXPECT_EQ(value("a.communication_calls.pipeline send"), 1.0);
  EXPECT_FALSE(value("a.communication_bytes_formula.pipeline send").has_value());
  EXPECT_EQ(value("a.communication_bytes.data all_reduce"), 0.0) << "neither recorded nor in a formula";
  EXPECT_EQ(value("a.communication_bytes_formula.data all_reduce"), 0.0);
  EXPECT_FALSE(value("a.communication_bytes.data all_redcue").has_value()) << "no such kind";
  EXPECT_EQ(value("a.saved_activation_bytes"), 21.0);
  EXPECT_EQ(value("a.saved_activation_bytes.1"), 11.0);
  EXPECT_EQ(value("a.saved_activation_formula_bytes.0"), 10.0);
  EXPECT_FALSE(value("a.saved_activation_formula_bytes.1").has_value());
  EXPECT_FALSE(value("a.saved_activation_bytes.2").has_value());
}

TEST(Metrics, BytesOfARankAreThoseOfTheOneFurthestFromItsFormula) {
  VariantResult variant;
  variant.stages.resize(3);
  variant.stages[0].sent = {{"pipeline send", 10, 10}};
  variant.stages[1].sent = {{"pipeline send", 20, 25}, {"tensor all_gather", 5, -1}};
  variant.stages[2].sent = {{"pipeline send", 28, 30}};
  const auto value = [&](const std::string& path) { return metric_value(variant, parse_metric(path)); };
  EXPECT_EQ(value("a.rank_communication_bytes.pipeline send"), 20);
  EXPECT_EQ(value("a.rank_communication_bytes_formula.pipeline send"), 25);
  EXPECT_EQ(value("a.rank_communication_bytes.tensor all_gather"), std::nullopt) << "there is no formula to compare with";
  EXPECT_EQ(value("a.rank_communication_bytes.embedding all_reduce"), 0) << "neither sent nor in any formula";
  EXPECT_EQ(value("a.rank_communication_bytes.no such kind"), std::nullopt);
}

TEST(Metrics, WhatTheLayoutLacksIsNotAMissingMetric) {
  VariantResult variant;
  variant.id = "a";
  variant.stages.resize(1);
  variant.stages[0].sent = {{"tensor all_reduce", 5, -1}, {"pipeline send", 5, 5}};
  const auto why = [&](const std::string& path) { return why_not_in_layout(variant, parse_metric(path)); };
  EXPECT_EQ(why("a.rank_communication_bytes_formula.tensor all_reduce"), "there is no closed formula for this layout");
  EXPECT_EQ(why("a.rank_communication_bytes_formula.pipeline send"), "");
  EXPECT_EQ(why("a.rank_communication_bytes_formula.tensor all_gather"), "");
  EXPECT_EQ(why("a.saved_activation_formula_bytes"), "there is no closed formula for this layout") << "the default is none";
  EXPECT_EQ(why("a.peak_in_flight.0"), "");
  EXPECT_EQ(why("a.peak_in_flight.1"), "this layout has no stage 1");
  EXPECT_EQ(why("a.iteration_s"), "");
}

TEST(Metrics, EveryNameIsAnswered) {
  VariantResult variant = variant_result("a", 1);
  variant.mfu = variant.hfu = variant.loss = 0.5;
  variant.layout = {{"global_batch", 1}};
  variant.stages.resize(1);
  variant.stages[0].memory.saved_formula_bytes = 1;
  variant.stages[0].sent = {{"k", 7, 7}};
  variant.communication.push_back({"k", 1, 1, 1, 1, 1});
  for (const MetricName& name : metric_names()) {
    std::string path = std::string("a.") + name.name;
    if (std::string(name.detail) == "kind") path += ".k";
    EXPECT_EQ(why_not_a_metric(path), "");
    EXPECT_TRUE(metric_value(variant, parse_metric(path)).has_value()) << path;
  }
}

struct Row {
  double value;
  Verdict verdict;
};

TEST(Verdict, TruthTableWithInclusiveEdges) {
  const double inf = std::numeric_limits<double>::infinity();
  const auto below = [&](double x) { return std::nextafter(x, -inf); };
  const auto above = [&](double x) { return std::nextafter(x, inf); };
  const Expectation expectation = read(measurement());
  for (const Row& row : {Row{1.3, Verdict::pass},
                         {1.2, Verdict::pass},
                         {1.4, Verdict::pass},
                         {below(1.2), Verdict::warn},
                         {above(1.4), Verdict::warn},
                         {1.1, Verdict::warn},
                         {1.5, Verdict::warn},
                         {below(1.1), Verdict::fail},
                         {above(1.5), Verdict::fail},
                         {1.71, Verdict::fail},
                         {0, Verdict::fail}}) {
    EXPECT_EQ(judge(expectation, with_ratio(row.value), {"sim", true}).verdict, row.verdict) << row.value;
  }
  for (const double nothing : {std::nan(""), inf, -inf}) {
    EXPECT_EQ(judge(expectation, with_ratio(nothing), {"sim", true}).verdict, Verdict::missing) << nothing;
  }
}

TEST(Verdict, OpenSidesAndNoWarnZone) {
  const Interval low{1.0, std::nullopt}, high{std::nullopt, 1.0};
  EXPECT_EQ(verdict_of(1e300, low, std::nullopt, Better::neither, ExpectationKind::bound), Verdict::pass);
  EXPECT_EQ(verdict_of(0.999, low, std::nullopt, Better::neither, ExpectationKind::bound), Verdict::fail);
  EXPECT_EQ(verdict_of(-1e300, high, std::nullopt, Better::neither, ExpectationKind::bound), Verdict::pass);
  EXPECT_EQ(verdict_of(1.001, high, std::nullopt, Better::neither, ExpectationKind::bound), Verdict::fail);
}

TEST(Verdict, BetterSideIsImprovedExceptForBounds) {
  const Interval pass{1.0, 2.0};
  const std::optional<Interval> warn = Interval{0.5, 2.5};
  const auto of = [&](double value, Better better, ExpectationKind kind) {
    return verdict_of(value, pass, warn, better, kind);
  };
  EXPECT_EQ(of(0.4, Better::lower, ExpectationKind::baseline), Verdict::improved);
  EXPECT_EQ(of(2.6, Better::lower, ExpectationKind::baseline), Verdict::fail);
  EXPECT_EQ(of(2.6, Better::higher, ExpectationKind::measurement), Verdict::improved);
  EXPECT_EQ(of(0.4, Better::higher, ExpectationKind::measurement), Verdict::fail);
  EXPECT_EQ(of(0.4, Better::neither, ExpectationKind::baseline), Verdict::fail);
  EXPECT_EQ(of(0.4, Better::lower, ExpectationKind::bound), Verdict::fail) << "nothing is better than physics";
  EXPECT_EQ(of(0.6, Better::lower, ExpectationKind::baseline), Verdict::warn);
}

TEST(Verdict, EqualsWithTolerance) {
  Json json = gate("e", "a.iteration_s", 0, 1);
  json.erase("pass");
  json["equals"] = {{"value", "b.iteration_s"}};
  json["tolerance"] = {{"rel", 0.5}, {"reason", "a test"}};
  const Expectation loose = read(json);
  EXPECT_EQ(judge(loose, with_ratio(1.5), {"sim", true}).verdict, Verdict::pass);
  EXPECT_EQ(judge(loose, with_ratio(0.5), {"sim", true}).verdict, Verdict::pass);
  EXPECT_EQ(judge(loose, with_ratio(1.51), {"sim", true}).verdict, Verdict::fail);
  EXPECT_EQ(judge(loose, with_ratio(1.5), {"sim", true}).target, 1.0) << "the report shows what it should equal";
  json["tolerance"]["rel"] = 0;
  const Expectation exact = read(json);
  EXPECT_EQ(judge(exact, with_ratio(1), {"sim", true}).verdict, Verdict::pass);
  EXPECT_EQ(judge(exact, with_ratio(std::nextafter(1.0, 2.0)), {"sim", true}).verdict, Verdict::fail);
  EXPECT_EQ(judge(exact, {variant_result("a", 1)}, {"sim", true}).verdict, Verdict::missing)
      << "the formula is missing";
}

TEST(Verdict, ClaimsAreShownAndNeverGate) {
  std::vector<VariantResult> variants = with_ratio(1);
  const CheckResult unmeasured = judge(read(claim()), variants, {"sim", true});
  EXPECT_EQ(unmeasured.verdict, Verdict::shown);
  EXPECT_FALSE(unmeasured.value.has_value());
  variants[0].mfu = 0.9;
  const CheckResult check = judge(read(claim()), variants, {"sim", true});
  EXPECT_EQ(check.verdict, Verdict::shown);
  EXPECT_FALSE(check.gates);
  EXPECT_EQ(check.value, 0.9);
  EXPECT_EQ(check.target, 0.24);
  EXPECT_EQ(check.explanation, "Inconsistent: 2 + 2 = 4.");
}

TEST(Verdict, AClaimIsNotSetAgainstAChangedConfiguration) {
  const CheckResult check = judge(read(claim()), with_ratio(1), {"sim", false, false});
  EXPECT_EQ(check.verdict, Verdict::shown);
  EXPECT_EQ(check.target, 0.24);
  EXPECT_FALSE(check.value) << "the claim is about the case as written";
  EXPECT_THAT(check.explanation, HasSubstr("another configuration"));
}

TEST(Verdict, ChecksCarryTheStableIdAndTheTitle) {
  const CheckResult check = judge(read(measurement()), with_ratio(1.3), {"sim", true, false});
  EXPECT_EQ(check.id, "r");
  EXPECT_EQ(check.title, "ratio");
}

TEST(Verdict, RatiosOfMeasuredStepsArePaired) {
  // The machine slows down by half on the way; every pair has the ratio 1.3 all the same.
  std::vector<VariantResult> variants = with_ratio(9);  // what the medians would give is another number
  for (const double drift : {1.0, 1.0, 1.1, 1.4, 1.5, 1.5}) {
    variants[0].step_samples_s.push_back(1.3 * drift);
    variants[1].step_samples_s.push_back(drift);
  }
  EXPECT_DOUBLE_EQ(judge(read(measurement()), variants, {"cpu", true, false}).value.value(), 1.3);
  variants[0].step_samples_s.resize(4);
  EXPECT_EQ(judge(read(measurement()), variants, {"cpu", true, false}).value, 9) << "too few pairs: of the medians";
}

TEST(Verdict, ChangedConfigurationsKeepBoundsOnly) {
  EXPECT_EQ(judge(read(measurement()), with_ratio(9), {"sim", false}).verdict, Verdict::noref);
  EXPECT_EQ(judge(read(gate("g", "a.iteration_s", 0, 1)), with_ratio(9), {"sim", false}).verdict, Verdict::fail);
  EXPECT_EQ(judge(read(gate("g", "gone.iteration_s", 0, 1)), with_ratio(9), {"sim", false}).verdict, Verdict::noref);
}

CaseResult judged(const std::vector<VariantResult>& variants, const std::vector<Json>& expectations) {
  std::vector<Violation> problems;
  const ExpectedFile file = read_expected(expected_for("c", expectations), "e.json", problems);
  EXPECT_EQ(text_of(problems), "");
  CaseResult result;
  result.variants = variants;
  judge_case(result, &file, {"sim", true});
  return result;
}

TEST(CaseStatus, TheWorstWins) {
  const Json pass = gate("pass", "b.iteration_s", 0, 2), fail = gate("fail", "b.iteration_s", 5, 6),
             missing = gate("missing", "b.loss", 0, 1);
  EXPECT_EQ(judged(with_ratio(1.3), {pass}).status, Status::pass);
  EXPECT_EQ(judged(with_ratio(1.3), {pass, claim()}).status, Status::pass);
  EXPECT_EQ(judged(with_ratio(1.45), {measurement(), pass}).status, Status::warn);
  EXPECT_EQ(judged(with_ratio(1.45), {measurement(), fail, pass}).status, Status::fail);
  EXPECT_EQ(judged(with_ratio(1.45), {measurement(), fail, missing}).status, Status::error);
  EXPECT_EQ(judged(with_ratio(1.45), {missing}).reason_code, "MISSING_METRIC");
  EXPECT_EQ(judged(with_ratio(1.3), {fail}).reason_code, "BOUND_BROKEN");
  EXPECT_EQ(judged(with_ratio(1.7), {measurement()}).reason_code, "OUT_OF_RANGE");
  EXPECT_THAT(judged(with_ratio(1.7), {measurement(), fail}).reason,
              testing::AllOf(HasSubstr("ratio: 1.7 x is outside [1.1, 1.5]"), HasSubstr("(and 1 more)")));
}

TEST(CaseStatus, NothingJudgedIsNotAPass) {
  EXPECT_EQ(judged(with_ratio(1), {claim()}).status, Status::noref);
  EXPECT_EQ(judged(with_ratio(1), {}).reason_code, "NO_REFERENCE");
  CaseResult bare;
  bare.variants = with_ratio(1);
  judge_case(bare, nullptr, {"sim", true});
  EXPECT_EQ(bare.status, Status::noref);
  Json elsewhere = gate("g", "a.iteration_s", 0, 9);
  elsewhere["devices"] = {"cuda"};
  EXPECT_EQ(judged(with_ratio(1), {elsewhere}).status, Status::noref);
}

TEST(CaseStatus, BrokenAndSkippedVariants) {
  std::vector<VariantResult> variants = with_ratio(1.3);
  variants[0].status = Status::error;
  variants[0].reason_code = "RUN_ERROR";
  EXPECT_EQ(judged(variants, {measurement()}).status, Status::error);
  variants[0].status = Status::skip;
  variants[0].reason_code = "NO_GPU";
  EXPECT_EQ(judged(variants, {measurement(), gate("g", "b.iteration_s", 0, 2)}).status, Status::noref)
      << "one variant skipped";
  variants[1] = variants[0];
  EXPECT_EQ(judged(variants, {measurement()}).status, Status::skip);
  EXPECT_EQ(judged(variants, {measurement()}).reason_code, "NO_GPU");
  variants[0].status = Status::timeout;
  EXPECT_EQ(judged(variants, {measurement()}).status, Status::timeout);
  variants[0].status = Status::aborted;
  EXPECT_EQ(judged(variants, {measurement()}).status, Status::aborted);
}

}  // namespace
}  // namespace benchsuite
