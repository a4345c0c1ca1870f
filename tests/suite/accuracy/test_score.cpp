#include <gtest/gtest.h>

#include "suite/accuracy/accuracy.h"

namespace benchsuite {
namespace {

RowResult row(const std::string& id, double published, double predicted, std::int64_t dp = 1) {
  RowResult result;
  result.id = id;
  result.source = "source";
  result.set = "set";
  result.mapped = true;
  result.model.layers = 4;
  result.layout.dp = dp;
  result.published.iteration_s = published;
  result.predicted.emplace().iteration_s = predicted;
  result.error_pct = 100 * (predicted / published - 1);
  return result;
}

TEST(AccuracyScore, MeanMaxBiasByHand) {
  // errors +10, -20, +4
  std::vector<RowResult> rows = {row("a", 1, 1.1), row("b", 2, 1.6), row("c", 5, 5.2)};
  rows.push_back(row("d", 1, 1));
  rows.back().mapped = false;
  rows.back().predicted.reset();
  rows.back().error_pct.reset();
  const Score score = score_by(rows, true, {}).front();
  EXPECT_EQ(score.rows, 4u);
  EXPECT_EQ(score.mapped, 3u);
  EXPECT_EQ(score.compared, 3u);
  EXPECT_NEAR(score.mean_abs_pct, 34.0 / 3, 1e-9);
  EXPECT_NEAR(score.max_abs_pct, 20, 1e-9);
  EXPECT_NEAR(score.bias_pct, -2, 1e-9);
  EXPECT_EQ(score.worst, "b");
}

TEST(AccuracyScore, MissedGoalsAreNamedFromWhereTheyAreMissed) {
  Score met;  // everything at its bound
  met.compared = 10;
  met.target_mean_pct = 8;
  met.mean_abs_pct = 8;
  met.max_abs_pct = 16;
  met.bias_pct = -4;
  met.interval_coverage = 0.8;
  met.interval_half_width_pct = 16;
  EXPECT_TRUE(met.missed_goals().empty());

  const std::pair<const char*, void (*)(Score&)> over[] = {
      {"mean", [](Score& score) { score.mean_abs_pct = 8.1; }},
      {"worst", [](Score& score) { score.max_abs_pct = 16.1; }},
      {"bias", [](Score& score) { score.bias_pct = -4.1; }},
      {"bias", [](Score& score) { score.bias_pct = 4.1; }},
      {"coverage", [](Score& score) { score.interval_coverage = 0.79; }},
      {"width", [](Score& score) { score.interval_half_width_pct = 16.1; }}};
  Score all = met;
  for (const auto& [name, miss] : over) {
    Score score = met;
    miss(score);
    miss(all);
    EXPECT_EQ(score.missed_goals(), std::vector<std::string>{name});
  }
  EXPECT_EQ(all.missed_goals(), (std::vector<std::string>{"mean", "worst", "bias", "coverage", "width"}));
  all.target_max_pct = 20;  // the set's own bound of the worst row comes first
  EXPECT_EQ(all.missed_goals(), (std::vector<std::string>{"mean", "bias", "coverage", "width"}));
  all.target_mean_pct.reset();
  EXPECT_TRUE(all.missed_goals().empty());
}

TEST(AccuracyScore, ConfigurationsAverageTheirRowsFirst) {
  // One configuration at 1, 2 and 4 replicas: +10, -10, +6: mean 2. Another: -8.
  std::vector<RowResult> rows = {row("a", 1, 1.1, 1), row("b", 1, 0.9, 2), row("c", 1, 1.06, 4), row("d", 1, 0.92)};
  rows[3].layout.tp = 2;
  const Score score = score_by(rows, false, {}).front();
  EXPECT_EQ(score.configurations, 2u);
  EXPECT_NEAR(score.configuration_mean_abs_pct, 5, 1e-9);
  EXPECT_NEAR(score.configuration_max_abs_pct, 8, 1e-9);
}

TEST(AccuracyScore, RankCorrelationInsideGroups) {
  // Four rows of one group in the right order but for one neighbour pair: 1 - 6 x 2 / (4 x 15) = 0.8. Rows of another
  // size would make a pooled correlation near 1.
  std::vector<RowResult> rows = {row("a", 1, 1), row("b", 2, 3), row("c", 3, 2), row("d", 4, 4)};
  rows.push_back(row("e", 100, 100));
  rows.back().model.layers = 99;
  const Score score = score_by(rows, false, {}).front();
  EXPECT_EQ(score.rank_groups, 1u);
  EXPECT_NEAR(score.rank_correlation.value(), 0.8, 1e-9);
}

TEST(AccuracyScore, CoverageAndMemory) {
  std::vector<RowResult> rows = {row("a", 1, 1.1), row("b", 1, 1.3)};
  rows[0].interval = {0.9, 1.2};
  rows[1].interval = {1.1, 1.5};
  rows.push_back(row("c", 0, 0));
  rows[2].error_pct.reset();
  rows[2].published.out_of_memory = true;
  rows[2].predicted->fits = true;
  const Score score = score_by(rows, false, {}).front();
  EXPECT_NEAR(score.interval_coverage.value(), 0.5, 1e-9);
  EXPECT_EQ(score.memory_rows, 3u);
  EXPECT_NEAR(score.memory_right, 2.0 / 3, 1e-9);
  EXPECT_EQ(score.false_fits, 1u);
  EXPECT_EQ(score.false_ooms, 0u);
}

}  // namespace
}  // namespace benchsuite
