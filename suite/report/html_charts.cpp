// Bars: waterfall, breakdown, expected ranges. Positions are percentages, so that bars fill any width and text
// keeps its size.
#include <algorithm>
#include <cmath>

#include "suite/report/format.h"
#include "suite/report/html_parts.h"

namespace benchsuite::html {

/// Two decimals and nothing behind the last digit that matters.
std::string pct(double share) {
  std::string text = fmt::format("{:.2f}", std::clamp(share, 0.0, 1.0) * 100);
  while (text.back() == '0') text.pop_back();
  if (text.back() == '.') text.pop_back();
  return text + "%";
}

void waterfall_chart(Page& page, const Waterfall& waterfall, const std::string& key) {
  const WaterfallView view = view_of(waterfall);
  page.raw("<section class=why><h4>");
  page.text(waterfall.from);
  page.raw(" → ");
  page.text(waterfall.to);
  page.raw(" <span class=soft>");
  number(page, view.scale.text(view.to - view.from, true), key + ".sum");
  page.raw("</span></h4>");
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
                        double to, std::string_view kind, double next_level, const std::string& part) {
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
    page.add("</svg></div><div class=\"v{}\">", kind == "whole" ? " total" : "");
    number(page, value, key + part);
    page.raw("</div>");
  };
  page.raw("<div class=\"bars fall\">");
  line(waterfall.from, "", view.scale.text(view.from), 0, waterfall.from_s, "whole", waterfall.from_s,
       ".from");
  level = waterfall.from_s;
  for (std::size_t i = 0; i < view.rows.size(); ++i) {
    const WaterfallView::Row& row = view.rows[i];
    if (row.ticks != 0) {
      line(row.name, row.explanation, view.scale.text(row.ticks, true), level, level + row.seconds,
           row.seconds > 0 ? "up" : "down", level + row.seconds, fmt::format(".p{}", i));
    }
    level += row.seconds;
  }
  if (const std::string names = unchanged_parts(view); !names.empty()) {
    line("unchanged", names, view.scale.text(0), level, level, "", level, ".sum");
  }
  line(waterfall.to, "", view.scale.text(view.to), 0, waterfall.to_s, "whole", -1, ".to");
  page.raw("</div></section>");
}

namespace {

/// The same as numbers, for whoever wants them.
void breakdown_table(Page& page, const CaseResult& result, std::size_t index) {
  page.raw("<details><summary>as a table, in time</summary><div class=scroll><table><tr><th class=l>variant");
  for (const CategoryStyle& style : category_styles()) page.add("<th>{}", style.title);
  for (std::size_t i = 0; i < result.variants.size(); ++i) {
    const VariantResult& variant = result.variants[i];
    if (variant.step <= 0) continue;
    page.raw("<tr><td class=l>");
    page.text(variant.id);
    for (const CategoryStyle& style : category_styles()) {
      page.raw("<td>");
      number(page, format_seconds(mean_seconds(variant, style.category)),
             fmt::format("{}.v{}.k.{}", index, i, name_of(style.category)));
    }
  }
  page.raw("</table></div></details>");
}

}  // namespace

void breakdown_chart(Page& page, const CaseResult& result, std::size_t index) {
  if (!has_timeline(result)) return;
  page.raw(
      "<h3>Where the step goes</h3><p class=soft>Share of the step, mean over the ranks. Every instant of every rank "
      "is in exactly one part; the "
      "parts add up to 100.0 %.</p>");
  category_legend(page);
  page.raw("<div class=\"bars stack\">");
  for (std::size_t i = 0; i < result.variants.size(); ++i) {
    const VariantResult& variant = result.variants[i];
    if (variant.step <= 0) continue;
    const std::string key = fmt::format("{}.v{}.", index, i);
    const auto shares = permille_of(variant.mean_breakdown);
    page.raw("<div class=n>");
    page.text(variant.id);
    page.raw("</div><div class=b><svg width=\"100%\" height=22 role=img aria-label=\"breakdown\">");
    std::int64_t at = 0;
    for (const CategoryStyle& style : category_styles()) {
      const std::int64_t share = shares[static_cast<std::size_t>(style.category)];
      if (share == 0) continue;
      page.add("<rect data-q={}k.{} class={} x={} width={} height=22><title>{}: {}.{} %, {}</title></rect>", key,
               name_of(style.category), category_class(style.category), pct(static_cast<double>(at) / 1000),
               pct(static_cast<double>(share) / 1000), style.title, share / 10, share % 10,
               format_seconds(mean_seconds(variant, style.category)));
      if (share >= 85) {
        page.add("<text data-q={}k.{} class=\"on{}\" x={} y=15>{}.{}</text>", key, name_of(style.category),
                 style.category == Category::bubble ? " dark" : "",
                 pct((static_cast<double>(at) + static_cast<double>(share) / 2) / 1000), share / 10, share % 10);
      }
      at += share;
    }
    page.raw("</svg></div><div class=v>");
    number(page, format_seconds(variant.iteration_s), key + "iteration_s");
    page.raw("</div>");
  }
  page.raw("</div>");
  breakdown_table(page, result, index);
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
