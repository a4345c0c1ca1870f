#include "suite/report/conform_html.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <sstream>

#include "suite/report/conform_json.h"
#include "suite/report/format.h"
#include "suite/report/html_parts.h"

namespace benchsuite {

namespace {

using html::Page;
using Required = ConformRow::Required;

constexpr std::string_view kStyle =
    ".same{color:var(--ok);font-weight:650}.conform td{padding-top:.22em;padding-bottom:.22em}.conform td .sub{min-width:0}";

/// "gpt-tiny/fp32" of "gpt-tiny/fp32/tp2+sp": a model in a precision.
std::string group_of(const std::string& id) { return id.substr(0, id.rfind('/')); }

std::string difference(double value) { return value == 0 ? "0" : fmt::format("{:.1e}", value); }

/// What the row was held against, as readers call it: "dp2 zero2", "one rank".
std::string partner_of(const ConformRow& row) {
  const std::string prefix = group_of(row.id) + "/";
  if (!row.against.starts_with(prefix)) return row.against;  // another device
  std::string name = row.against.substr(prefix.size());
  if (name == "one-rank") return "one rank";
  std::replace(name.begin(), name.end(), '+', ' ');
  return name;
}

/// Over what the layout spreads the model: "Tensor ranks × pipeline stages".
std::string section_of(const std::string& layout) {
  constexpr std::pair<std::string_view, std::string_view> kDimensions[] = {
      {"tp", "tensor ranks"}, {"pp", "pipeline stages"}, {"dp", "replicas"}};
  std::string section;
  for (const auto& [prefix, name] : kDimensions) {
    std::istringstream words(layout);
    for (std::string word; words >> word;) {
      if (!word.starts_with(prefix) || word.size() == prefix.size() || !std::isdigit(static_cast<unsigned char>(word[2]))) continue;
      section += (section.empty() ? "" : " × ") + std::string(name);
    }
  }
  if (section.empty()) return "One rank";
  section[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(section[0])));
  return section;
}

/// The values of `key` over the rows, each once, in the order they first come.
template <class Key>
std::vector<std::string> distinct(const std::vector<ConformRow>& rows, Key key) {
  std::vector<std::string> found;
  for (const ConformRow& row : rows) {
    if (std::find(found.begin(), found.end(), key(row)) == found.end()) found.push_back(key(row));
  }
  return found;
}

/// What failed alike stands together: a model and precision, the reason, the layouts.
void failures_list(Page& page, const std::vector<ConformRow>& rows) {
  std::vector<ConformRow> failed;
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(failed), [](const ConformRow& row) { return !row.pass; });
  page.raw("<ul class=fails>\n");
  const auto group_and_note = [](const ConformRow& row) { return group_of(row.id) + ": " + row.note; };
  for (const std::string& kind : distinct(failed, group_and_note)) {
    page.raw("<li>");
    html::pill(page, "FAIL", "bad");
    page.add(" {}<p>", html_escape(kind));
    std::string_view between;
    for (const ConformRow& row : failed) {
      if (group_and_note(row) != kind) continue;
      page.add("{}{}", between, html_escape(row.layout.empty() ? "one rank" : row.layout));
      between = " · ";
    }
    page.raw("</p></li>\n");
  }
  page.raw("</ul>\n");
}

/// One line a model and precision: how many had to be equal and are, and how far the others came from their bounds.
void summary_table(Page& page, const ConformReport& report, const std::vector<std::string>& groups) {
  page.raw("<div class=scroll><table><thead><tr><th class=l>model and precision<th>bit for bit<th>within a tolerance"
           "<th>largest |Δ loss|<th>allowed<th>largest relative Δ gradient norm<th>allowed</tr></thead><tbody>\n");
  for (const std::string& group : groups) {
    std::size_t exact = 0, exact_good = 0, near = 0, near_good = 0;
    double loss = 0, norm = 0;
    for (const ConformRow& row : report.rows) {
      if (group_of(row.id) != group) continue;
      const bool bits = row.required == Required::bits;
      ++(bits ? exact : near);
      if (row.pass) ++(bits ? exact_good : near_good);
      loss = std::max(loss, row.max_abs_loss), norm = std::max(norm, row.max_rel_grad_norm);
    }
    page.add("<tr><td class=l>{}<td>{} of {}<td>{} of {}", html_escape(group), exact_good, exact, near_good, near);
    const std::string precision = group.substr(group.rfind('/') + 1);
    const auto allowed = std::find_if(report.tolerances.begin(), report.tolerances.end(),
                                      [&](const ConformTolerance& tolerance) { return tolerance.precision == precision; });
    const bool known = allowed != report.tolerances.end();
    page.add("<td>{}<td>{}<td>{}<td>{}</tr>\n", difference(loss), known ? difference(allowed->loss) : "", difference(norm),
             known ? difference(allowed->gradient_norm) : "");
  }
  page.raw("</tbody></table></div>\n");
}

void cell(Page& page, const ConformRow& row, const ConformRow& first) {
  if (row.pass && row.required == Required::bits) {
    page.raw("<td class=l><span class=same title=\"equal bit for bit\">=</span>");
  } else {
    page.raw("<td class=l>");
    row.pass ? page.raw("<span class=same title=\"within the tolerance\">≈</span>") : html::pill(page, "FAIL", "bad");
    page.add(" <span title=\"largest |Δ loss| · largest relative Δ gradient norm\">{} · {}</span>", difference(row.max_abs_loss),
             difference(row.max_rel_grad_norm));
  }
  if (partner_of(row) != partner_of(first) || row.required != first.required) {
    page.add("<span class=sub>{} {}</span>", row.required == Required::bits ? "bits of" : "near", html_escape(partner_of(row)));
  }
}

/// A layout a line, a model and precision a column.
void layouts_table(Page& page, const std::vector<ConformRow>& rows, const std::vector<std::string>& groups) {
  std::map<std::pair<std::string, std::string>, const ConformRow*> at;  // by layout and group
  for (const ConformRow& row : rows) at[{row.layout, group_of(row.id)}] = &row;
  const auto layouts = distinct(rows, [](const ConformRow& row) { return row.layout; });
  page.raw("<div class=scroll><table class=conform><thead><tr><th class=l>layout<th class=l>must be");
  for (const std::string& group : groups) page.add("<th class=l>{}", html_escape(group));
  page.raw("</tr></thead><tbody>\n");
  for (const std::string& section : distinct(rows, [](const ConformRow& row) { return section_of(row.layout); })) {
    page.add("<tr class=group><td class=l colspan={}>{}</tr>\n", groups.size() + 2, section);
    for (const std::string& layout : layouts) {
      if (section_of(layout) != section) continue;
      const ConformRow* first = nullptr;
      for (const std::string& group : groups) {
        if (const auto row = at.find({layout, group}); row != at.end() && !first) first = row->second;
      }
      page.add("<tr><td class=l>{}<td class=l>{} {}", html_escape(layout.empty() ? "one rank" : layout),
               first->required == Required::bits ? "bits of" : "near", html_escape(partner_of(*first)));
      for (const std::string& group : groups) {
        const auto row = at.find({layout, group});
        row == at.end() ? page.raw("<td class=l>") : cell(page, *row->second, *first);
      }
      page.raw("</tr>\n");
    }
  }
  page.raw("</tbody></table></div>\n");
}

void words_list(Page& page, const std::vector<ConformWord>& words) {
  page.raw("<h2>Words of the layouts</h2>\n<p class=soft>A layout is one rank, changed by these.</p>\n"
           "<div class=scroll><table class=tight><tbody>\n");
  for (const ConformWord& word : words) {
    page.add("<tr><td class=l><code>{}</code><td class=\"l wide\">{}</tr>\n", html_escape(word.word), html_escape(word.meaning));
  }
  page.raw("</tbody></table></div>\n");
}

}  // namespace

std::string conform_html(const ConformReport& report) {
  const auto failures = report.failures();
  const bool passed = failures == 0 && !report.rows.empty() && !report.interrupted;
  const auto groups = distinct(report.rows, [](const ConformRow& row) { return group_of(row.id); });
  Page page;
  page.raw("<!DOCTYPE html>\n<html lang=en><head><meta charset=utf-8><meta name=viewport "
           "content=\"width=device-width,initial-scale=1\"><meta name=color-scheme content=\"light dark\">");
  page.add("<title>Conformance: {}</title><style>{}{}</style></head>\n<body><main>\n", passed ? "PASS" : "FAIL",
           html::style_sheet(), kStyle);
  page.add("<div class=\"verdict t-{}\"><h1>Conformance of {} layouts ", passed ? "ok" : "bad", report.rows.size());
  html::pill(page, passed ? "PASS" : "FAIL", passed ? "ok" : "bad");
  page.add("</h1><p>Each trained {} {} of the same model on the same samples. {} {}.{}{}</p></div>\n", report.steps,
           report.steps == 1 ? "step" : "steps",
           failures == 0 ? "None" : std::to_string(failures), failures == 1 ? "differs" : "differ",
           report.interrupted ? " The run was interrupted: the layouts below are those that were finished." : "",
           report.left_out == 0 ? "" : fmt::format(" Left out: {} with more ranks than there are GPUs.", report.left_out));
  if (failures > 0) failures_list(page, report.rows);
  summary_table(page, report, groups);
  page.raw(
      "<p>Parallelism, ZeRO, recompute, schedules and overlap change where and when things are computed. Where that "
      "leaves the order of every sum alone, losses, gradient norms and final parameters must have the <b>bits of</b> a "
      "simpler layout. Where it changes the order they must be <b>near</b> it, within a tolerance:</p>\n<ul>");
  for (const ConformTolerance& tolerance : report.tolerances) {
    page.add("<li>{}: loss within {:.0e}, gradient norm within {:.0e} of itself. {}.</li>\n",
             html_escape(tolerance.precision), tolerance.loss, tolerance.gradient_norm, html_escape(tolerance.reason));
  }
  page.raw("</ul>\n<h2>Every layout</h2>\n<p class=soft><span class=same>=</span> equal bit for bit. <span "
           "class=same>≈</span> within the tolerance: largest |Δ loss| · largest relative Δ gradient norm of all steps.</p>\n");
  layouts_table(page, report.rows, groups);
  if (!report.words.empty()) words_list(page, report.words);
  page.raw("</main></body></html>\n");
  return page.take();
}

}  // namespace benchsuite
