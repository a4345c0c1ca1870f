#include "suite/accuracy/relative.h"

#include <gtest/gtest.h>

namespace benchsuite {
namespace {

std::vector<PublishedRow> rows_of(const char* text) { return read_published_rows(Json::parse(text), "rows.json"); }

RowResult result(const std::string& id, double published, double predicted) {
  RowResult made;
  made.id = id;
  made.set = "set";
  made.mapped = true;
  made.published.iteration_s = published;
  made.predicted.emplace().iteration_s = predicted;
  return made;
}

SourceRules rules_of(const char* relative) {
  std::vector<Violation> problems;
  SourceRules rules = read_source_rules(Json::parse(std::string(R"({"rules": [], "targets": [], "relative": )") + relative + "}"),
                                        "sources.json", problems);
  EXPECT_TRUE(problems.empty());
  return rules;
}

TEST(RelativeScore, StepsOverTheReferenceByHand) {
  // Predicted 10 % fast everywhere, but for the last row: 0.9 x 1.2 / 0.9 = +20 %; the reference isn't compared.
  const auto rows = rows_of(R"([{"id": "a.2", "cluster": {"gpus": 2}}, {"id": "a.1", "cluster": {"gpus": 1}},
                                {"id": "a.4", "cluster": {"gpus": 4}}])");
  const std::vector<RowResult> results = {result("a.2", 5, 4.5), result("a.1", 10, 9), result("a.4", 2, 2.16)};
  const SourceRules rules = rules_of(R"([{"set": "shape", "of": ["set"], "compares": "step", "reference": {"cluster.gpus": 1},
                                          "mean_abs_pct": 11, "why": "by hand"}])");
  // First draw as predicted: mean 10 %. Second: a.4 at 3, +67 %.
  const std::vector<std::vector<double>> draws = {{4.5, 4.5}, {9, 9}, {2.16, 3}};
  const std::vector<Score> scores = relative_scores(rows, results, draws, rules);
  ASSERT_EQ(scores.size(), 1u);
  EXPECT_EQ(scores[0].name, "shape");
  EXPECT_EQ(scores[0].rows, 3u);
  EXPECT_EQ(scores[0].compared, 2u);
  EXPECT_NEAR(scores[0].mean_abs_pct, 10, 1e-9);
  EXPECT_NEAR(scores[0].bias_pct, 10, 1e-9);
  EXPECT_NEAR(scores[0].max_abs_pct, 20, 1e-9);
  EXPECT_EQ(scores[0].worst, "a.4");
  EXPECT_NEAR(scores[0].share_of_draws.value(), 0.5, 1e-9);
  EXPECT_EQ(scores[0].relative_rows[1].reference, "a.1");
  EXPECT_NEAR(scores[0].relative_rows[1].published, 0.2, 1e-9);
  EXPECT_NEAR(scores[0].relative_rows[1].predicted, 0.24, 1e-9);
}

// Two stages, passes of 2 ms each, transfers that take nothing.
constexpr const char* kPipeline = R"([
  {"id": "times", "kind": "layer_time", "model": {"name": "g", "hidden": 64, "heads": 4, "seq": 32}, "layout": {"micro_batch": 1},
   "measured": {"stage_forward_ms": 2, "stage_backward_input_ms": 2, "stage_backward_weight_ms": 2, "stage_p2p_ms": 0}},
  {"id": "other", "kind": "layer_time", "model": {"name": "h"}, "layout": {"micro_batch": 1}, "measured": {"stage_forward_ms": 7}},
  {"id": "x.1f1b", "model": {"name": "g", "hidden": 64, "heads": 4, "seq": 32}, "layout": {"pp": 2, "micro_batch": 1,
   "num_microbatches": 4, "schedule": "1f1b"}, "measured": {"iteration_s": 0.05}},
  {"id": "x.zb", "model": {"name": "g", "hidden": 64, "heads": 4, "seq": 32}, "layout": {"pp": 2, "micro_batch": 1,
   "num_microbatches": 4, "schedule": "zb-2p"}, "measured": {"iteration_s": 0.04}},
  {"id": "x.1f1b-i", "model": {"name": "g"}, "layout": {"pp": 2, "vpp": 2, "micro_batch": 1, "num_microbatches": 4,
   "schedule": "1f1b-i"}, "measured": {"iteration_s": 0.04}},
  {"id": "x.wide", "model": {"name": "g"}, "layout": {"pp": 2, "micro_batch": 2, "num_microbatches": 4, "schedule": "1f1b"},
   "measured": {"iteration_s": 0.1}}])";

TEST(RelativeScore, SchedulesFromPrintedStageTimesAreTheFormulas) {
  const auto rows = rows_of(kPipeline);
  // (m + p - 1)(F + B); interleaved with m F + m B and a bubble of 1 / v; no bubble in twice the memory.
  EXPECT_NEAR(schedule_seconds(rows[2], rows).value(), 30e-3, 1e-12);
  EXPECT_NEAR(schedule_seconds(rows[4], rows).value(), 27e-3, 1e-12);
  EXPECT_NEAR(schedule_seconds(rows[3], rows).value(), 24e-3, 1e-12);
  EXPECT_FALSE(schedule_seconds(rows[5], rows)) << "no times for its micro-batch";
}

TEST(RelativeScore, ScheduleAloneNeedsNoMappedRow) {
  const auto rows = rows_of(kPipeline);
  std::vector<RowResult> results(rows.size());
  for (RowResult& one : results) one.set = "set";
  const SourceRules rules = rules_of(R"([{"set": "alone", "of": ["set"], "id": ["x."], "compares": "schedule",
                                          "reference": {"layout.schedule": "zb-2p"}, "mean_abs_pct": 2.5, "why": "by hand"}])");
  const std::vector<Score> scores = relative_scores(rows, results, std::vector<std::vector<double>>(rows.size()), rules);
  ASSERT_EQ(scores.size(), 1u);
  ASSERT_EQ(scores[0].relative_rows.size(), 2u);
  EXPECT_NEAR(scores[0].relative_rows[0].error_pct, 0, 1e-9);     // 30 / 24 of 50 / 40
  EXPECT_NEAR(scores[0].relative_rows[1].error_pct, 12.5, 1e-9);  // 27 / 24 of 40 / 40
  EXPECT_FALSE(scores[0].share_of_draws);
}

TEST(RelativeScore, ASetWithoutReferenceIsAProblem) {
  std::vector<Violation> problems;
  read_source_rules(Json::parse(R"({"rules": [], "targets": [], "relative": [{"set": "s", "of": ["t"], "compares": "speed",
                                    "mean_abs_pct": 1, "why": "w"}]})"),
                    "sources.json", problems);
  ASSERT_EQ(problems.size(), 2u);
  EXPECT_EQ(problems[0].key, "relative[0].compares");
  EXPECT_EQ(problems[1].key, "relative[0].reference");
}

}  // namespace
}  // namespace benchsuite
