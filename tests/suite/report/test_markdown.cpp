#include "suite/report/markdown.h"

#include <gtest/gtest.h>

#include <regex>
#include <sstream>

#include "suite/report/html_parts.h"
#include "tests/suite/report/fixture.h"

namespace benchsuite {
namespace {

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
