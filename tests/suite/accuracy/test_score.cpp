#include <gtest/gtest.h>

#include <tuple>

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

TEST(AccuracyScore, NoRankCorrelationWhereNoGroupHasThreeRows) {
  // Pooled, these four rows of two sizes would correlate at 1.
  std::vector<RowResult> rows = {row("a", 1, 1), row("b", 2, 2), row("c", 30, 30), row("d", 40, 40)};
  rows[2].model.layers = rows[3].model.layers = 99;
  const Score score = score_by(rows, false, {}).front();
  EXPECT_EQ(score.rank_groups, 0u);
  EXPECT_FALSE(score.rank_correlation.has_value());
}

/// Rules with one rule for "set" and these sub-targets.
SourceRules with_sub_targets(const std::string& sub_targets, std::vector<Violation>& problems) {
  const std::string text = R"({"rules": [{"set": "set", "id": [""], "unmapped": "no"}], "targets": [], "sub_targets": )" + sub_targets + "}";
  return read_source_rules(Json::parse(text), "rules.json", problems);
}

TEST(AccuracyScore, SubTargetsByHand) {
  // Errors +10, -20, +4, +30; head sizes 128, 150, 128 and 128; 8, 8, 16 and 128 GPUs.
  std::vector<RowResult> results = {row("g.a", 1, 1.1), row("g.b", 1, 0.8), row("g.c", 1, 1.04), row("h.d", 1, 1.3)};
  results[0].forward_error_pct = 9;
  results[0].backward_error_pct = -3;
  results[2].forward_error_pct = -12;
  results[2].backward_error_pct = 1;
  std::vector<PublishedRow> rows(results.size());
  const int hidden[] = {1024, 1200, 1024, 1024}, gpus[] = {8, 8, 16, 128};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i].id = results[i].id;
    rows[i].model = {{"hidden", hidden[i]}, {"heads", 8}};
    rows[i].cluster = {{"gpus", gpus[i]}};
    results[i].predicted->fits = i != 0;  // row a ran: a false out of memory
  }
  for (const char* id : {"g.e", "g.f", "g.g", "g.h", "g.i", "g.j", "g.k", "g.l"}) {  // eight false fits
    RowResult& oom = results.emplace_back(row(id, 0, 0));
    oom.error_pct.reset();
    oom.published.out_of_memory = true;
    rows.emplace_back().id = id;
  }
  std::vector<Violation> problems;
  const SourceRules rules = with_sub_targets(R"([
    {"set": "set", "name": "aligned", "where": {"model.head_size": {"multiple_of": 8}}, "metric": "mean_abs_pct", "bound": 15},
    {"set": "set", "name": "small", "where": {"cluster.gpus": {"at_most": 16}}, "metric": "mean_abs_pct", "bound": 11},
    {"set": "set", "name": "shown", "where": {"cluster.gpus": 128}, "metric": "mean_abs_pct"},
    {"set": "set", "name": "nobody", "where": {"cluster.gpus": 3}, "metric": "mean_abs_pct", "bound": 1},
    {"set": "set", "name": "forward", "metric": "worst_forward_pct", "bound": 11},
    {"set": "set", "name": "backward", "metric": "worst_backward_pct", "bound": 11},
    {"set": "set", "name": "rank", "id": ["g"], "metric": "rank_correlation", "bound": 0.9},
    {"set": "all rows", "name": "right", "id": ["g"], "metric": "memory_right_pct", "bound": 95},
    {"set": "all rows", "name": "side", "id": ["g"], "metric": "memory_side", "bound": 2}])", problems);
  ASSERT_TRUE(problems.empty()) << problems.front().problem;
  std::vector<Score> sets = score_by(results, true, rules);
  Score all = score_all(results);
  add_sub_scores(rows, results, rules, sets, all);
  const std::tuple<const char*, std::size_t, double, bool> expected[] = {
      {"aligned", 3, (10 + 4 + 30) / 3.0, true}, {"small", 3, 34 / 3.0, false}, {"shown", 1, 30, true},
      {"forward", 2, 12, false},                 {"backward", 2, 3, true}};
  const std::vector<SubScore>& found = sets.front().sub_scores;  // nobody has no row; three equal times have no ranks
  ASSERT_EQ(found.size(), std::size(expected));
  for (std::size_t i = 0; i < found.size(); ++i) {
    const auto& [name, count, value, met] = expected[i];
    EXPECT_EQ(found[i].target.name, name);
    EXPECT_EQ(found[i].rows, count) << name;
    EXPECT_NEAR(found[i].value, value, 1e-9) << name;
    EXPECT_EQ(found[i].met(), met) << name;
  }
  EXPECT_EQ(sets.front().missed_goals(), (std::vector<std::string>{"small", "forward"}));
  ASSERT_EQ(all.sub_scores.size(), 2u);
  EXPECT_NEAR(all.sub_scores[0].value, 100 * 2.0 / 11, 1e-9);  // rows b and c of eleven
  EXPECT_NEAR(all.sub_scores[1].value, 7.0 / 3, 1e-9);         // (8 - 1) / sqrt(9)
  EXPECT_EQ(all.missed_goals(), (std::vector<std::string>{"right", "side"}));
}

TEST(AccuracyScore, RankSubTargetAsksForAtLeastItsBound) {
  std::vector<RowResult> results = {row("a", 1, 1), row("b", 2, 3), row("c", 3, 2), row("d", 4, 4)};  // 0.8, as above
  std::vector<PublishedRow> rows(results.size());
  std::vector<Violation> problems;
  const SourceRules rules = with_sub_targets(R"([{"set": "set", "name": "high", "metric": "rank_correlation", "bound": 0.9},
                                                 {"set": "set", "name": "low", "metric": "rank_correlation", "bound": 0.7}])", problems);
  std::vector<Score> sets = score_by(results, true, rules);
  Score all = score_all(results);
  add_sub_scores(rows, results, rules, sets, all);
  EXPECT_EQ(sets.front().missed_goals(), std::vector<std::string>{"high"});
}

TEST(AccuracyScore, SubTargetsNameWhatIsWrong) {
  std::vector<Violation> problems;
  with_sub_targets(R"([{"set": "nobody", "name": "n", "metric": "mean"},
                       {"set": "set", "name": "n", "metric": "mean_abs_pct", "where": {"layout.tp": {"least": 2}}}])", problems);
  std::vector<std::string> keys;
  for (const Violation& problem : problems) keys.push_back(problem.key);
  EXPECT_EQ(keys, (std::vector<std::string>{"sub_targets[0].metric", "sub_targets[0].set", "sub_targets[1].where"}));
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
