#include <algorithm>

#include "suite/report/format.h"
#include "suite/report/html_parts.h"

namespace benchsuite::html {

namespace {

std::vector<std::string> facts_of(const VariantResult& variant) {
  std::vector<std::string> facts{model_line(variant.model)};
  for (std::string line = layout_line(variant.layout); !line.empty();) {
    const std::size_t end = line.find(", ");
    facts.push_back(line.substr(0, end));
    line = end == std::string::npos ? "" : line.substr(end + 2);
  }
  facts.push_back(variant.hardware);
  facts.push_back(variant.stack);
  std::erase(facts, "");
  return facts;
}

std::string joined(const std::vector<std::string>& facts, const std::vector<std::string>& without) {
  std::string text;
  for (const std::string& fact : facts) {
    if (std::find(without.begin(), without.end(), fact) == without.end()) text += (text.empty() ? "" : ", ") + fact;
  }
  return text;
}

}  // namespace

void variants_table(Page& page, const CaseResult& result) {
  page.raw("<h3>Variants</h3>");
  // What all variants share is said once.
  std::vector<std::string> common = facts_of(result.variants.front());
  for (const VariantResult& v : result.variants) {
    const std::vector<std::string> facts = facts_of(v);
    std::erase_if(common,
                  [&](const std::string& fact) { return std::find(facts.begin(), facts.end(), fact) == facts.end(); });
  }
  page.raw("<p class=soft>");
  page.text(joined(common, {}));
  page.raw("</p>");
  page.raw(
      "<div class=scroll><table><tr><th class=l>variant<th>step<th>MFU<th>HFU<th>GPU "
      "busy<th>bubble<th>formula<th>exposed<br>tensor comm<th>recompute<th>peak memory"
      "<th>speed<br>of light<th>ratio");
  const std::vector<std::optional<double>> ratios = step_ratios(result);
  for (std::size_t i = 0; i < result.variants.size(); ++i) {
    const VariantResult& v = result.variants[i];
    page.raw("<tr><td class=l><b>");
    page.text(v.id);
    page.raw("</b>");
    if (v.status != Status::pass) {
      page.raw(" ");
      pill(page, name_of(v.status), tone_of(v.status));
    }
    page.raw("<span class=sub>");
    page.text(v.title);
    const std::string own = joined(facts_of(v), common);
    if (!v.title.empty() && !own.empty()) page.raw("<br>");
    page.text(own);
    if (!v.reason.empty() || !v.reason_code.empty()) {
      page.raw("<br>");
      page.text(v.reason_code + (v.reason_code.empty() || v.reason.empty() ? "" : ": ") + v.reason);
    }
    page.raw("</span>");
    if (!(v.iteration_s > 0)) {
      page.raw("<td>–<td>–<td>–<td>–<td>–<td>–<td>–<td>–<td>–<td>–<td>–");
      continue;
    }
    page.add("<td><b>{}</b><td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td{}>{} / {:.0f} GiB<td>{}<td>{}",
             format_seconds(v.iteration_s), v.mfu ? format_percent(*v.mfu) : "–", v.hfu ? format_percent(*v.hfu) : "–",
             format_percent(v.gpu_busy), format_percent(v.bubble_share), format_percent(v.bubble_formula_step),
             format_seconds(mean_seconds(v, Category::tensor) + mean_seconds(v, Category::tensor_recompute)),
             format_seconds(v.recompute_s), v.fits ? "" : " class=flag", significant(v.peak_memory_gib), v.capacity_gib,
             v.speed_of_light_s > 0 ? format_seconds(v.speed_of_light_s) : "–",
             ratios[i] ? fmt::format("{:.2f}", *ratios[i]) : "–");
  }
  page.raw(
      "</table></div><p class=\"soft small\">Bubble: mean idle share of the step on the timeline, beside (p−1)/(v m + "
      "p−1). Ratio: step over the fastest of the same "
      "model, hardware and layout (recompute apart) that fits. Speed of light: model FLOPs at the dense peak. Times by "
      "category are means over the ranks.</p>");
}

void communication_table(Page& page, const CaseResult& result) {
  if (std::all_of(result.variants.begin(), result.variants.end(),
                  [](const VariantResult& v) { return v.communication.empty(); }))
    return;
  page.raw(
      "<h3>Communication</h3><p class=soft>Per step, mean over the stages. Exposed: compute waits for it; hidden: it "
      "runs beside compute. Bytes are what one rank "
      "sends.</p><div class=scroll><table class=tight><tr><th "
      "class=l>kind<th>calls<th>exposed<th>hidden<th>bytes<th>formula<th class=l>");
  for (const VariantResult& v : result.variants) {
    if (v.communication.empty()) continue;
    page.raw("<tr class=group><td class=l colspan=7>");
    page.text(v.id);
    for (const CommunicationTime& kind : v.communication) {
      const bool differs = kind.expected_bytes >= 0 && kind.expected_bytes != kind.bytes;
      const int digits = differs ? 7 : 3;
      page.raw("<tr><td class=l>");
      page.text(kind.kind);
      page.add("<td>{}<td>{}<td>{}<td>{}<td>{}<td class=l>", kind.calls, format_seconds(kind.exposed_s),
               format_seconds(kind.hidden_s), format_bytes(kind.bytes, digits),
               kind.expected_bytes >= 0 ? format_bytes(kind.expected_bytes, digits) : "–");
      if (differs) pill(page, "differs", "bad");
      if (kind.expected_bytes >= 0 && !differs) page.raw("<span class=same>equal</span>");
    }
  }
  page.raw("</table></div>");
}

namespace {

/// More passing bounds than this are folded away.
constexpr std::size_t kBoundsInSight = 24;

void checks_rows(Page& page, const std::vector<const CheckResult*>& checks) {
  page.raw(
      "<div class=scroll><table><tr><th class=l>verdict<th class=l>expectation and provenance<th>value"
      "<th class=l>range<th>pass<th>warn up to");
  for (const CheckResult* check : checks) {
    const int digits = digits_to_tell_apart(*check);
    page.raw("<tr><td class=l>");
    pill(page, name_of(check->verdict), tone_of(check->verdict));
    page.raw("<td class=\"l wide\">");
    page.text(check->id);
    if (!check->metric.empty() && check->metric != check->id) {
      page.raw("<span class=\"sub mono\">");
      page.text(check->metric);
      page.raw("</span>");
    }
    page.raw("<span class=sub><b>");
    page.text(check->kind);
    page.raw("</b>");
    if (!check->gates) page.raw(", does not gate");
    if (!check->source.empty()) page.raw(": ");
    page.text(check->source);
    page.raw("</span>");
    if (!check->explanation.empty()) {
      page.raw("<span class=sub>");
      page.text(check->explanation);
      page.raw("</span>");
    }
    page.add("<td>{}<td class=l>",
             check->value ? html_escape(format_in_unit(*check->value, check->unit, digits)) : "missing");
    range_bar(page, *check);
    const std::string pass = format_range(check->pass_low, check->pass_high, check->unit, digits);
    const std::string warn = format_range(check->warn_low, check->warn_high, check->unit, digits);
    page.add("<td>{}<td>{}", pass.empty() ? "–" : html_escape(pass), warn.empty() ? "–" : html_escape(warn));
  }
  page.raw("</table></div>");
}

}  // namespace

void checks_table(Page& page, const CaseResult& result) {
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
      "<h3>Expected ranges</h3><p class=soft>Green: pass. Amber: warn. The mark is this run. Bounds are inclusive. "
      "Each range says of what kind it is and where it comes from.</p>");
  if (!in_sight.empty()) checks_rows(page, in_sight);
  if (folded) {
    page.add("<details><summary>{} bounds hold</summary>", bounds.size());
    checks_rows(page, bounds);
    page.raw("</details>");
  }
}

void claims_list(Page& page, const CaseResult& result) {
  bool any = false;
  for (const CheckResult& check : result.checks) {
    if (check.verdict != Verdict::shown) continue;
    if (!any)
      page.raw(
          "<h3>Claims</h3><p class=soft>What documents state. Shown with the arithmetic; they never change a "
          "verdict.</p><ul class=claims>");
    any = true;
    page.raw("<li><b>");
    page.text(check.id);
    page.raw("</b>");
    if (check.target) page.add(": claimed {}", html_escape(format_in_unit(*check.target, check.unit)));
    if (check.value)
      page.add("{} {}", check.target ? ", here" : ":", html_escape(format_in_unit(*check.value, check.unit)));
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
