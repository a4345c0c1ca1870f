// Bars: waterfall, breakdown, memory, expected ranges. Positions are percentages, so that bars fill any width and text
// keeps its size.
#include <algorithm>
#include <cmath>

#include "suite/report/format.h"
#include "suite/report/html_parts.h"

namespace benchsuite::html {
namespace {

constexpr int kMemoryColours = 9;  ///< .m0 to .m8 of the style sheet

/// Percent with two decimals and nothing behind the last digit that matters.
std::string pct(double share) {
  std::string text = fmt::format("{:.2f}", std::clamp(share, 0.0, 1.0) * 100);
  while (text.back() == '0') text.pop_back();
  if (text.back() == '.') text.pop_back();
  return text + "%";
}

/// The purposes of all stages of a case, in order of first appearance: one colour each.
std::vector<std::string> purposes_of(const CaseResult& result) {
  std::vector<std::string> names;
  for (const VariantResult& variant : result.variants) {
    for (const StageResult& stage : variant.stages) {
      for (const auto& [purpose, bytes] : stage.memory.by_purpose) {
        if (bytes > 0 && std::find(names.begin(), names.end(), purpose) == names.end()) names.push_back(purpose);
      }
    }
  }
  return names;
}

void saved_activations(Page& page, const VariantResult& variant) {
  const auto stage = std::find_if(variant.stages.begin(), variant.stages.end(), [](const StageResult& s) {
    return !s.memory.saved_terms.empty() || s.memory.saved_bytes > 0;
  });
  if (stage == variant.stages.end()) return;
  const StageMemory& memory = stage->memory;
  page.add("<details><summary>saved activations, stage {}: {}", stage->stage, format_bytes(memory.saved_bytes));
  if (memory.saved_formula_bytes >= 0) {
    if (memory.saved_formula_bytes == memory.saved_bytes) {
      page.raw(", equal to the formula");
    } else {  // with the digits in which the two differ
      page.add(" ({:.0f} bytes; formula {:.0f})", memory.saved_bytes, memory.saved_formula_bytes);
    }
  }
  page.raw("</summary>");
  if (!memory.saved_terms.empty()) {
    page.raw("<div class=scroll><table><tr><th class=l>term<th>bytes<th class=l>formula");
    for (const StageMemory::Term& term : memory.saved_terms) {
      page.raw("<tr><td class=l>");
      page.text(term.name);
      page.add("<td>{}<td class=l>", format_bytes(term.bytes));
      page.text(term.formula);
    }
    page.raw("</table></div>");
  }
  page.raw("</details>");
}

}  // namespace

void waterfall_chart(Page& page, const Waterfall& waterfall) {
  const WaterfallView view = view_of(waterfall);
  page.raw("<section class=why><h4>");
  page.text(waterfall.from);
  page.raw(" → ");
  page.text(waterfall.to);
  page.add(" <span class=soft>{}</span></h4>", view.scale.text(view.to - view.from, true));
  if (!waterfall.one_line.empty()) {
    page.raw("<p class=one>");
    page.text(waterfall.one_line);
    page.raw("</p>");
  }
  double longest = std::max(waterfall.from_s, waterfall.to_s), level = waterfall.from_s;
  for (const WaterfallView::Row& row : view.rows) {
    level += row.seconds;
    longest = std::max(longest, level);
  }
  if (!(longest > 0)) longest = 1;
  const auto line = [&](std::string_view name, std::string_view explanation, const std::string& value, double from,
                        double to, std::string_view kind, double next_level) {
    page.add("<div class=\"n{}\">", kind == "whole" ? " total" : "");
    page.text(name);
    if (!explanation.empty()) {
      page.raw("<span>");
      page.text(explanation);
      page.raw("</span>");
    }
    const double low = std::min(from, to) / longest, high = std::max(from, to) / longest;
    page.add("</div><div class=b><svg role=img aria-label=\"{}\">", value);
    if (!kind.empty())
      page.add("<rect class={} x={} y=\"18%\" width={} height=\"64%\" rx=2 />", kind, pct(low),
               pct(std::max(high - low, 0.0015)));
    // The level at which the next bar starts.
    if (next_level >= 0)
      page.add("<line class=rule x1={0} x2={0} y1=\"{1}%\" y2=\"100%\" opacity=.45 />", pct(next_level / longest),
               kind.empty() ? 0 : 82);
    page.add("</svg></div><div class=\"v{}\">{}</div>", kind == "whole" ? " total" : "", value);
  };
  page.raw("<div class=\"bars fall\">");
  line(waterfall.from, "", view.scale.text(view.from), 0, waterfall.from_s, "whole", waterfall.from_s);
  level = waterfall.from_s;
  for (const WaterfallView::Row& row : view.rows) {
    if (row.ticks != 0) {
      line(row.name, row.explanation, view.scale.text(row.ticks, true), level, level + row.seconds,
           row.seconds > 0 ? "up" : "down", level + row.seconds);
    }
    level += row.seconds;
  }
  if (const std::string names = unchanged_parts(view); !names.empty()) {
    line("unchanged", names, view.scale.text(0), level, level, "", level);
  }
  line(waterfall.to, "", view.scale.text(view.to), 0, waterfall.to_s, "whole", -1);
  page.raw("</div></section>");
}

void breakdown_chart(Page& page, const CaseResult& result) {
  page.raw(
      "<h3>Where the step goes</h3><p class=soft>Share of the step, mean over the ranks. Every instant of every rank "
      "is in exactly one part; the "
      "parts add up to 100.0 %.</p>");
  category_legend(page);
  page.raw("<div class=\"bars stack\">");
  for (const VariantResult& variant : result.variants) {
    if (variant.step <= 0) continue;
    const auto shares = permille_of(variant.mean_breakdown);
    page.raw("<div class=n>");
    page.text(variant.id);
    page.raw("</div><div class=b><svg width=\"100%\" height=22 role=img aria-label=\"breakdown\">");
    std::int64_t at = 0;
    for (const CategoryStyle& style : category_styles()) {
      const std::int64_t share = shares[static_cast<std::size_t>(style.category)];
      if (share == 0) continue;
      page.add("<rect class={} x={} width={} height=22><title>{}: {}.{} %, {}</title></rect>",
               category_class(style.category), pct(static_cast<double>(at) / 1000),
               pct(static_cast<double>(share) / 1000), style.title, share / 10, share % 10,
               format_seconds(mean_seconds(variant, style.category)));
      if (share >= 85) {
        page.add("<text class=\"on{}\" x={} y=15>{}.{}</text>", style.category == Category::bubble ? " dark" : "",
                 pct((static_cast<double>(at) + static_cast<double>(share) / 2) / 1000), share / 10, share % 10);
      }
      at += share;
    }
    page.add("</svg></div><div class=v>{}</div>", format_seconds(variant.iteration_s));
  }
  page.raw("</div>");
}

void memory_chart(Page& page, const CaseResult& result) {
  const std::vector<std::string> purposes = purposes_of(result);
  if (purposes.empty()) return;
  page.raw(
      "<h3>Memory by purpose</h3><p class=soft>At each stage's peak; the dashed line is what one GPU has.</p><ul "
      "class=legend>");
  for (std::size_t i = 0; i < purposes.size(); ++i) {
    page.add("<li><span class=\"key m{}\"></span>", i % kMemoryColours);
    page.text(purposes[i]);
  }
  page.raw("</ul><div class=cards>");
  for (const VariantResult& variant : result.variants) {
    if (variant.stages.empty()) continue;
    double longest = variant.capacity_gib * 0x1p30;
    for (const StageResult& stage : variant.stages) longest = std::max(longest, stage.memory.peak_bytes);
    longest *= 1.02;
    if (!(longest > 0)) continue;
    page.raw("<figure><figcaption><b>");
    page.text(variant.id);
    page.add("</b><span class=soft>{} of {:.0f} GiB</span>", significant(variant.peak_memory_gib),
             variant.capacity_gib);
    if (!variant.fits) {
      page.raw(" ");
      pill(page, "does not fit", "bad");
    }
    page.raw("</figcaption><div class=bars>");
    for (const StageResult& stage : variant.stages) {
      page.add(
          "<div class=n>stage {}</div><div class=b><svg width=\"100%\" height=14 role=img aria-label=\"memory\"><rect "
          "class=track width=\"100%\" height=14 />",
          stage.stage);
      double at = 0;
      for (const auto& [purpose, bytes] : stage.memory.by_purpose) {
        const auto place = std::find(purposes.begin(), purposes.end(), purpose);
        if (place == purposes.end() || !(bytes > 0)) continue;
        page.add("<rect class=m{} x={} width={} height=14><title>{}: {}</title></rect>",
                 (place - purposes.begin()) % kMemoryColours, pct(at / longest), pct(bytes / longest),
                 html_escape(purpose), format_bytes(bytes));
        at += bytes;
      }
      if (variant.capacity_gib > 0)
        page.add("<line class=cap x1={0} x2={0} y1=0 y2=14 />", pct(variant.capacity_gib * 0x1p30 / longest));
      page.add("</svg></div><div class=v>{}</div>", format_bytes(stage.memory.peak_bytes));
    }
    page.raw("</div>");
    saved_activations(page, variant);
    page.raw("</figure>");
  }
  page.raw("</div>");
}

void range_bar(Page& page, const CheckResult& check) {
  std::vector<double> points;
  for (const auto& bound : {check.pass_low, check.pass_high, check.warn_low, check.warn_high, check.value}) {
    if (bound && std::isfinite(*bound)) points.push_back(*bound);
  }
  if (points.empty()) return;
  auto [low, high] =
      std::pair(*std::min_element(points.begin(), points.end()), *std::max_element(points.begin(), points.end()));
  const double room = high > low ? (high - low) * 0.15 : std::max(std::abs(high) * 0.1, 1e-12);
  low -= room;
  high += room;
  const auto place = [&, low = low, high = high](double value) { return (value - low) / (high - low); };
  page.raw("<svg class=range height=14 role=img aria-label=\"range\"><rect class=track y=3 width=\"100%\" height=8 />");
  const auto zone = [&](const std::optional<double>& from, const std::optional<double>& to, const char* kind) {
    if (!from && !to) return;
    const double left = from ? place(*from) : 0, right = to ? place(*to) : 1;
    page.add("<rect class={} x={} y=3 width={} height=8 />", kind, pct(left), pct(std::max(right - left, 0.012)));
  };
  zone(check.warn_low, check.warn_high, "warn");
  zone(check.pass_low, check.pass_high, "pass");
  if (check.value && std::isfinite(*check.value))
    page.add("<rect class=mark x={} y=0 width=2 height=14 />", pct(place(*check.value)));
  page.raw("</svg>");
}

}  // namespace benchsuite::html
