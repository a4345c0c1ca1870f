#include "suite/report/html.h"

#include <gtest/gtest.h>

#include <array>
#include <ctime>
#include <limits>
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

/// The page without what is not text of the run: its own script, and the data for it, which is checked apart.
std::string without_scripts(std::string page) {
  for (const std::string open : {"<script type=application/json id=numbers>", "<script>"}) {
    const std::size_t from = page.find(open), to = page.find("</script>", from);
    EXPECT_NE(from, std::string::npos);
    page.erase(from, to + 9 - from);
  }
  return page;
}

TEST(Html, EscapesEveryString) {
  const std::string whole = html_report(hostile()), page = without_scripts(whole);
  EXPECT_EQ(page.find("<script"), std::string::npos);
  EXPECT_EQ(page.find("<img"), std::string::npos);
  EXPECT_EQ(page.find("alert('x')"), std::string::npos);
  EXPECT_NE(page.find("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt; &amp; &quot;q&quot;"), std::string::npos);
  // An ampersand always starts one of the five entities.
  EXPECT_FALSE(std::regex_search(page, std::regex("&(?!(amp|lt|gt|quot|#39);)")));
  // The data can't end its element or open another, and is still the text that it was.
  const std::string data = html::number_data(hostile());
  EXPECT_EQ(data.find('<'), std::string::npos);
  EXPECT_EQ(Json::parse(data).at("cases")[0].at("x")[0].at("id"), kEvil);
  EXPECT_NE(whole.find(data), std::string::npos);
}

TEST(Html, RequestsNothing) {
  for (const std::string& whole : {html_report(synthetic_run()), html_report(hostile())}) {
    EXPECT_NE(whole.find("default-src 'none'"), std::string::npos);
    const std::string page = without_scripts(whole);
    for (const char* word :
         {"<script", "<link", "<iframe", "<object", "<embed", "<base", "@import", "url(", " src=", " href=", "xlink"}) {
      // In the hostile page the words occur as escaped text; there the tag never opens.
      if (std::string(word) == " src=" && page.find("&lt;img src=") != std::string::npos) continue;
      EXPECT_EQ(page.find(word), std::string::npos) << word;
    }
  }
  EXPECT_FALSE(std::regex_search(without_scripts(html_report(synthetic_run())), std::regex("=\"?(https?:)?//")));
  for (const std::string_view script : {html::number_script(), html::gantt_script()}) {
    for (const char* word : {"fetch", "XMLHttpRequest", "import", "http", "innerHTML", "eval", "</script"})
      EXPECT_EQ(script.find(word), std::string_view::npos) << word;
  }
}

/// What the script does with gantt_data, once more in C++: spans as [category, micro-batch, chunk, end in quanta].
std::vector<std::array<std::int64_t, 4>> decoded(const Json& data, std::size_t lane) {
  const std::string letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::vector<std::uint32_t> packed, all;
  std::uint32_t bits = 0;
  int have = 0;
  for (char c : data.at("lanes").get<std::string>()) {
    if (c == '=') break;
    bits = bits << 6 | static_cast<std::uint32_t>(letters.find(c));
    have += 6;
    if (have >= 8) packed.push_back(bits >> (have -= 8) & 255);
  }
  std::size_t at = 0;
  const auto number = [&] {
    std::size_t value = 0, shift = 0;
    for (bool more = true; more; shift += 7) {
      value |= (packed.at(at) & 127u) << shift;
      more = packed[at++] > 127;
    }
    return value;
  };
  while (at < packed.size()) {
    for (std::size_t n = number(); n-- > 0;) all.push_back(packed.at(at++));
    if (at == packed.size()) break;
    const std::size_t length = number(), distance = number();
    for (std::size_t n = 0; n < length; ++n) all.push_back(all.at(all.size() - distance));
  }
  std::size_t first = 0;
  for (std::size_t before = 0; before < lane; ++before) first += data.at("sizes")[before].get<std::size_t>();
  EXPECT_LE(first + data.at("sizes")[lane].get<std::size_t>(), all.size());
  const std::vector<std::uint32_t> bytes(all.begin() + static_cast<std::ptrdiff_t>(first),
                                         all.begin() + static_cast<std::ptrdiff_t>(first + data.at("sizes")[lane].get<std::size_t>()));
  std::vector<std::array<std::int64_t, 4>> spans;
  std::int64_t end = 0, micro_batch = -1, chunk = -1;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::size_t token = bytes[i];
    if (token >= 224) token = (token - 224) * 256 + bytes.at(++i) + 224;
    const auto part = [&](std::size_t k) { return data.at("tokens").at(4 * token + k).get<std::int64_t>(); };
    end += part(1);
    micro_batch += part(2);
    chunk += part(3);
    spans.push_back({part(0), micro_batch, chunk, end});
  }
  return spans;
}

TEST(Html, TwelveVariantsTakeUnderThreeTenthsOfASecond) {
  const benchsuite::Run run = synthetic_run(true);
  double best = 1e9;  // of three, in processor time: other programs may run beside the test
  for (int i = 0; i < 3; ++i) {
    const std::clock_t begin = std::clock();
    html_report(run);
    best = std::min(best, static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
  }
  EXPECT_LT(best, 0.3);
}

// A step whose passes repeat takes a fraction of a byte a span.
TEST(GanttData, RepeatsAreSaidOnce) {
  benchsuite::Run run = synthetic_run();
  VariantResult& v = run.cases[0].variants[0];
  v.step = Picoseconds{1000} << 22;  // spans are whole quanta: no rounding tells passes apart
  const Picoseconds length = v.step / 2048;
  std::size_t spans = 0;
  for (StageResult& stage : v.stages) {
    stage.gantt.clear();
    for (int i = 0; i < 1024; ++i) {
      const Picoseconds at = 2 * length * i;
      stage.gantt.push_back({Category::forward, i, 0, at, at + length});
      stage.gantt.push_back({Category::backward, i, 0, at + length, at + 2 * length});
    }
    spans += stage.gantt.size();
  }
  EXPECT_LT(html::gantt_data(v).size(), 400 + spans / 8);
}

TEST(GanttData, HoldsEverySpanToTheQuantum) {
  const benchsuite::Run run = synthetic_run(true);
  for (const VariantResult& v : run.cases[0].variants) {
    const Json data = Json::parse(html::gantt_data(v));
    const auto quantum = data.at("quantum").get<std::int64_t>();
    EXPECT_LE(quantum, v.step / 100'000);
    for (std::size_t lane = 0; lane < v.stages.size(); ++lane) {
      const auto spans = decoded(data, lane);
      EXPECT_NEAR(static_cast<double>(spans.back()[3] * quantum), static_cast<double>(v.step), static_cast<double>(quantum));
      std::size_t at = 0;
      for (const GanttSpan& span : v.stages[lane].gantt) {
        if (span.end - span.start < 2 * quantum) continue;
        while (at < spans.size() && spans[at][3] * quantum < span.end - quantum) ++at;
        ASSERT_LT(at, spans.size());
        EXPECT_EQ(spans[at][0], static_cast<int>(span.category));
        EXPECT_EQ(spans[at][1], span.micro_batch);
        EXPECT_EQ(spans[at][2], span.chunk);
        EXPECT_NEAR(static_cast<double>(spans[at][3] * quantum), static_cast<double>(span.end), static_cast<double>(quantum));
      }
    }
  }
}

TEST(GanttData, ManyStagesAndMicroBatchesStaySmall) {
  // 1F1B of 64 stages and 512 micro-batches, lengths that don't divide, forward, collective, recompute and backward each.
  VariantResult v = wide_variant(64, 512);
  const std::string data = html::gantt_data(v);
  EXPECT_LT(data.size(), 600'000u);
  EXPECT_EQ(decoded(Json::parse(data), 63).size(), v.stages[63].gantt.size() + 3);  // waits at the start, for the first gradient, at the end
}

TEST(GanttData, OddInputGetsACoarserPictureNotAHang) {
  VariantResult v;
  v.step = 1'000'000'007;
  v.stages.resize(2);
  std::int64_t at = 0;
  for (int i = 0; i < 30'000; ++i) {  // no two spans alike
    const std::int64_t end = at + 1 + (i * 7919LL) % 60'000;
    if (end > v.step) break;
    v.stages[0].gantt.push_back({Category::forward, i * 31 % 9973, 0, at, end});
    at = end;
  }
  v.stages[1].gantt.push_back({Category::forward, 0, 0, -5, 2 * v.step});  // outside the step: cut
  const auto spans = decoded(Json::parse(html::gantt_data(v)), 1);
  ASSERT_EQ(spans.size(), 1u);
  EXPECT_EQ(spans[0][0], 0);
}

TEST(Numbers, EveryNumberOfThePageIsExplained) {
  const benchsuite::Run run = synthetic_run();
  const std::string page = without_scripts(html_report(run));
  const Json data = Json::parse(html::number_data(run));
  const Json& definitions = data.at("definitions");
  const std::regex key("data-q=([^ >]+)[ >]");
  std::size_t count = 0;
  for (std::sregex_iterator it(page.begin(), page.end(), key), end; it != end; ++it, ++count) {
    std::vector<std::string> words;
    std::istringstream parts((*it)[1].str());
    for (std::string word; std::getline(parts, word, '.');) words.push_back(word);
    const Json& result = data.at("cases").at(std::stoul(words.at(0)));
    const Json& thing = result.at(words.at(1).substr(0, 1)).at(std::stoul(words.at(1).substr(1)));
    if (words[1][0] == 'x') continue;
    if (words[1][0] == 'w') {
      if (words.at(2)[0] == 'p') {
        EXPECT_LT(std::stoul(words[2].substr(1)), thing.at("parts").size());
      }
      continue;
    }
    const std::string& last = words.back();
    if (words.at(2) == "k") {
      EXPECT_TRUE(definitions.contains("k." + last)) << (*it)[1];
    } else if (words.size() == 3) {
      EXPECT_TRUE(definitions.contains(last) && thing.at("values").contains(last)) << (*it)[1];
    } else {
      const char* list = words[2][0] == 's' ? "stages" : "comm";
      EXPECT_TRUE(definitions.contains(last) && thing.at(list).at(std::stoul(words[2].substr(1))).contains(last)) << (*it)[1];
    }
  }
  EXPECT_GT(count, 500u);
  // Every definition says how and from where, and names inputs that exist.
  for (const html::NumberDefinition& d : html::number_definitions()) {
    EXPECT_FALSE(d.formula.empty() || d.source.empty()) << d.key;
  }
}

TEST(Numbers, DefinitionsAreTheArithmeticOfTheValues) {
  const Json data = Json::parse(html::number_data(synthetic_run()));
  for (const Json& v : data.at("cases")[0].at("v")) {
    const Json& n = v.at("values");
    const auto of = [&](const char* key) { return n.at(key).get<double>(); };
    EXPECT_NEAR(of("mfu"), of("flops_model") / (of("iteration_s") * of("gpus") * of("peak_flops")), 1e-8);
    EXPECT_NEAR(of("peak_flops"), 989e12, 1e6);
    EXPECT_NEAR(of("bubble_formula_step"), (of("pp") - 1) / (of("vpp") * of("micro_batches") + of("pp") - 1), 1e-8);
    EXPECT_NEAR(of("tokens_per_s_per_gpu"), of("global_batch") * of("seq") / of("iteration_s") / of("gpus"), 1e-3);
  }
}

TEST(Html, LossCurvesWhereTrained) {
  benchsuite::Run run = synthetic_run();
  EXPECT_EQ(html_report(run).find("<h3>Loss"), std::string::npos);
  for (int step = 0; step < 2000; ++step) run.cases[0].variants[0].loss_curve.push_back(10.0 - 0.001 * step);
  run.cases[0].variants[1].loss_curve = {9.0, std::numeric_limits<double>::quiet_NaN(), 8.5};
  run.cases[0].variants[0].loss_curve[700] = 42;  // one spike among 2,000 steps is still seen
  const std::string page = html_report(run);
  EXPECT_NE(page.find("<h3>Loss"), std::string::npos);
  EXPECT_NE(page.find("2000 steps"), std::string::npos);
  EXPECT_NE(page.find("1 not finite"), std::string::npos);
  const std::size_t chart = page.find("<div class=loss>");
  EXPECT_NE(page.find(" 0.0L", chart), std::string::npos);  // the spike reaches the top
  EXPECT_NE(page.find("<span>42"), std::string::npos);
}

TEST(Html, ShowsTheEnvironment) {
  benchsuite::Run run = synthetic_run();
  run.environment = {{"kernel", "6.1.0"}, {"gpu", {{{"name", "H100 <80GB>"}}}}, {"cores", 16}};
  const std::string page = html_report(run);
  const std::size_t at = page.find("<h3>Environment");
  for (const char* word : {"<dt>kernel</dt><dd>6.1.0", "<dt>gpu.0.name</dt><dd>H100 &lt;80GB&gt;", "<dt>cores</dt><dd>16"})
    EXPECT_NE(page.find(word, at), std::string::npos) << word;
}

TEST(Html, TableOfMeasuredAgainstExpected) {
  benchsuite::Run run = synthetic_run();
  std::string page = html_report(run);
  const std::size_t table = page.find("<table class=checks>");
  ASSERT_NE(table, std::string::npos);
  EXPECT_EQ(page.compare(page.find("<th>measured", table), 84, "<th>measured<th class=l>expected<th>Δ<th>n<th>spread<th class=l>verdict<th class=l>kind", 0, 84), 0);
  EXPECT_NE(page.find("<td>1<td>exact<td class=l><span class=\"pill", table), std::string::npos);
  run.device = "cpu";
  run.cases[0].variants[0].step_samples_s = {1.0, 1.02, 1.1};
  run.cases[0].variants[1].step_samples_s = {1.0, 1.0};
  page = html_report(run);
  EXPECT_NE(page.find("<td>2<td>9.80 %<td"), std::string::npos);  // n: the fewer of the two; (1.1 - 1.0) / 1.02
}

TEST(Html, ATrainingHasNoTableOfZeros) {
  benchsuite::Run run = synthetic_run();
  for (VariantResult& v : run.cases[0].variants) {
    v.mean_breakdown = {};
    v.stages.clear();
    v.loss_curve = {5.0, 4.0};
  }
  EXPECT_EQ(html_report(run).find("Where the step goes"), std::string::npos);
  const std::string text = markdown_report(run);
  EXPECT_EQ(text.find("Where the step goes"), std::string::npos);
  EXPECT_NE(text.find("### Loss\n\n| variant | steps | first | last |"), std::string::npos);
  EXPECT_NE(text.find("| 2 | 5.00000 | 4.00000 |"), std::string::npos);
}

TEST(Html, DefinitionsStandOpen) {
  // On paper and without script nobody opens anything: the formulas are in no <details> that is closed.
  const std::string page = html_report(synthetic_run());
  const std::size_t at = page.find("<h3>How the numbers are made");
  ASSERT_NE(at, std::string::npos);
  for (const html::NumberDefinition& definition : html::number_definitions())
    EXPECT_NE(page.find(html_escape(definition.formula), at), std::string::npos) << definition.key;
  const std::string before = page.substr(0, at);
  const auto count = [&](const std::string& word) {
    std::size_t found = 0;
    for (std::size_t i = before.find(word); i != std::string::npos; i = before.find(word, i + 1)) ++found;
    return found;
  };
  EXPECT_EQ(count("<details"), count("</details>"));
}

TEST(Html, ChecksShowTheirTitlesAndKeepTheirIds) {
  benchsuite::Run run = synthetic_run();
  run.cases[0].checks[0].id = "stable_id_of_it";
  run.cases[0].checks[0].title = "what people read";
  const std::string page = html_report(run);
  EXPECT_NE(page.find("what people read"), std::string::npos);
  EXPECT_NE(html::number_data(run).find("stable_id_of_it"), std::string::npos);
}

TEST(Html, TellsTheStoryInOrder) {
  const std::string page = html_report(synthetic_run());
  std::size_t at = 0;
  for (const char* word : {"class=\"verdict t-bad\"", "benchsuite run --case sp_recompute_13b", "What failed and why",
                           "step-time ratio across nodes", "<h3>Why</h3>", "full_m8 → selective_m8",
                           "<h3>Variants</h3>", "Where the step goes", "Pipeline timeline", "Memory by purpose",
                           "Communication", "Measured against expected", "Korthikanti et al. 2022", "<h3>Claims</h3>",
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
  html::gantt_chart(page, v, 1000, 0, 0);
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
  html::gantt_chart(few, run.cases[0].variants[0], 1000, 0, 0);
  html::gantt_chart(many, run.cases[0].variants[3], 1000, 0, 3);
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
