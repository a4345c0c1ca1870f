#include "suite/report/html.h"

#include <gtest/gtest.h>

#include <regex>
#include <sstream>

#include "suite/report/format.h"
#include "suite/report/html_parts.h"
#include "suite/report/markdown.h"
#include "tests/suite/report/fixture.h"

namespace benchsuite {
namespace {

constexpr const char* kEvil = "<script>alert('x')</script> & \"q\" <img src=x onerror=y>";

/// A run with hostile text in every string.
benchsuite::Run hostile() {
  benchsuite::Run run = synthetic_run();
  run.run_id = run.suite_version = run.engine_commit = run.device = run.started = run.ended = run.host = kEvil;
  run.argv = {"benchsuite", kEvil};
  CaseResult& result = run.cases[0];
  result.id = result.title = result.case_hash = result.reason_code = result.reason = kEvil;
  result.method_note = std::string("# ") + kEvil + "\n\n" + kEvil + "\n\n- " + kEvil + "\n\n`" + kEvil + "` [" + kEvil +
                       "](https://evil.example/\"onx=1)\n\n|" + kEvil + "|\n|---|\n|" + kEvil + "|\n\n```\n" + kEvil +
                       "\n```\n";
  for (VariantResult& v : result.variants) {
    v.id = v.title = v.hardware = v.stack = v.reason_code = v.reason = v.flops_formula = kEvil;
    v.status = Status::warn;
    v.model["name"] = kEvil;
    v.layout["attention"] = kEvil;
    for (CommunicationTime& kind : v.communication) kind.kind = kEvil;
    for (StageResult& stage : v.stages) {
      for (auto& purpose : stage.memory.by_purpose) purpose.first = kEvil;
      for (auto& term : stage.memory.saved_terms) term.name = term.formula = kEvil;
    }
  }
  for (Waterfall& fall : result.waterfalls) {
    fall.id = fall.from = fall.to = fall.one_line = kEvil;
    for (auto& part : fall.parts) part.name = part.explanation = kEvil;
  }
  for (CheckResult& check : result.checks)
    check.id = check.metric = check.kind = check.unit = check.source = check.explanation = kEvil;
  return run;
}

TEST(Html, EscapesEveryString) {
  const std::string page = html_report(hostile());
  EXPECT_EQ(page.find("<script"), std::string::npos);
  EXPECT_EQ(page.find("<img"), std::string::npos);
  EXPECT_EQ(page.find("alert('x')"), std::string::npos);
  EXPECT_NE(page.find("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt; &amp; &quot;q&quot;"), std::string::npos);
  // An ampersand always starts one of the five entities.
  EXPECT_FALSE(std::regex_search(page, std::regex("&(?!(amp|lt|gt|quot|#39);)")));
}

TEST(Html, RequestsNothing) {
  for (const std::string& page : {html_report(synthetic_run()), html_report(hostile())}) {
    for (const char* word :
         {"<script", "<link", "<iframe", "<object", "<embed", "<base", "@import", "url(", " src=", " href=", "xlink"}) {
      // In the hostile page the words occur as escaped text; there the tag never opens.
      if (std::string(word) == " src=" && page.find("&lt;img src=") != std::string::npos) continue;
      EXPECT_EQ(page.find(word), std::string::npos) << word;
    }
  }
  EXPECT_FALSE(std::regex_search(html_report(synthetic_run()), std::regex("=\"?(https?:)?//")));
}

TEST(Html, TellsTheStoryInOrder) {
  const std::string page = html_report(synthetic_run());
  std::size_t at = 0;
  for (const char* word : {"class=\"verdict t-bad\"", "benchsuite run --case sp_recompute_13b", "What failed and why",
                           "step-time ratio across nodes", "<h3>Why</h3>", "full_m8 → selective_m8",
                           "<h3>Variants</h3>", "Where the step goes", "Pipeline timeline", "Memory by purpose",
                           "Communication", "Expected ranges", "Korthikanti et al. 2022", "<h3>Claims</h3>",
                           "103 % of the 15.8 PFLOP/s", "<h3>Method</h3>", "<footer>", "synthetic-host"}) {
    const std::size_t found = page.find(word, at);
    ASSERT_NE(found, std::string::npos) << word;
    at = found;
  }
  for (const char* word : {"prefers-color-scheme:dark", "@media print", "<svg", "k-recompute", "does not fit"})
    EXPECT_NE(page.find(word), std::string::npos) << word;
}

TEST(Html, TwelveVariantsStayUnderAMegabyte) {
  EXPECT_EQ(synthetic_run().cases[0].variants.size(), 12u);
  EXPECT_LT(html_report(synthetic_run(false)).size(), 1'000'000u);
  EXPECT_LT(html_report(synthetic_run(true)).size(), 1'000'000u);
}

TEST(Html, PictureKeepsTheSharesOfWhatIsTooSmallToDraw) {
  // Spans of a fifth of a column each: forward has 3/4 of the time, tensor communication 1/4.
  VariantResult v;
  v.id = "v";
  v.step = 400'000;
  v.stages.resize(1);
  for (Picoseconds t = 0; t < v.step; t += 80) {
    v.stages[0].gantt.push_back({Category::forward, 0, 0, t, t + 60});
    v.stages[0].gantt.push_back({Category::tensor, 0, 0, t + 60, t + 80});
  }
  html::Page page;
  html::gantt_chart(page, v, 1000);
  const std::string text = page.take();
  const auto drawn = [&](const std::string& category) {
    const std::size_t path = text.find("<path class=" + category + " d=");
    if (path == std::string::npos) return 0;
    const std::size_t data = text.find("d=\"", path) + 3;
    const std::string only = text.substr(data, text.find('"', data) - data);
    int total = 0;
    const std::regex stroke("h([0-9]+)");
    for (std::sregex_iterator it(only.begin(), only.end(), stroke), end; it != end; ++it) total += std::stoi((*it)[1]);
    return total;
  };
  EXPECT_NEAR(drawn("k-forward"), 750, 5);
  EXPECT_NEAR(drawn("k-tensor"), 250, 5);
}

TEST(Html, NarrowPassesGetAnEnlargedPicture) {
  const benchsuite::Run run = synthetic_run();
  html::Page few, many;
  html::gantt_chart(few, run.cases[0].variants[0], 1000);
  html::gantt_chart(many, run.cases[0].variants[3], 1000);
  EXPECT_EQ(few.take().find("enlarged"), std::string::npos);
  EXPECT_NE(many.take().find("enlarged"), std::string::npos);
}

TEST(Html, ManyPassingBoundsAreFoldedButThere) {
  benchsuite::Run run = synthetic_run();
  CaseResult& result = run.cases[0];
  for (int i = 0; i < 40; ++i) {
    CheckResult& check = result.checks.emplace_back();
    check.id = "extra " + std::to_string(i);
    check.kind = "bound";
    check.value = check.pass_low = check.pass_high = i;
    check.verdict = i == 7 ? Verdict::fail : Verdict::pass;
  }
  const std::string page = html_report(run);
  const std::size_t fold = page.find("<summary>51 bounds hold");  // 12 of the fixture, 39 of these
  ASSERT_NE(fold, std::string::npos);
  EXPECT_LT(page.rfind(">extra 7<"), fold);
  EXPECT_GT(page.find(">extra 8<"), fold);
}

TEST(Html, SurvivesEmptyAndBrokenRuns) {
  EXPECT_NE(html_report(benchsuite::Run{}).find("nothing was judged"), std::string::npos);
  benchsuite::Run run;
  run.cases.emplace_back().status = Status::skip;
  run.cases[0].reason_code = "NOT_ENOUGH_GPUS";
  run.cases[0].variants.emplace_back().status = Status::skip;
  run.cases[0].checks.emplace_back().verdict = Verdict::missing;
  run.cases[0].waterfalls.emplace_back();
  EXPECT_NE(html_report(run).find("NOT_ENOUGH_GPUS"), std::string::npos);
  EXPECT_NE(markdown_report(run).find("is missing"), std::string::npos);
}

TEST(MarkdownToHtml, RendersTheSubset) {
  EXPECT_EQ(html::markdown_to_html("# A *b*\n\ntext `x<y` **z**\nmore\n", 4),
            "<h4>A <em>b</em></h4>\n<p>text <code>x&lt;y</code> <strong>z</strong> more</p>\n");
  EXPECT_EQ(html::markdown_to_html("- a\n  b\n- c\n\n1. d", 4),
            "<ul><li>a b</li><li>c</li></ul>\n<ol><li>d</li></ol>\n");
  EXPECT_EQ(html::markdown_to_html("```\n<a> *b*\n```", 4), "<pre><code>&lt;a&gt; *b*\n</code></pre>\n");
  EXPECT_EQ(html::markdown_to_html("a snake_case_name and 2 * 3 * 4", 4), "<p>a snake_case_name and 2 * 3 * 4</p>\n");
  EXPECT_EQ(html::markdown_to_html("[p](https://x.y)", 4), "<p>p <span class=\"soft mono\">(https://x.y)</span></p>\n");
}

TEST(Markdown, VerdictFailuresTablesAndSums) {
  const std::string text = markdown_report(synthetic_run());
  std::size_t at = 0;
  for (const char* word :
       {"# benchsuite 20260830T021500Z-7f3a: FAIL", "benchsuite run --case sp_recompute_13b", "## What failed and why",
        "**FAIL** sp_recompute_13b: step-time ratio across", "### Why: full_m8 → selective_m8", "### Variants",
        "### Expectations", "### Claims", "### Method", "#### Method"}) {
    const std::size_t found = text.find(word, at);
    ASSERT_NE(found, std::string::npos) << word;
    at = found;
  }
  // Each row of the shares adds up to 100.0 as printed.
  const std::size_t table = text.find("### Where the step goes");
  std::istringstream lines(text.substr(table, text.find("\n### ", table + 5) - table));
  int rows = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.find("_m8 |") == std::string::npos && line.find("_m128 |") == std::string::npos) continue;
    int tenths = 0, count = 0;
    const std::regex number("\\| ([0-9]+)\\.([0-9])(?= )");
    for (std::sregex_iterator it(line.begin(), line.end(), number), end; it != end && count < kCategories;
         ++it, ++count)
      tenths += std::stoi((*it)[1]) * 10 + std::stoi((*it)[2]);
    EXPECT_EQ(count, kCategories) << line;
    EXPECT_EQ(tenths, 1000) << line;
    ++rows;
  }
  EXPECT_EQ(rows, 8);
}

TEST(Markdown, HostileTextBringsNoMarkup) {
  const std::string text = markdown_report(hostile());
  const std::string without_note = text.substr(0, text.find("### Method"));
  EXPECT_EQ(without_note.substr(without_note.find("## What failed")).find("<script"), std::string::npos);
}

}  // namespace
}  // namespace benchsuite
