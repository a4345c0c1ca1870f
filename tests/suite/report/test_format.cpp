#include "suite/report/format.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace benchsuite {
namespace {

TEST(Format, ThreeSignificantDigits) {
  EXPECT_EQ(significant(0), "0");
  EXPECT_EQ(significant(1.2345), "1.23");
  EXPECT_EQ(significant(9.996), "10.0");
  EXPECT_EQ(significant(99.96), "100");
  EXPECT_EQ(significant(123456), "123000");
  EXPECT_EQ(significant(-0.012345), "-0.0123");
  EXPECT_EQ(significant(std::numeric_limits<double>::quiet_NaN()), "–");
  EXPECT_EQ(significant(1e20), "1.00e+20");
}

TEST(Format, UnitsForPeople) {
  EXPECT_EQ(format_seconds(21.53), "21.5 s");
  EXPECT_EQ(format_seconds(0.31249), "312 ms");
  EXPECT_EQ(format_seconds(0.9999), "1.00 s");
  EXPECT_EQ(format_seconds(43.12e-6), "43.1 µs");
  EXPECT_EQ(format_bytes(2048.0 * 4 * 5120 * 2), "80.0 MiB");
  EXPECT_EQ(format_bytes(17), "17 B");
  EXPECT_EQ(format_percent(0.242), "24.2 %");
  EXPECT_EQ(format_range(1.2, 1.4, "x"), "1.20 – 1.40 ×");
  EXPECT_EQ(format_range(std::nullopt, 72, "GiB"), "≤ 72.0 GiB");
  EXPECT_EQ(format_range(5, 5, "1"), "= 5.00");
  EXPECT_EQ(format_range(0.5, 1.5, "s"), "500 ms – 1.50 s");
}

TEST(Format, ShowsTheDigitsThatDecide) {
  CheckResult check;
  check.value = 30000000001.0;
  check.unit = "bytes";
  check.pass_low = check.pass_high = 30000000000.0;
  EXPECT_GT(digits_to_tell_apart(check), 9);
  EXPECT_NE(format_in_unit(*check.value, "bytes", digits_to_tell_apart(check)),
            format_in_unit(*check.pass_low, "bytes", digits_to_tell_apart(check)));
  check.value = check.pass_low;
  EXPECT_EQ(digits_to_tell_apart(check), 3);
}

TEST(Format, RoundedPartsAddUpToTheTotal) {
  for (int seed = 1; seed < 200; ++seed) {
    std::vector<double> parts;
    for (int i = 0; i < 1 + seed % 7; ++i) parts.push_back(std::sin(seed * 12.9898 + i * 78.233) * 0.37);
    const double sum = std::accumulate(parts.begin(), parts.end(), 0.0);
    const std::int64_t total = std::llround(sum * 1000);
    const auto rounded = round_to_sum(parts, 1000, total);
    EXPECT_EQ(std::accumulate(rounded.begin(), rounded.end(), std::int64_t{0}), total);
    for (std::size_t i = 0; i < parts.size(); ++i)
      EXPECT_LE(std::abs(static_cast<double>(rounded[i]) - parts[i] * 1000), 1.0);
  }
  EXPECT_THROW(round_to_sum({0.001, 0.002}, 1000, 9), Error);
}

TEST(Format, SharesOfABreakdownAddUpToAHundredPercent) {
  Breakdown breakdown;
  for (int c = 0; c < kCategories; ++c) breakdown.time[static_cast<std::size_t>(c)] = 1'000'003 * (c + 1);
  const auto shares = permille_of(breakdown);
  EXPECT_EQ(std::accumulate(shares.begin(), shares.end(), std::int64_t{0}), 1000);
  EXPECT_EQ(shares[10], 167);  // 11 of 66 parts
}

TEST(Format, RatioIsAgainstTheFastestThatFits) {
  CaseResult result;
  result.variants.resize(4);
  const double steps[] = {1.3, 1.0, 0.9, 5.0};
  for (std::size_t i = 0; i < 4; ++i) {
    result.variants[i].iteration_s = steps[i];
    result.variants[i].layout = {{"tp", 4}, {"recompute", {{"granularity", i == 0 ? "full" : "none"}}}};
  }
  result.variants[2].fits = false;
  result.variants[3].hardware = "another";
  const auto ratios = step_ratios(result);
  EXPECT_DOUBLE_EQ(*ratios[0], 1.3);
  EXPECT_DOUBLE_EQ(*ratios[1], 1.0);
  EXPECT_DOUBLE_EQ(*ratios[2], 0.9);
  EXPECT_DOUBLE_EQ(*ratios[3], 1.0);
}

TEST(Format, QuotesForTheShell) {
  benchsuite::Run run;
  run.argv = {"/somewhere/benchsuite", "run", "--set", "title=it's $HOME", ""};
  EXPECT_EQ(reproduce_line(run), "benchsuite run --set 'title=it'\\''s $HOME' ''");
  run.argv.erase(run.argv.begin());
  EXPECT_EQ(reproduce_line(run), "benchsuite run --set 'title=it'\\''s $HOME' ''");
}

TEST(Format, TextStaysInItsColumns) {
  EXPECT_EQ(columns("µs – ×"), 6u);
  EXPECT_EQ(clip("µµµµµ", 3), "µµ…");
  EXPECT_EQ(clip("abc", 3), "abc");
  const auto lines = wrap("one two  three " + std::string(25, 'x'), 10);
  for (const std::string& line : lines) EXPECT_LE(columns(line), 10u);
  EXPECT_EQ(lines.front(), "one two");
}

TEST(Format, MarkdownEscapesOnlyWhatHasAMeaning) {
  EXPECT_EQ(markdown_escape("full_m8 | <b> *x* _y_\nz"), "full_m8 \\| &lt;b> \\*x\\* \\_y\\_ z");
}

TEST(Names, EveryValueHasOneOfItsOwn) {
  std::vector<std::string_view> names;
  for (int i = 0; i <= static_cast<int>(Status::error); ++i) names.push_back(name_of(static_cast<Status>(i)));
  for (int i = 0; i < kCategories; ++i) names.push_back(name_of(static_cast<Category>(i)));
  for (std::string_view name : names) EXPECT_NE(name, "?");
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
  for (int i = 0; i <= static_cast<int>(Verdict::shown); ++i) EXPECT_NE(name_of(static_cast<Verdict>(i)), "?");
  EXPECT_EQ(name_of(Category::tensor_recompute), "tensor_recompute");
  EXPECT_EQ(name_of(Status::aborted), "ABORTED");
}

}  // namespace
}  // namespace benchsuite
