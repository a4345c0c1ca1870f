// junit.xml and report.csv. That junit.xml obeys the schema is tested on the program: tests/scripts/test_result_files.py.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

#include "suite/report/csv.h"
#include "suite/report/junit.h"
#include "suite/report/renderings.h"
#include "tests/suite/report/fixture.h"

namespace benchsuite {
namespace {

using testing::HasSubstr;
using testing::Not;

std::size_t count(const std::string& text, const std::string& word) {
  std::size_t found = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
  return found;
}

/// One case, one variant, one check of each verdict.
benchsuite::Run run_of_all_verdicts() {
  benchsuite::Run run;
  run.run_id = "id";
  run.host = "node01";
  run.engine_commit = "abc";
  run.started = "2026-08-30T02:15:00Z";
  run.argv = {"run", "--case", "c"};
  CaseResult& result = run.cases.emplace_back();
  result.id = "c";
  result.status = Status::error;
  result.elapsed_s = 2;
  result.variants.emplace_back().id = "v";
  for (const Verdict verdict : {Verdict::pass, Verdict::warn, Verdict::fail, Verdict::improved, Verdict::noref,
                                Verdict::missing, Verdict::shown}) {
    CheckResult& check = result.checks.emplace_back();
    check.id = std::string("check ") + std::string(name_of(verdict));
    check.kind = verdict == Verdict::shown ? "claim" : "bound";
    check.gates = verdict != Verdict::shown;
    if (verdict != Verdict::missing) check.value = 3;
    check.pass_high = 2;
    check.verdict = verdict;
  }
  return run;
}

TEST(Junit, CountsWhatItHolds) {
  const std::string text = junit_report(run_of_all_verdicts());
  EXPECT_THAT(text, HasSubstr("<testsuite name=\"c\" id=\"0\" package=\"benchsuite\" hostname=\"node01\" "
                              "timestamp=\"2026-08-30T02:15:00\" time=\"2.000\" tests=\"7\" failures=\"1\" errors=\"1\" "
                              "skipped=\"1\">"));
  EXPECT_EQ(count(text, "<testcase "), 7u);
  EXPECT_EQ(count(text, "<failure "), 1u);
  EXPECT_EQ(count(text, "<error "), 1u);
  EXPECT_EQ(count(text, "<skipped "), 1u);
  EXPECT_THAT(text, HasSubstr("<failure type=\"BOUND_BROKEN\" message=\"got 3.00"));
  EXPECT_THAT(text, HasSubstr("<error type=\"MISSING_METRIC\""));
  EXPECT_THAT(text, HasSubstr("claim, never judged: check SHOWN"));
  EXPECT_THAT(text, HasSubstr("<property name=\"system\" value=\"node01\"/>"));
  EXPECT_THAT(text, HasSubstr("<property name=\"commit\" value=\"abc\"/>"));
}

TEST(Junit, SkippedIsSkippedAndNothingIsLost) {
  benchsuite::Run run = run_of_all_verdicts();
  CaseResult& result = run.cases[0];
  result.checks.clear();
  result.variants[0].status = result.status = Status::skip;
  result.variants[0].reason_code = result.reason_code = "NO_GPU";
  result.variants[0].reason = "needs 16 GPUs, found 1";
  std::string text = junit_report(run);
  EXPECT_THAT(text, HasSubstr("tests=\"1\" failures=\"0\" errors=\"0\" skipped=\"1\""));
  EXPECT_THAT(text, HasSubstr("<skipped message=\"NO_GPU: needs 16 GPUs, found 1\"/>"));
  // A case that ended badly before any test had a verdict.
  result.variants.clear();
  result.status = Status::timeout;
  result.reason_code = "TIMED_OUT";
  text = junit_report(run);
  EXPECT_THAT(text, HasSubstr("<testcase name=\"verdict\""));
  EXPECT_THAT(text, HasSubstr("<error type=\"TIMED_OUT\""));
  result.status = Status::fail;
  EXPECT_THAT(junit_report(run), HasSubstr("failures=\"1\""));
  // An empty case that "passed" still has a test, so that no server reads it as absent.
  result.status = Status::pass;
  EXPECT_THAT(junit_report(run), HasSubstr("tests=\"1\" failures=\"0\" errors=\"0\" skipped=\"0\""));
}

TEST(Junit, EscapesAndDropsWhatXmlCannotHold) {
  benchsuite::Run run = run_of_all_verdicts();
  run.cases[0].id = "a<b>&\"c\"\x01\x1b[31m\xff\xc3\xa9 \xed\xa0\x80 \xc0\xaf end";
  const std::string text = junit_report(run);
  EXPECT_THAT(text, HasSubstr("name=\"a&lt;b&gt;&amp;&quot;c&quot;  [31m \xc3\xa9     "));
  for (const char c : text) EXPECT_TRUE(static_cast<unsigned char>(c) >= 0x20 || c == '\n');
  EXPECT_THAT(text, Not(HasSubstr("\xed\xa0\x80")));
  EXPECT_THAT(text, Not(HasSubstr("\xff")));
}

TEST(Csv, EveryLineHasAllColumns) {
  benchsuite::Run run = synthetic_run();
  run.cases[0].variants[0].title = "unused";
  run.cases[0].checks[0].id = "with \"quotes\", commas\nand a line";
  run.cases[0].checks[1].id = "=HYPERLINK(1)";
  run.cases[0].variants[0].loss_curve = {3.5};
  const std::string text = csv_report(run);
  std::size_t columns = 1, lines = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') quoted = !quoted;
    if (quoted) continue;
    if (text[i] == ',') ++columns;
    if (text[i] == '\n') {
      EXPECT_EQ(text[i - 1], '\r');
      EXPECT_EQ(columns, 14u) << "line " << lines;
      columns = 1;
      ++lines;
    }
  }
  EXPECT_GT(lines, 500u);
  EXPECT_THAT(text, HasSubstr("\"with \"\"quotes\"\", commas\nand a line\""));
  EXPECT_THAT(text, HasSubstr(",'=HYPERLINK(1),"));
  EXPECT_THAT(text, HasSubstr("loss,sp_recompute_13b,full_m8,step.0,3.5,1,"));
  EXPECT_THAT(text, HasSubstr("metric,sp_recompute_13b,full_m8,iteration_s," +
                              std::to_string(run.cases[0].variants[0].iteration_s).substr(0, 5)));
}

TEST(Renderings, AreFoundByName) {
  for (const char* name : {"md", "html", "json", "junit", "csv"}) {
    ASSERT_NE(find_rendering(name), nullptr) << name;
    EXPECT_FALSE(find_rendering(name)->text(synthetic_run()).empty()) << name;
  }
  EXPECT_EQ(find_rendering("pdf"), nullptr);
}

}  // namespace
}  // namespace benchsuite
