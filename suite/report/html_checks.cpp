// Measured against expected, and what documents claim.
#include <algorithm>

#include "suite/report/format.h"
#include "suite/report/html_parts.h"

namespace benchsuite::html {
namespace {

/// More passing bounds than this are folded away.
constexpr std::size_t kBoundsInSight = 24;

struct Table {
  const CaseResult& result;
  std::string_view device;
  std::size_t index;
};

void row(Page& page, const Table& table, const CheckResult& check) {
  const int digits = digits_to_tell_apart(check);
  const auto place = &check - table.result.checks.data();
  const std::string key = fmt::format("{}.x{}", table.index, place);
  page.raw("<tr><td class=\"l wide\">");
  page.text(title_of(check));
  if (!check.metric.empty() && check.metric != title_of(check)) {
    page.raw("<span class=\"sub mono\">");
    page.text(check.metric);
    page.raw("</span>");
  }
  page.raw("<span class=sub>");
  page.text(check.source);
  page.raw("</span>");
  if (!check.explanation.empty()) {
    page.raw("<span class=sub>");
    page.text(check.explanation);
    page.raw("</span>");
  }
  page.raw("<td>");
  number(page, check.value ? format_in_unit(*check.value, check.unit, digits) : "missing", key);
  page.raw("<td class=l>");
  const std::string pass = format_range(check.pass_low, check.pass_high, check.unit, digits);
  const std::string warn = format_range(check.warn_low, check.warn_high, check.unit, digits);
  if (pass.empty()) {
    page.raw("–");
  } else {
    number(page, pass, key);
  }
  range_bar(page, check);
  if (!warn.empty() && warn != pass) {
    page.raw("<span class=\"soft small\">warns within ");
    number(page, warn, key);
    page.raw("</span>");
  }
  const Sampling sampling = sampling_of(check, table.result);
  const std::string delta = format_delta(check);
  page.add("<td>{}<td>{}<td>{}<td class=l>", delta.empty() ? "–" : delta,
           sampling.n > 0 ? fmt::to_string(sampling.n) : "–", format_spread(sampling, table.device));
  pill(page, name_of(check.verdict), tone_of(check.verdict));
  page.raw("<td class=l>");
  page.text(check.kind);
  if (!check.gates) page.raw("<span class=\"soft small\"><br>does not gate</span>");
}

void rows(Page& page, const Table& table, const std::vector<const CheckResult*>& checks) {
  page.raw(
      "<div class=scroll><table class=checks><tr><th class=l>expectation and where it comes "
      "from<th>measured<th class=l>expected<th>Δ<th>n<th>spread<th class=l>verdict<th class=l>kind");
  for (const CheckResult* check : checks) row(page, table, *check);
  page.raw("</table></div>");
}

}  // namespace

void checks_table(Page& page, const CaseResult& result, std::string_view device, std::size_t index) {
  std::vector<const CheckResult*> in_sight, bounds;
  for (const CheckResult& check : result.checks) {
    if (check.verdict == Verdict::shown) continue;
    (check.verdict == Verdict::pass && check.kind == "bound" ? bounds : in_sight).push_back(&check);
  }
  if (in_sight.empty() && bounds.empty()) return;
  const bool folded = bounds.size() > kBoundsInSight;
  if (!folded) in_sight.insert(in_sight.end(), bounds.begin(), bounds.end());
  std::stable_sort(in_sight.begin(), in_sight.end(), [](const CheckResult* a, const CheckResult* b) {
    return needs_attention(*a) > needs_attention(*b);
  });
  page.raw(
      "<h3>Measured against expected</h3><p class=soft>Green: pass. Amber: warn. The mark is this run. Bounds are "
      "inclusive. Δ is against what the source says or, where it gives a range only, against the bound that is left. ");
  page.raw(device == "sim" ? "Device sim replays one step exactly: n = 1, no spread.</p>"
                           : "n: timed steps; spread: (longest − shortest) / median of them.</p>");
  const Table table{result, device, index};
  if (!in_sight.empty()) rows(page, table, in_sight);
  if (folded) {
    page.add("<details><summary>{} bounds hold</summary>", bounds.size());
    rows(page, table, bounds);
    page.raw("</details>");
  }
}

void claims_list(Page& page, const CaseResult& result, std::size_t index) {
  bool any = false;
  for (std::size_t i = 0; i < result.checks.size(); ++i) {
    const CheckResult& check = result.checks[i];
    if (check.verdict != Verdict::shown) continue;
    if (!any)
      page.raw(
          "<h3>Claims</h3><p class=soft>What documents state. Shown with the arithmetic; they never change a "
          "verdict.</p><ul class=claims>");
    any = true;
    const std::string key = fmt::format("{}.x{}", index, i);
    page.raw("<li><b>");
    page.text(title_of(check));
    page.raw("</b>");
    if (check.target) {
      page.raw(": claimed ");
      number(page, format_in_unit(*check.target, check.unit), key);
    }
    if (check.value) {
      page.raw(check.target ? ", here " : ": ");
      number(page, format_in_unit(*check.value, check.unit), key);
    }
    page.raw(". ");
    page.text(check.explanation);
    if (!check.source.empty()) {
      page.raw(" <span class=soft>(");
      page.text(check.source);
      page.raw(")</span>");
    }
  }
  if (any) page.raw("</ul>");
}

}  // namespace benchsuite::html
