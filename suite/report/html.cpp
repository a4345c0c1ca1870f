#include "suite/report/html.h"

#include <algorithm>

#include "suite/report/format.h"
#include "suite/report/html_parts.h"

namespace benchsuite {
namespace html {

void Page::text(std::string_view text) { text_ += html_escape(text); }

std::string category_class(Category category) { return "k-" + std::string(name_of(category)); }

std::string_view tone_of(Status status) {
  switch (status) {
    case Status::pass:
    case Status::xfail: return "ok";
    case Status::warn:
    case Status::xpass: return "warn";
    case Status::skip:
    case Status::noref: return "mute";
    case Status::fail:
    case Status::aborted:
    case Status::timeout:
    case Status::error: return "bad";
  }
  return "bad";
}

std::string_view tone_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::pass: return "ok";
    case Verdict::warn:
    case Verdict::improved: return "warn";
    case Verdict::noref:
    case Verdict::shown: return "mute";
    case Verdict::fail:
    case Verdict::missing: return "bad";
  }
  return "bad";
}

void pill(Page& page, std::string_view word, std::string_view tone) {
  page.add("<span class=\"pill t-{}\">{}</span>", tone, word);
}

void category_legend(Page& page) {
  page.raw("<ul class=legend>");
  for (const CategoryStyle& style : category_styles()) {
    page.add("<li title=\"{}\"><span class=\"key {}\"></span>{}</li>", style.meaning, category_class(style.category),
             style.title);
  }
  page.raw("</ul>");
}

namespace {

/// Picture columns for all lanes of all variants of a page together: bounds its size.
constexpr std::size_t kColumnsOnPage = 24000;

void failures(Page& page, const Run& run) {
  Page list;
  bool any = false;
  const auto item = [&](std::string_view word, std::string_view tone, const std::string& what, const std::string& why,
                        const std::string& source) {
    any = true;
    list.raw("<li>");
    pill(list, word, tone);
    list.raw(" <b>");
    list.text(what);
    list.raw("</b><p>");
    list.text(why);
    if (!source.empty()) {
      list.raw(" <span class=soft>(");
      list.text(source);
      list.raw(")</span>");
    }
    list.raw("</p></li>");
  };
  for (const CaseResult& result : run.cases) {
    if (result.status != Status::pass && !(result.reason_code + result.reason).empty()) {
      item(name_of(result.status), tone_of(result.status), result.id,
           result.reason_code + (result.reason_code.empty() || result.reason.empty() ? "" : ": ") + result.reason, "");
    }
    for (const CheckResult& check : result.checks) {
      if (!needs_attention(check)) continue;
      const std::string why = failure_text(check) + (check.explanation.empty() ? "" : ". " + check.explanation);
      item(name_of(check.verdict), tone_of(check.verdict), result.id + ": " + title_of(check), why,
           check.kind + ": " + check.source);
    }
    for (const VariantResult& v : result.variants) {
      if (v.status == Status::pass) continue;
      item(name_of(v.status), tone_of(v.status), result.id + "/" + v.id,
           v.reason_code + (v.reason_code.empty() || v.reason.empty() ? "" : ": ") + v.reason, "");
    }
  }
  page.raw("<h3>What failed and why</h3>");
  if (any) {
    page.raw("<ul class=fails>");
    page.raw(list.take());
    page.raw("</ul>");
  } else {
    page.raw(run.cases.empty() ? "<p>No case ran: nothing was judged.</p>" : "<p class=soft>Nothing failed.</p>");
  }
}

void case_section(Page& page, const CaseResult& result, std::string_view device, std::size_t index,
                  std::size_t column_budget) {
  page.raw("<h2>");
  page.text(result.id);
  page.raw(" ");
  pill(page, name_of(result.status), tone_of(result.status));
  page.raw("</h2><p class=soft>");
  page.text(result.title);
  page.raw("</p>");
  if (!result.waterfalls.empty()) page.raw("<h3>Why</h3>");
  for (std::size_t i = 0; i < result.waterfalls.size(); ++i)
    waterfall_chart(page, result.waterfalls[i], fmt::format("{}.w{}", index, i));
  if (!result.variants.empty()) {
    variants_table(page, result, index);
    bubble_table(page, result, index);
    breakdown_chart(page, result, index);
  }
  loss_chart(page, result, index);
  const bool pictures = std::any_of(result.variants.begin(), result.variants.end(),
                                    [](const VariantResult& v) { return v.step > 0 && !v.stages.empty(); });
  if (pictures) {
    page.raw(
        "<h3>Pipeline timeline</h3><p class=soft>One step; stages are lanes, numbers are micro-batches. Each picture "
        "has its own time scale.</p>");
    category_legend(page);
    for (std::size_t i = 0; i < result.variants.size(); ++i)
      gantt_chart(page, result.variants[i], column_budget, index, i);
  }
  memory_chart(page, result, index);
  communication_table(page, result, index);
  checks_table(page, result, device, index);
  claims_list(page, result, index);
  if (!result.method_note.empty()) {
    page.raw("<h3>Method</h3><div class=note>");
    page.raw(markdown_to_html(result.method_note, 4));
    page.raw("</div>");
  }
}

void environment(Page& page, const Run& run) {
  definitions_list(page, run);
  page.raw("<footer><h3>Environment</h3><dl>");
  const auto fact = [&](std::string_view name, std::string_view value) {
    if (value.empty()) return;
    page.raw("<dt>");
    page.text(name);
    page.raw("</dt><dd>");
    page.text(value);
    page.raw("</dd>");
  };
  fact("run", run.run_id);
  fact("benchsuite", run.suite_version);
  fact("engine", run.engine_commit);
  fact("device", run.device);
  fact("host", run.host);
  fact("started", run.started);
  fact("ended", run.ended);
  for (const CaseResult& result : run.cases) {
    fact("case", result.id + (result.case_hash.empty() ? "" : "  " + result.case_hash));
  }
  std::string formulas;
  for (const CaseResult& result : run.cases) {
    for (const VariantResult& v : result.variants) {
      if (!v.flops_formula.empty() && formulas.find(v.flops_formula) == std::string::npos)
        formulas += (formulas.empty() ? "" : ", ") + v.flops_formula;
    }
  }
  fact("FLOPs formula", formulas);
  for (const auto& [name, value] : environment_lines(run.environment)) fact(name, value);
  page.raw("</dl></footer>");
}

}  // namespace
}  // namespace html

std::string html_report(const Run& run) {
  using namespace html;
  const Status worst = worst_status(run);
  std::size_t lanes = 0;
  for (const CaseResult& result : run.cases) {
    for (const VariantResult& variant : result.variants) lanes += variant.stages.size();
  }
  const std::size_t column_budget =
      std::clamp<std::size_t>(kColumnsOnPage / std::max<std::size_t>(1, lanes), 160, 1600);

  Page page;
  page.raw(
      "<!DOCTYPE html>\n<html lang=en><head><meta charset=utf-8><meta name=viewport "
      "content=\"width=device-width,initial-scale=1\">"
      "<meta name=color-scheme content=\"light dark\"><meta http-equiv=Content-Security-Policy content=\"default-src "
      "'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'\"><title>");
  page.text("benchsuite " + run.run_id);
  page.add(": {}</title><style>{}</style></head>\n<body><main>\n", name_of(worst), style_sheet());
  page.add("<header class=\"verdict t-{}\"><h1>", tone_of(worst));
  pill(page, name_of(worst), tone_of(worst));
  page.raw(" ");
  page.text(run.cases.size() == 1 ? run.cases.front().title.empty() ? run.cases.front().id : run.cases.front().title
                                  : count_line(run));
  page.add("</h1><p>{}, exit code {}, device ", count_line(run), run.exit_code);
  page.text(run.device + ", run " + run.run_id);
  page.raw("</p><pre class=cmd>");
  page.text(reproduce_line(run));
  page.raw("</pre></header>\n");
  failures(page, run);
  for (std::size_t i = 0; i < run.cases.size(); ++i) case_section(page, run.cases[i], run.device, i, column_budget);
  environment(page, run);
  page.raw("</main>\n<dialog id=why></dialog><div id=tip hidden></div>\n<script type=application/json id=numbers>");
  page.raw(number_data(run));
  page.add("</script>\n<script>{}{}</script></body></html>\n", number_script(), gantt_script());
  return page.take();
}

}  // namespace benchsuite
