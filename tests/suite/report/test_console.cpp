#include <gtest/gtest.h>

#include <regex>
#include <sstream>

#include "suite/report/console.h"
#include "suite/report/format.h"
#include "tests/suite/report/fixture.h"

namespace benchsuite {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST(Console, SummaryLineIsTheDocumentedOne) {
  benchsuite::Run run;
  run.exit_code = 1;
  const auto add = [&](Status status, int count) {
    for (int i = 0; i < count; ++i) run.cases.emplace_back().status = status;
  };
  add(Status::pass, 10);
  add(Status::warn, 1);
  add(Status::fail, 1);
  add(Status::skip, 2);
  EXPECT_EQ(console_summary(run, "results/20260830T021500Z-7f3a"),
            "benchsuite: 14 cases: 10 PASS, 1 WARN, 1 FAIL, 2 SKIP, 0 ERROR  [results/20260830T021500Z-7f3a]  exit=1");
  // Statuses outside the five are counted too: the counts always add up to the cases.
  add(Status::noref, 1);
  add(Status::timeout, 2);
  EXPECT_EQ(count_line(run), "17 cases: 10 PASS, 1 WARN, 1 FAIL, 2 SKIP, 0 ERROR, 1 NOREF, 2 TIMEOUT");
}

TEST(Console, GoldenLines) {
  CaseResult result;
  result.id = "tiny";
  result.title = "A tiny case";
  result.status = Status::fail;
  result.reason_code = "PERF_WORSE";
  result.reason = "1 of 2 expectations failed";
  result.elapsed_s = 0.125;
  VariantResult v;
  v.id = "full";
  v.step = 2'000'000'000'000;
  v.iteration_s = 2;
  v.mfu = 0.24;
  v.hfu = 0.315;
  v.gpu_busy = 0.951;
  v.bubble_share = 0.28;
  v.bubble_formula_step = 3.0 / 11;
  v.recompute_s = 0.4;
  v.peak_memory_gib = 61.25;
  v.capacity_gib = 80;
  v.ranks_in_breakdown = 2;
  v.mean_breakdown.time[static_cast<std::size_t>(Category::tensor)] = 400'000'000'000;
  v.mean_breakdown.time[static_cast<std::size_t>(Category::tensor_recompute)] = 200'000'000'000;
  result.variants.push_back(v);
  v.id = "selective";
  v.iteration_s = 1.5;
  result.variants.push_back(v);
  result.waterfalls.push_back(
      {"w", "full", "selective", 2, 1.5, {{"recompute", -0.4, ""}, {"rest", -0.1, ""}}, "One line."});
  CheckResult check;
  check.id = "ratio";
  check.kind = "measurement";
  check.value = 4.0 / 3;
  check.unit = "x";
  check.pass_low = 1.2;
  check.pass_high = 1.3;
  check.verdict = Verdict::fail;
  check.source = "a paper, Table 5";
  result.checks.push_back(check);
  EXPECT_EQ(console_start(result, "sim", false), "[ RUN  ] tiny  (2 variants on sim)\n");
  // The picture has 91 columns for 2 s: recompute covers 1.6 to 2.0 s, rest 1.5 to 1.6 s.
  const auto bar = [](int from, int to, const char* block) {
    std::string text(static_cast<std::size_t>(from), ' ');
    for (int i = from; i < to; ++i) text += block;
    return text + "\n";
  };
  EXPECT_EQ(console_case(result, false),
            "[ FAIL ] tiny  125 ms\n"
            "         A tiny case\n"
            "         PERF_WORSE: 1 of 2 expectations failed\n"
            "\n"
            "  variant      step     MFU     HFU    busy  bubble | formula  exposed TP  recompute  peak / GiB  ratio\n"
            "  full       2.00 s  24.0 %  31.5 %  95.1 %   28.0 % | 27.3 %      300 ms     400 ms   61.2 / 80   1.33\n"
            "  selective  1.50 s  24.0 %  31.5 %  95.1 %   28.0 % | 27.3 %      300 ms     400 ms   61.2 / 80   1.00\n"
            "  ratio: step over the fastest of the same model, hardware and layout (recompute apart) that fits\n"
            "\n"
            "  why: full → selective  (−500 ms)\n"
            "    full           2000 ms  " +
                bar(0, 91, "█") + "    recompute      −400 ms  " + bar(73, 91, "▒") + "    rest           −100 ms  " +
                bar(68, 73, "▒") + "    selective      1500 ms  " + bar(0, 68, "█") +
                "    One line.\n"
                "\n"
                "  verdict  expectation   value       expected  kind\n"
                "  FAIL     ratio        1.33 ×  1.20 – 1.30 ×  measurement\n"
                "             a paper, Table 5\n"
                "\n"
                "  reproduce: benchsuite run --case tiny\n");
}

TEST(Console, FitsTheColumnsAndStripsControlCharacters) {
  benchsuite::Run run = synthetic_run();
  CaseResult& result = run.cases[0];
  result.title = std::string(300, 'x') + "\x1b[2J\n" + std::string(200, 'y');
  result.variants[0].id = "a_variant_with_a_name_much_longer_than_anybody_needs";
  result.checks[0].id = std::string(150, 'z');
  result.checks[0].source = std::string(260, 's');
  result.waterfalls[0].parts[0].name = std::string(90, 'w');
  const std::string text = console_case(result, false);
  for (const std::string& line : lines_of(text)) {
    EXPECT_LE(columns(line), kConsoleColumns) << line;
    EXPECT_EQ(line.find('\x1b'), std::string::npos);
  }
  EXPECT_NE(console_case(result, true).find("\x1b[31m"), std::string::npos);
}

TEST(Console, ShownWaterfallAddsUp) {
  // Parts whose roundings add up to something else than the rounded difference.
  const Waterfall awkward{"w", "a", "b", 1.3364, 1.0242, {{"p", -0.1036, ""}, {"q", -0.1036, ""}, {"r", -0.1050, ""}},
                          ""};
  const WaterfallView view = view_of(awkward);
  ASSERT_EQ(view.rows.size(), 3u);
  EXPECT_EQ(view.from + view.rows[0].ticks + view.rows[1].ticks + view.rows[2].ticks, view.to);
  CaseResult result;
  result.waterfalls.push_back(awkward);
  const std::string text = console_case(result, false);
  // The numbers as printed: from, three parts, to.
  std::vector<long> shown;
  const std::regex number("  (−)?([0-9]+) ms");
  for (std::sregex_iterator it(text.begin(), text.end(), number), end; it != end; ++it) {
    shown.push_back((*it)[1].matched ? -std::stol((*it)[2]) : std::stol((*it)[2]));
  }
  ASSERT_EQ(shown.size(), 5u) << text;
  EXPECT_EQ(shown[0] + shown[1] + shown[2] + shown[3], shown[4]) << text;
  EXPECT_EQ(shown[0], 1336);
  EXPECT_EQ(shown[4], 1024);
}

TEST(Console, PartsThatPrintAsZeroShareALine) {
  CaseResult result;
  result.waterfalls.push_back(
      {"w", "a", "b", 2, 1, {{"p", -1, ""}, {"q", 0, ""}, {"r", 1e-6, ""}, {"s", -1e-6, ""}}, ""});
  const std::string text = console_case(result, false);
  EXPECT_NE(text.find("    unchanged: q, r, s\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("0.00 s"), std::string::npos) << text;
}

TEST(Console, OneSourceBelowTheRowsThatShareIt) {
  CaseResult result;
  result.checks.resize(3);
  for (CheckResult& check : result.checks) {
    check.id = check.kind = "measurement";
    check.value = 1;
    check.verdict = Verdict::pass;
    check.source = "table 5";
  }
  result.checks[2].source = "table 6";
  const std::string text = console_case(result, false);
  EXPECT_EQ(text.find("table 5"), text.rfind("table 5")) << text;
  EXPECT_LT(text.find("table 5"), text.rfind("PASS     measurement")) << text;
  EXPECT_LT(text.rfind("PASS     measurement"), text.find("table 6")) << text;
}

TEST(Console, WaterfallThatDoesNotAddUpSaysSo) {
  const Waterfall wrong{"w", "a", "b", 2, 1, {{"p", -0.6, ""}}, ""};
  const WaterfallView view = view_of(wrong);
  ASSERT_EQ(view.rows.size(), 2u);
  EXPECT_EQ(view.rows[1].name, "not explained");
  EXPECT_EQ(view.scale.text(view.rows[1].ticks, true), "−0.40 s");
}

TEST(Console, FailuresComeFirstAndHeldBoundsAreCounted) {
  const std::string text = console_case(synthetic_run().cases[0], false);
  const std::size_t fail = text.find("FAIL     step-time ratio across nodes"),
                    pass = text.find("PASS     step-time ratio full/selective");
  ASSERT_NE(fail, std::string::npos);
  ASSERT_NE(pass, std::string::npos);
  EXPECT_LT(fail, pass);
  EXPECT_NE(text.find("12 more bounds hold"), std::string::npos);
  EXPECT_NE(text.find("- document 000: throughput: claimed 102 samples/s"), std::string::npos);
}

}  // namespace
}  // namespace benchsuite
