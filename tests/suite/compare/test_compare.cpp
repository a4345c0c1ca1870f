// Comparing results: what counts as a change, what is refused, what decides the exit code.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "suite/compare/compare.h"
#include "suite/report/compare_render.h"
#include "tests/suite/support.h"

namespace benchsuite {
namespace {

using testing::HasSubstr;

VariantResult variant(const std::string& id, double iteration_s, std::vector<double> samples = {}) {
  VariantResult result = variant_result(id, iteration_s);
  result.peak_memory_gib = 10;
  result.step_samples_s = std::move(samples);
  return result;
}

/// A step of ten seconds on one rank, split over three categories.
VariantResult broken_down(const std::string& id, Picoseconds forward, Picoseconds recompute, Picoseconds bubble) {
  VariantResult result = variant(id, static_cast<double>(forward + recompute + bubble) * kSecondsPerPicosecond);
  result.step = forward + recompute + bubble;
  result.mean_breakdown.time[static_cast<std::size_t>(Category::forward)] = forward;
  result.mean_breakdown.time[static_cast<std::size_t>(Category::recompute)] = recompute;
  result.mean_breakdown.time[static_cast<std::size_t>(Category::bubble)] = bubble;
  return result;
}

Run run_with(std::vector<VariantResult> variants, const std::string& device = "sim", const std::string& hash = "h") {
  Run run;
  run.device = device;
  CaseResult& result = run.cases.emplace_back();
  result.id = "tiny";
  result.case_hash = hash;
  result.variants = std::move(variants);
  return run;
}

Comparison compare(const Run& from, const Run& to) { return compare_runs(from, to, {}); }

const MetricChange& metric(const Comparison& comparison, const std::string& name) {
  for (const MetricChange& change : comparison.variants.at(0).metrics) {
    if (change.name == name) return change;
  }
  throw std::out_of_range(name);
}

TEST(Compare, ExactResultsAreJudgedByTheFloorAlone) {
  const auto step = [](double to) { return compare(run_with({variant("a", 1)}), run_with({variant("a", to)})); };
  EXPECT_EQ(metric(step(1), "iteration_s").change, Change::same);
  EXPECT_EQ(metric(step(1.0099), "iteration_s").change, Change::same);
  EXPECT_EQ(metric(step(1.0101), "iteration_s").change, Change::worse);
  EXPECT_EQ(metric(step(0.98), "iteration_s").change, Change::better);
  EXPECT_EQ(step(1).exit_code, 0);
  EXPECT_EQ(step(1.0101).exit_code, 1);
  EXPECT_EQ(step(0.98).exit_code, 0);
  EXPECT_THAT(step(1.02).verdict, HasSubstr("WORSE: iteration_s of tiny/B a by +2.00 %"));
  EXPECT_TRUE(metric(step(1.02), "iteration_s").exact);
  EXPECT_THAT(threshold_text(metric(step(1.02), "iteration_s")), HasSubstr("noise 0 (n = 1, exact), floor 1 %"));
}

TEST(Compare, OnlyGatingMetricsDecide) {
  VariantResult busy = variant("a", 1);
  busy.gpu_busy = 0.5;
  VariantResult idle = variant("a", 1);
  idle.gpu_busy = 0.9;
  const Comparison result = compare(run_with({busy}), run_with({idle}));
  EXPECT_EQ(metric(result, "gpu_busy").change, Change::changed);
  EXPECT_EQ(result.exit_code, 0);
  VariantResult large = variant("a", 1);
  large.fits = false;
  EXPECT_EQ(compare(run_with({variant("a", 1)}), run_with({large})).exit_code, 1) << "what no longer fits is worse";
  EXPECT_EQ(compare(run_with({large}), run_with({variant("a", 1)})).exit_code, 0);
  VariantResult heavy = variant("a", 1);
  heavy.peak_memory_gib = 10.1;
  EXPECT_EQ(compare(run_with({variant("a", 1)}), run_with({heavy})).exit_code, 1);
}

TEST(Compare, MeasuredResultsNeedSamples) {
  const auto measured = [](std::vector<double> a, std::vector<double> b) {
    return compare(run_with({variant("a", 1, std::move(a))}, "cuda"), run_with({variant("a", 1.2, std::move(b))}, "cuda"));
  };
  const Comparison few = measured({1, 1, 1, 1}, {1.2, 1.2, 1.2, 1.2, 1.2});
  EXPECT_EQ(metric(few, "iteration_s").change, Change::unclear);
  EXPECT_THAT(metric(few, "iteration_s").note, HasSubstr("not enough samples: 4"));
  EXPECT_EQ(metric(few, "iteration_s").from_samples, 4u);
  EXPECT_THAT(few.verdict, HasSubstr("undecided for want of samples"));

  const Comparison clear = measured({0.99, 1, 1.01, 1, 1}, {1.19, 1.2, 1.21, 1.2, 1.2});
  EXPECT_EQ(metric(clear, "iteration_s").change, Change::worse);
  EXPECT_LT(*metric(clear, "iteration_s").p, 0.05);
  EXPECT_EQ(clear.exit_code, 1);

  const Comparison noisy = measured({0.5, 1.5, 1, 0.7, 1.3}, {0.6, 1.6, 1.2, 0.8, 1.4});
  EXPECT_EQ(metric(noisy, "iteration_s").change, Change::same) << "20 % that is not to be told from noise";
  EXPECT_GT(metric(noisy, "iteration_s").noise, 0.2);
  EXPECT_EQ(noisy.exit_code, 0);
}

TEST(Compare, PredictedAgainstMeasured) {
  const benchsuite::Run predicted = run_with({variant("a", 1)});
  const auto against = [&](double value, std::vector<double> samples) {
    return compare(predicted, run_with({variant("a", value, std::move(samples))}, "cuda"));
  };
  const Comparison off = against(1.1, {1.1, 1.1, 1.1, 1.101, 1.099});
  EXPECT_EQ(off.kind, "predicted against measured");
  EXPECT_EQ(metric(off, "iteration_s").change, Change::worse);
  EXPECT_EQ(metric(off, "iteration_s").from_samples, 1u);
  EXPECT_EQ(metric(off, "iteration_s").to_samples, 5u);
  EXPECT_EQ(metric(against(1.1, {0.9, 1.1, 1.3, 1.0, 1.2}), "iteration_s").change, Change::same) << "within its own noise";
  EXPECT_EQ(metric(against(1.1, {1.1}), "iteration_s").change, Change::unclear);
}

TEST(Compare, DifferentCasesAreRefused) {
  const benchsuite::Run a = run_with({variant("a", 1)}), b = run_with({variant("a", 1)}, "sim", "another");
  try {
    compare(a, b);
    FAIL() << "compared";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::config);
    EXPECT_THAT(error.what(), testing::AllOf(HasSubstr("h and another"), HasSubstr("--force")));
  }
  CompareOptions options;
  options.force = true;
  const Comparison forced = compare_runs(a, b, options);
  EXPECT_EQ(forced.exit_code, 0);
  EXPECT_THAT(forced.notes.at(0), HasSubstr("configurations differ"));
}

TEST(Compare, WhatIsMissingIsToldAndFailsClosed) {
  VariantResult broken = variant("a", 0);
  broken.status = Status::error;
  broken.reason_code = "RUN_ERROR";
  const Comparison result = compare(run_with({variant("a", 1)}), run_with({broken}));
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.verdict, HasSubstr("INCOMPLETE"));
  EXPECT_THAT(metric(result, "iteration_s").note, HasSubstr("B has no value (ERROR, RUN_ERROR)"));
  EXPECT_EQ(compare(run_with({broken}), run_with({broken})).exit_code, 3);

  const Comparison gone = compare(run_with({variant("a", 1), variant("b", 1)}), run_with({variant("a", 1), variant("c", 1)}));
  EXPECT_EQ(gone.only_from, std::vector<std::string>{"tiny/b"});
  EXPECT_EQ(gone.only_to, std::vector<std::string>{"tiny/c"});
  EXPECT_EQ(compare(run_with({variant("a", 1)}), run_with({variant("b", 1)})).exit_code, 4) << "nothing in common";
}

TEST(Compare, VerdictsThatTurnedGate) {
  benchsuite::Run before = run_with({variant("a", 1)}), after = before;
  CheckResult check;
  check.id = "range";
  check.verdict = Verdict::pass;
  before.cases[0].checks = {check};
  check.verdict = Verdict::fail;
  after.cases[0].checks = {check};
  const Comparison result = compare(before, after);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.verdict, HasSubstr("expectation \"range\" of tiny"));
  EXPECT_EQ(compare(after, before).exit_code, 0);
}

TEST(Compare, WaterfallBetweenRunsAddsUp) {
  const Comparison result = compare(run_with({broken_down("a", 400, 100, 50)}), run_with({broken_down("a", 410, 20, 30)}));
  ASSERT_TRUE(result.variants[0].waterfall);
  const Waterfall& fall = *result.variants[0].waterfall;
  double sum = 0;
  for (const Waterfall::Part& part : fall.parts) sum += part.seconds;
  EXPECT_NEAR(sum, fall.to_s - fall.from_s, 1e-24);
  EXPECT_EQ(fall.from, "A a");
  EXPECT_EQ(fall.to, "B a");
  EXPECT_NEAR(fall.parts[0].seconds, -80e-12, 1e-24) << "recompute";
  EXPECT_FALSE(compare(run_with({variant("a", 1)}), run_with({variant("a", 1)})).variants[0].waterfall) << "no breakdown, no picture";
}

TEST(Compare, RatiosInsideARunArePaired) {
  CompareOptions options;
  options.from = "a";
  options.to = "b";
  const Comparison exact = compare_variants(run_with({variant("a", 2), variant("b", 1.5)}), options);
  ASSERT_TRUE(exact.variants[0].ratio);
  EXPECT_EQ(exact.variants[0].ratio->ratio, 0.75);
  EXPECT_FALSE(exact.variants[0].ratio->low);
  EXPECT_THAT(ratio_text(*exact.variants[0].ratio), HasSubstr("exact"));
  EXPECT_EQ(exact.exit_code, 0);
  // The machine slows down by half while both are measured; unpaired medians would not show it.
  const Comparison paired =
      compare_variants(run_with({variant("a", 1.2, {1, 1.1, 1.2, 1.3, 1.5}), variant("b", 2.4, {2, 2.2, 2.4, 2.6, 3})}, "cuda"), options);
  EXPECT_DOUBLE_EQ(paired.variants[0].ratio->ratio, 2);
  EXPECT_DOUBLE_EQ(*paired.variants[0].ratio->low, 2);
  const Comparison few = compare_variants(run_with({variant("a", 1, {1}), variant("b", 2, {2})}, "cuda"), options);
  EXPECT_FALSE(few.variants[0].ratio->low);
  EXPECT_THAT(few.variants[0].ratio->note, HasSubstr("not enough samples"));
  options.to = "bb";
  EXPECT_THROW(compare_variants(run_with({variant("a", 2), variant("b", 1.5)}), options), Error);
}

TEST(Compare, EveryRenderingSaysTheSame) {
  benchsuite::Run before = run_with({broken_down("a", 400, 100, 50)});
  before.run_id = "<b>|x";
  const Comparison result = compare(before, run_with({broken_down("a", 500, 100, 50)}));
  ASSERT_EQ(result.exit_code, 1);
  const std::string text = compare_text(result, false), markdown = compare_markdown(result), html = compare_html(result);
  for (const std::string& rendering : {text, markdown, html}) {
    EXPECT_THAT(rendering, HasSubstr("WORSE: iteration"));
    EXPECT_THAT(rendering, HasSubstr("+18.18 %"));
  }
  EXPECT_THAT(text, HasSubstr("exit=1\n"));
  EXPECT_THAT(html, HasSubstr("&lt;b&gt;"));
  EXPECT_EQ(html.find("<script"), std::string::npos);
  EXPECT_EQ(to_json(result)["exit_code"], 1);
  EXPECT_EQ(to_json(result)["variants"][0]["metrics"][0]["change"], "WORSE");
}

}  // namespace
}  // namespace benchsuite
