// The comparison as one page, in the report's style.
#include <algorithm>
#include <cmath>

#include "suite/report/compare_render.h"
#include "suite/report/format.h"
#include "suite/report/html_parts.h"

namespace benchsuite {
namespace {

using html::Page;

std::string_view tone_of(Change change) {
  switch (change) {
    case Change::better: return "ok";
    case Change::worse:
    case Change::missing: return "bad";
    case Change::unclear:
    case Change::changed: return "warn";
    case Change::same: break;
  }
  return "mute";
}

std::string_view tone_of_exit(int code) { return code == 0 ? "ok" : code == 4 ? "warn" : "bad"; }

std::string value(const std::optional<double>& number, const std::string& unit) {
  return number ? format_in_unit(*number, unit, 4) : "–";
}

void metrics_table(Page& page, const VariantComparison& pair) {
  page.raw(
      "<div class=scroll><table><tr><th class=l>metric<th>A<th>B<th>Δ<th class=l>noise and effect floor<th "
      "class=l>verdict");
  for (const MetricChange& change : pair.metrics) {
    page.raw("<tr><td class=l>");
    page.text(change.name);
    if (!change.gates) page.raw("<span class=sub>shown, never decides</span>");
    for (const std::string& cell :
         {value(change.from, change.unit), value(change.to, change.unit), change_text(change)}) {
      page.raw("<td>");
      page.text(cell);
    }
    page.raw("<td class=l>");
    page.text(threshold_text(change));
    page.raw("<td class=l>");
    html::pill(page, name_of(change.change), tone_of(change.change));
    if (change.note.empty()) continue;
    page.raw("<span class=sub>");
    page.text(change.note);
    page.raw("</span>");
  }
  page.raw("</table></div>");
}

/// Bars of A, what changes, and B; every bar is a share of the longest time that appears.
void waterfall(Page& page, const VariantComparison& pair) {
  const WaterfallView view = view_of(*pair.waterfall);
  double longest = std::max(pair.waterfall->from_s, pair.waterfall->to_s), at = pair.waterfall->from_s;
  for (const WaterfallView::Row& row : view.rows) longest = std::max(longest, at += row.seconds);
  const auto bar = [&](const std::string& name, const std::string& time, double begin, double end, const char* tone,
                       const std::string& explanation) {
    const double low = longest > 0 ? std::clamp(std::min(begin, end) / longest, 0.0, 1.0) : 0;
    const double width = longest > 0 ? std::clamp(std::abs(end - begin) / longest, 0.0, 1.0 - low) : 0;
    page.raw("<div class=n>");
    page.text(name);
    if (!explanation.empty()) {
      page.raw("<span>");
      page.text(explanation);
      page.raw("</span>");
    }
    page.add(
        "</div><div class=b><svg width=\"100%\" height=\"100%\" aria-hidden=true><rect class={} x=\"{:.2f}%\" "
        "y=\"20%\" "
        "width=\"{:.2f}%\" height=\"60%\"/></svg></div><div class=v>{}</div>",
        tone, low * 100, width * 100, time);
  };
  page.raw("<div class=why><h4>Why</h4><div class=\"bars fall\">");
  bar(pair.from, view.scale.text(view.from), 0, pair.waterfall->from_s, "whole", "");
  at = pair.waterfall->from_s;
  for (const WaterfallView::Row& row : view.rows) {
    if (row.ticks == 0) continue;  // named below
    bar(row.name, view.scale.text(row.ticks, true), at, at + row.seconds, row.seconds > 0 ? "up" : "down",
        row.explanation);
    at += row.seconds;
  }
  bar(pair.to, view.scale.text(view.to), 0, pair.waterfall->to_s, "whole", "");
  page.raw("</div>");
  if (const std::string unchanged = unchanged_parts(view); !unchanged.empty()) {
    page.raw("<p class=\"soft small\">unchanged: ");
    page.text(unchanged);
    page.raw("</p>");
  }
  page.raw("</div>");
}

void facts(Page& page, const Comparison& comparison) {
  Page list;
  const auto item = [&](const std::string& text) {
    list.raw("<li>");
    list.text(text);
    list.raw("</li>");
  };
  for (const VerdictChange& change : comparison.verdicts) {
    item(fmt::format("{}: expectation “{}” was {}, is {}", change.case_id, change.check, name_of(change.from),
                     name_of(change.to)));
  }
  for (const std::string& name : comparison.only_from) item("no longer there: " + name);
  for (const std::string& name : comparison.only_to) item("new: " + name);
  for (const std::string& note : comparison.notes) item(note);
  for (const std::string& line : comparison.environment) item("environment: " + line);
  const std::string items = list.take();
  if (items.empty()) return;
  page.raw("<ul>");
  page.raw(items);
  page.raw("</ul>");
}

}  // namespace

std::string compare_html(const Comparison& comparison) {
  Page page;
  page.raw("<!DOCTYPE html>\n<html lang=en><head><meta charset=utf-8><meta name=viewport "
           "content=\"width=device-width,initial-scale=1\"><meta name=color-scheme content=\"light dark\"><title>");
  page.text("benchsuite compare: " + comparison.verdict);
  page.raw("</title><style>");
  page.raw(html::style_sheet());
  page.add("</style></head>\n<body><main>\n<header class=\"verdict t-{}\"><h1>", tone_of_exit(comparison.exit_code));
  page.text(comparison.verdict);
  page.raw("</h1><p>");
  page.text(fmt::format("{}, exit code {}", comparison.kind, comparison.exit_code));
  page.raw("</p><p>A: ");
  page.text(comparison.from);
  page.raw("<br>B: ");
  page.text(comparison.to);
  page.raw("</p></header>\n");
  facts(page, comparison);
  for (const VariantComparison& pair : comparison.variants) {
    page.raw("<h2>");
    page.text(pair.case_id + ": " + pair.from + " → " + pair.to);
    page.raw("</h2>");
    if (pair.ratio) {
      page.raw("<p>");
      page.text(ratio_text(*pair.ratio));
      page.raw("</p>");
    }
    if (pair.waterfall && pair.waterfall->from_s != pair.waterfall->to_s) waterfall(page, pair);
    metrics_table(page, pair);
  }
  page.raw("</main></body></html>\n");
  return page.take();
}

}  // namespace benchsuite
