#include "suite/report/conform_html.h"

#include <algorithm>

#include "suite/report/conform_json.h"
#include "suite/report/format.h"
#include "suite/report/html_parts.h"

namespace benchsuite {

namespace {

using html::Page;

/// "gpt-tiny/fp32" of "gpt-tiny/fp32/tp2+sp".
std::string group_of(const std::string& id) { return id.substr(0, id.rfind('/')); }

std::string difference(double value) { return value == 0 ? "0" : fmt::format("{:.1e}", value); }

void group_table(Page& page, const std::vector<ConformRow>& rows, const std::string& group) {
  page.add("<h2>{}</h2>\n<div class=scroll><table><thead><tr><th class=l>layout<th class=l>verdict<th class=l>required"
           "<th>max |Δ loss|<th>max relative Δ gradient norm<th class=l>against</tr></thead><tbody>\n",
           html_escape(group));
  for (const ConformRow& row : rows) {
    if (group_of(row.id) != group) continue;
    page.add("<tr><td class=l>{}", html_escape(row.layout));
    if (!row.note.empty()) page.add("<span class=sub>{}</span>", html_escape(row.note));
    page.raw("<td class=l>");
    html::pill(page, row.pass ? "PASS" : "FAIL", row.pass ? "ok" : "bad");
    page.add("<td class=l>{}<td>{}<td>{}<td class=l>{}</tr>\n", word_of(row.required), difference(row.max_abs_loss),
             difference(row.max_rel_grad_norm), html_escape(row.against));
  }
  page.raw("</tbody></table></div>\n");
}

}  // namespace

std::string conform_html(const ConformReport& report) {
  const auto failures = report.failures();
  const bool passed = failures == 0 && !report.rows.empty() && !report.interrupted;
  Page page;
  page.raw("<!DOCTYPE html>\n<html lang=en><head><meta charset=utf-8><meta name=viewport "
           "content=\"width=device-width,initial-scale=1\"><meta name=color-scheme content=\"light dark\">");
  page.add("<title>Conformance: {}</title><style>{}</style></head>\n<body><main>\n", passed ? "PASS" : "FAIL",
           html::style_sheet());
  page.add("<div class=\"verdict t-{}\"><h1>Conformance of {} layouts ", passed ? "ok" : "bad", report.rows.size());
  html::pill(page, passed ? "PASS" : "FAIL", passed ? "ok" : "bad");
  page.add("</h1><p>Each trained {} steps of the same model on the same samples. {} {}.{}</p></div>\n", report.steps,
           failures, failures == 1 ? "differs" : "differ", report.interrupted ? " The run was interrupted." : "");
  page.raw(
      "<p>Parallelism, ZeRO, recompute, schedules and overlap change where and when things are computed. Where that "
      "leaves the "
      "order of every sum alone, losses, gradient norms and final parameters must be equal bit for bit to those of the "
      "layout under <em>against</em>; elsewhere a tolerance stands.</p>\n<ul>");
  for (const ConformTolerance& tolerance : report.tolerances) {
    page.add("<li>{}: loss within {:.0e}, gradient norm within {:.0e} of itself. {}.</li>\n",
             html_escape(tolerance.precision), tolerance.loss, tolerance.gradient_norm, html_escape(tolerance.reason));
  }
  page.raw("</ul>\n");
  std::vector<std::string> groups;
  for (const ConformRow& row : report.rows) {
    if (std::find(groups.begin(), groups.end(), group_of(row.id)) == groups.end()) groups.push_back(group_of(row.id));
  }
  for (const std::string& group : groups) group_table(page, report.rows, group);
  page.raw("</main></body></html>\n");
  return page.take();
}

}  // namespace benchsuite
