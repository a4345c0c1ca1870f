// The history: what is kept, what is refused, how fast it answers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <functional>

#include "suite/history/history.h"
#include "suite/history/trend_page.h"
#include "tests/suite/support.h"

namespace benchsuite {
namespace {

using testing::HasSubstr;

Run run_of(const std::string& id, const std::string& started, double iteration_s, const std::string& hash = "h1") {
  Run run;
  run.run_id = id;
  run.started = started;
  run.device = "sim";
  run.engine_commit = "abc";
  CaseResult& result = run.cases.emplace_back();
  result.id = "tiny";
  result.case_hash = hash;
  result.variants.push_back(variant_result("plain", iteration_s));
  return run;
}

std::string message(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

class HistoryFile : public testing::Test {
 protected:
  std::string path() const { return folder_.file("sub/history.sqlite"); }
  TemporaryFolder folder_;
};

TEST_F(HistoryFile, RowsComeBackAsTheyWentIn) {
  History history(path(), Database::Mode::write);
  const std::int64_t rows = history.record(run_of("r1", "2026-01-01T00:00:00Z", 0.1 + 0.2), "sim");
  EXPECT_GT(rows, 3) << "one a metric";
  EXPECT_EQ(history.record(run_of("r1", "2026-01-01T00:00:00Z", 0.1 + 0.2), "sim"), 0) << "writing again changes nothing";
  const auto found = history.rows({"tiny", "plain", "iteration_s", "sim", "", 0});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].value, 0.1 + 0.2) << "to the bit";
  EXPECT_EQ(found[0].run_id, "r1");
  EXPECT_EQ(found[0].case_hash, "h1");
  EXPECT_EQ(found[0].unit, "s");
  EXPECT_EQ(found[0].samples, 1);
  ASSERT_EQ(history.runs(0).size(), 1u);
  EXPECT_EQ(history.runs(0)[0].rows, rows);
}

TEST_F(HistoryFile, OnlyWhatWasMeasuredIsKept) {
  benchsuite::Run run = run_of("r1", "2026-01-01T00:00:00Z", 1);
  run.cases[0].variants[0].status = Status::error;
  run.cases[0].variants.push_back(variant_result("sampled", 2));
  run.cases[0].variants[1].step_samples_s = {1, 2, 3};
  History history(path(), Database::Mode::write);
  history.record(run, "sim");
  EXPECT_TRUE(history.rows({"tiny", "plain", "", "", "", 0}).empty());
  const auto found = history.rows({"tiny", "samp*", "iteration_s", "", "", 0});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].samples, 3);
  EXPECT_DOUBLE_EQ(found[0].spread, 1.4826) << "half a median of relative spread, times the value";
  EXPECT_TRUE(history.rows({"tiny", "sampled", "mfu", "", "", 0}).empty()) << "null is not 0";
}

TEST_F(HistoryFile, SeriesAreKeyedAndOrdered) {
  History history(path(), Database::Mode::write);
  history.record(run_of("r2", "2026-01-02T00:00:00Z", 2), "sim");
  history.record(run_of("r1", "2026-01-01T00:00:00Z", 1), "sim");
  history.record(run_of("r3", "2026-01-03T00:00:00Z", 3, "h2"), "sim");
  history.record(run_of("other", "2026-01-01T12:00:00Z", 9), "another system");
  const auto found = history.rows({"tiny", "", "iteration_s", "", "", 0});
  std::vector<std::string> order;
  for (const HistoryRow& row : found) order.push_back(row.run_id);
  EXPECT_EQ(order, (std::vector<std::string>{"other", "r1", "r2", "r3"})) << "by system, then by time";
  EXPECT_EQ(found[3].case_hash, "h2");
  EXPECT_EQ(history.rows({"tiny", "", "iteration_s", "sim", "", 1}).size(), 2u) << "the newest of each line";
  EXPECT_EQ(history.rows({"tiny", "", "iteration_s", "", "", 1})[1].run_id, "r3");
}

TEST_F(HistoryFile, PruneForgetsTheOldest) {
  History history(path(), Database::Mode::write);
  for (int i = 1; i <= 5; ++i) {
    history.record(run_of("r" + std::to_string(i), "2026-01-0" + std::to_string(i) + "T00:00:00Z", i, i < 3 ? "old" : "h"), "sim");
  }
  EXPECT_EQ(history.prune(2), 3);
  ASSERT_EQ(history.runs(0).size(), 2u);
  EXPECT_EQ(history.runs(0)[1].run_id, "r4");
  for (const HistoryRow& row : history.rows({})) EXPECT_EQ(row.case_hash, "h");
  EXPECT_EQ(history.prune(2), 0);
}

TEST_F(HistoryFile, NewerAndForeignFilesAreRefused) {
  { History(path(), Database::Mode::write).record(run_of("r1", "t", 1), "sim"); }
  { Database(path(), Database::Mode::write, 0).execute("PRAGMA user_version = 2"); }
  EXPECT_THAT(message([&] { History(path(), Database::Mode::write); }), HasSubstr("schema_version 2 is newer than 1"));
  { Database(folder_.file("foreign"), Database::Mode::write, 0).execute("CREATE TABLE mine (x)"); }
  EXPECT_THAT(message([&] { History(folder_.file("foreign"), Database::Mode::write); }), HasSubstr("another program"));
  write_text(folder_.file("text"), std::string(5000, 'x'));
  EXPECT_THAT(message([&] { History(folder_.file("text"), Database::Mode::write); }), HasSubstr("not a database"));
  EXPECT_EQ(read_text(folder_.file("text")), std::string(5000, 'x'));
  EXPECT_THAT(message([&] { History(folder_.file("none"), Database::Mode::read); }), HasSubstr("no history yet"));
}

TEST_F(HistoryFile, ALockedFileSaysSoAndNothingIsHalfWritten) {
  { History(path(), Database::Mode::write).record(run_of("r1", "t1", 1), "sim"); }
  Database other(path(), Database::Mode::write, 0);
  other.execute("BEGIN EXCLUSIVE");
  EXPECT_THAT(message([&] { History(path(), Database::Mode::write, 10).record(run_of("r2", "t2", 1), "sim"); }),
              testing::AllOf(HasSubstr("locked"), HasSubstr("another process holds it")));
  other.execute("ROLLBACK");
  EXPECT_EQ(History(path(), Database::Mode::read).runs(0).size(), 1u);
}

TEST_F(HistoryFile, AHundredThousandRowsAnswerAtOnce) {
  History history(path(), Database::Mode::write);
  benchsuite::Run run = run_of("", "", 1);
  for (int v = 0; v < 200; ++v) run.cases[0].variants.push_back(variant_result("v" + std::to_string(v), 1 + v));
  std::int64_t rows = 0;
  for (int i = 0; rows < 100000; ++i) {
    run.run_id = "r" + std::to_string(i);
    run.started = std::to_string(1000000 + i);
    rows += history.record(run, "sim");
  }
  const auto begin = std::chrono::steady_clock::now();
  const auto found = history.rows({"tiny", "v7", "iteration_s", "", "", 100});
  std::vector<double> values;
  for (const HistoryRow& row : found) values.push_back(row.value);
  trend_of(values, 0.01);
  const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  EXPECT_GE(found.size(), 40u);
  EXPECT_LT(ms, 200) << "takes about a millisecond on a quiet machine";
}

/// Ten runs, a jump by 20 % before the sixth, and one of another case hash.
std::vector<HistoryRow> jumping_rows() {
  std::vector<HistoryRow> rows;
  for (int i = 0; i < 11; ++i) {
    HistoryRow row;
    row.run_id = "run" + std::to_string(i);
    row.started = "2026-01-" + std::to_string(10 + i);
    row.commit = "c" + std::to_string(i);
    row.case_id = "<tiny>";
    row.variant = "plain";
    row.metric = "iteration_s";
    row.unit = "s";
    row.device = "sim";
    row.system = "sim";
    row.case_hash = i == 10 ? "h2" : "h1";
    row.value = (i < 5 ? 1.0 : 1.2) + 0.001 * (i % 2);
    rows.push_back(row);
  }
  return rows;
}

std::size_t count_of(const std::string& text, const std::string& word) {
  std::size_t count = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++count;
  return count;
}

TEST(TrendPage, DrawsRunsMedianBandAndChanges) {
  const std::string page = trend_page(lines_of(jumping_rows()));
  EXPECT_EQ(count_of(page, "<path class=\"dot"), 11u) << "a dot a run";
  EXPECT_EQ(count_of(page, "<path class=moved"), 1u) << "the level changes once";
  EXPECT_EQ(count_of(page, "<path class=other"), 1u) << "another case, another series";
  EXPECT_EQ(count_of(page, "<path class=band"), 3u) << "one a level and series: no band crosses a change";
  EXPECT_EQ(count_of(page, "<path class=mid"), 3u);
  EXPECT_THAT(page, HasSubstr("level changed by +20"));
  EXPECT_THAT(page, HasSubstr("at run5 (engine c4 before, c5 from there on)"));
  EXPECT_THAT(page, HasSubstr("the case changed, h1 to h2"));
  EXPECT_EQ(page.find("<tiny>"), std::string::npos) << "escaped";
  for (const char* word : {"<script", "http://", "https://", "src=", "nan", "inf"})
    EXPECT_EQ(page.find(word), std::string::npos) << word;
}

TEST(TrendPage, TheFirstDotStandsLeftAndTheLargestOnTop) {
  std::vector<HistoryRow> rows = jumping_rows();
  rows.resize(2);
  rows[1].value = 2;
  rows[1].case_hash = "h2";  // two series of one run: no band above a value but the effect floor's
  const std::string page = trend_page(lines_of(rows));
  EXPECT_THAT(page, HasSubstr("d=\"M0.0 "));
  EXPECT_THAT(page, HasSubstr("d=\"M1000.0 "));
  // Values 1 and 2 with bands of 1 %: 0.99 to 2.02 is 260 high, so 2 stands at (2.02 - 2) / 1.03 x 260.
  EXPECT_THAT(page, HasSubstr("M1000.0 5.0h0"));
}

}  // namespace
}  // namespace benchsuite
