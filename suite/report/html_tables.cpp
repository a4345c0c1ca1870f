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

void variants_table(Page& page, const CaseResult& result, std::size_t index) {
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
      "<div class=scroll><table class=variants><tr><th class=l>variant<th>step<th>tokens/s<br>per "
      "GPU<th>MFU<th>HFU<th>GPU<br>busy<th>bubble<th>formula<th>exposed<br>tensor comm<th>recompute<th>peak memory"
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
      for (int column = 0; column < 12; ++column) page.raw("<td>–");
      continue;
    }
    const auto cell = [&](const std::string& text, const char* metric) {
      page.raw("<td>");
      if (text == "–") return page.raw(text);
      number(page, text, fmt::format("{}.v{}.{}", index, i, metric));
    };
    cell(format_seconds(v.iteration_s), "iteration_s");
    if (const Sampling sampling = sampling_of(v); sampling.n > 1) {
      page.add("<span class=sub>median of {}<br>spread {}</span>", sampling.n,
               sampling.spread.value_or(0) == 0 ? "0" : format_percent(*sampling.spread));
    }
    cell(significant(v.tokens_per_s_per_gpu), "tokens_per_s_per_gpu");
    cell(v.mfu ? format_percent(*v.mfu) : "–", "mfu");
    cell(v.hfu ? format_percent(*v.hfu) : "–", "hfu");
    cell(format_percent(v.gpu_busy), "gpu_busy");
    cell(format_percent(v.bubble_share), "bubble_share");
    cell(format_percent(v.bubble_formula_step), "bubble_formula_step");
    cell(format_seconds(mean_seconds(v, Category::tensor) + mean_seconds(v, Category::tensor_recompute)),
         "exposed_tensor_s");
    cell(format_seconds(v.recompute_s), "recompute_s");
    page.add("<td{}>", v.fits ? "" : " class=flag");
    number(page, significant(v.peak_memory_gib), fmt::format("{}.v{}.peak_memory_gib", index, i));
    page.raw(" / ");
    number(page, fmt::format("{:.0f} GiB", v.capacity_gib), fmt::format("{}.v{}.capacity_gib", index, i));
    cell(v.speed_of_light_s > 0 ? format_seconds(v.speed_of_light_s) : "–", "speed_of_light_s");
    cell(ratios[i] ? fmt::format("{:.2f}", *ratios[i]) : "–", "ratio");
  }
  page.raw(
      "</table></div><p class=\"soft small\">Bubble: mean idle share of the step on the timeline, beside (p−1)/(v m + "
      "p−1). Ratio: step over the fastest of the same "
      "model, hardware and layout (recompute apart) that fits. Speed of light: model FLOPs at the dense peak. Times by "
      "category are means over the ranks.</p>");
}

void bubble_table(Page& page, const CaseResult& result, std::size_t index) {
  if (std::all_of(result.variants.begin(), result.variants.end(),
                  [](const VariantResult& v) { return v.bubble_parts.empty(); }))
    return;
  page.raw(
      "<h3>Bubble</h3><p class=soft>Waiting time of a mean rank beside the formula, as a share of the step and of the "
      "passes, and what it is made of.</p><div class=scroll><table class=tight><tr><th class=l>variant<th>of the "
      "step<th>formula<th>of the<br>passes<th>formula<th>waiting<br>=");
  std::vector<std::string> names;
  for (const VariantResult& v : result.variants) {
    for (const BubblePart& part : v.bubble_parts) {
      if (std::find(names.begin(), names.end(), part.name) == names.end()) names.push_back(part.name);
    }
  }
  for (const std::string& name : names) {
    page.raw(name == names.front() ? "<th>" : "<th>+ ");
    page.text(name);
  }
  for (std::size_t i = 0; i < result.variants.size(); ++i) {
    const VariantResult& v = result.variants[i];
    if (v.bubble_parts.empty()) continue;
    page.raw("<tr><td class=l>");
    page.text(v.id);
    const auto cell = [&](const std::string& text, const char* metric) {
      page.raw("<td>");
      number(page, text, fmt::format("{}.v{}.{}", index, i, metric));
    };
    cell(format_percent(v.bubble_share), "bubble_share");
    cell(format_percent(v.bubble_formula_step), "bubble_formula_step");
    cell(format_percent(v.bubble_over_ideal), "bubble_over_ideal");
    cell(format_percent(v.bubble_formula_ideal), "bubble_formula_ideal");
    cell(format_seconds(v.bubble_share * v.iteration_s), "bubble_s");
    for (const std::string& name : names) {
      const auto part = std::find_if(v.bubble_parts.begin(), v.bubble_parts.end(),
                                     [&](const BubblePart& candidate) { return candidate.name == name; });
      page.add("<td title=\"{}\">{}", part == v.bubble_parts.end() ? "" : html_escape(part->explanation),
               part == v.bubble_parts.end() ? "–" : format_seconds(part->seconds));
    }
  }
  page.raw("</table></div>");
}

void communication_table(Page& page, const CaseResult& result, std::size_t index) {
  if (std::all_of(result.variants.begin(), result.variants.end(),
                  [](const VariantResult& v) { return v.communication.empty(); }))
    return;
  page.raw(
      "<h3>Communication</h3><p class=soft>Per step, mean over the stages. Exposed: compute waits for it; hidden: it "
      "runs beside compute. Bytes are what one rank "
      "sends. The bar is time as a share of the step: red exposed, grey hidden.</p><div class=scroll><table "
      "class=tight><tr><th class=l>kind<th>calls<th>exposed<th>hidden<th>of the step<th>bytes<th>formula<th class=l>");
  double longest = 0;
  for (const VariantResult& v : result.variants) {
    for (const CommunicationTime& kind : v.communication)
      longest = std::max(longest, v.iteration_s > 0 ? (kind.exposed_s + kind.hidden_s) / v.iteration_s : 0);
  }
  for (std::size_t i = 0; i < result.variants.size(); ++i) {
    const VariantResult& v = result.variants[i];
    if (v.communication.empty()) continue;
    page.raw("<tr class=group><td class=l colspan=8>");
    page.text(v.id);
    for (std::size_t c = 0; c < v.communication.size(); ++c) {
      const CommunicationTime& kind = v.communication[c];
      const bool differs = kind.expected_bytes >= 0 && kind.expected_bytes != kind.bytes;
      const int digits = differs ? 7 : 3;
      const auto cell = [&](const std::string& text, const char* field) {
        page.raw("<td>");
        number(page, text, fmt::format("{}.v{}.c{}.{}", index, i, c, field));
      };
      page.raw("<tr><td class=l>");
      page.text(kind.kind);
      cell(fmt::to_string(kind.calls), "calls");
      cell(format_seconds(kind.exposed_s), "exposed_s");
      cell(format_seconds(kind.hidden_s), "hidden_s");
      page.raw("<td>");
      if (longest > 0 && v.iteration_s > 0) {
        const double exposed = kind.exposed_s / v.iteration_s / longest,
                     hidden = kind.hidden_s / v.iteration_s / longest;
        page.add(
            "<svg class=comm height=10 role=img aria-label=\"exposed and hidden\"><rect class=up width={0} height=10 "
            "/><rect class=hid x={0} width={1} height=10 /></svg>",
            pct(exposed), pct(hidden));
      }
      cell(format_bytes(kind.bytes, digits), "bytes");
      if (kind.expected_bytes >= 0) {
        cell(format_bytes(kind.expected_bytes, digits), "expected_bytes");
      } else {
        page.raw("<td>–");
      }
      page.raw("<td class=l>");
      if (differs) pill(page, "differs", "bad");
      if (kind.expected_bytes >= 0 && !differs) page.raw("<span class=same>equal</span>");
    }
  }
  page.raw("</table></div>");
}

}  // namespace benchsuite::html
