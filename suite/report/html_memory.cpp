// Memory by purpose per stage against what one GPU has.
#include <algorithm>

#include "suite/report/format.h"
#include "suite/report/html_parts.h"

namespace benchsuite::html {
namespace {

constexpr int kMemoryColours = 9;  ///< .m0 to .m8 of the style sheet

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

void terms_table(Page& page, const std::vector<StageMemory::Term>& terms) {
  page.raw("<div class=scroll><table><tr><th class=l>term<th class=l>purpose<th>bytes<th class=l>formula");
  for (const StageMemory::Term& term : terms) {
    page.raw("<tr><td class=l>");
    page.text(term.name);
    page.raw("<td class=l>");
    page.text(term.purpose);
    page.add("<td>{}<td class=l>", format_bytes(term.bytes));
    page.text(term.formula);
  }
  page.raw("</table></div>");
}

/// Everything that is there at the peak of the fullest stage.
void peak_terms(Page& page, const VariantResult& variant, const std::string& key) {
  const auto fullest = std::max_element(
      variant.stages.begin(), variant.stages.end(),
      [](const StageResult& a, const StageResult& b) { return a.memory.peak_bytes < b.memory.peak_bytes; });
  if (fullest == variant.stages.end() || fullest->memory.terms.empty()) return;
  page.add("<details><summary>at the peak of stage {}: ", fullest->stage);
  number(page, format_bytes(fullest->memory.peak_bytes),
         fmt::format("{}s{}.peak_bytes", key, fullest - variant.stages.begin()));
  page.raw(", term by term");
  if (fullest->memory.reserved_bytes >= 0) {
    page.add("; reserved {}, of which fragments and what is cached {}", format_bytes(fullest->memory.reserved_bytes),
             format_bytes(std::max(0.0, fullest->memory.reserved_bytes - fullest->memory.peak_bytes)));
  }
  page.raw("</summary>");
  terms_table(page, fullest->memory.terms);
  page.raw("</details>");
}

void saved_activations(Page& page, const VariantResult& variant, const std::string& key) {
  const auto stage = std::find_if(variant.stages.begin(), variant.stages.end(), [](const StageResult& s) {
    return !s.memory.saved_terms.empty() || s.memory.saved_bytes > 0;
  });
  if (stage == variant.stages.end()) return;
  const StageMemory& memory = stage->memory;
  const auto place = stage - variant.stages.begin();
  page.add("<details><summary>saved activations, stage {}: ", stage->stage);
  number(page, format_bytes(memory.saved_bytes), fmt::format("{}s{}.saved_bytes", key, place));
  if (memory.saved_formula_bytes >= 0) {
    if (memory.saved_formula_bytes == memory.saved_bytes) {
      page.raw(", equal to the formula");
    } else {  // with the digits in which the two differ
      page.add(" ({:.0f} bytes; formula ", memory.saved_bytes);
      number(page, fmt::format("{:.0f}", memory.saved_formula_bytes),
             fmt::format("{}s{}.saved_formula_bytes", key, place));
      page.raw(")");
    }
  }
  page.raw("</summary>");
  if (!memory.saved_terms.empty()) terms_table(page, memory.saved_terms);
  page.raw("</details>");
}

}  // namespace

void memory_chart(Page& page, const CaseResult& result, std::size_t index) {
  const std::vector<std::string> purposes = purposes_of(result);
  if (purposes.empty()) return;
  page.raw(
      "<h3>Memory by purpose</h3><p class=soft>At each stage's peak; the dashed line is what one GPU has. Formulas: e, "
      "w "
      "bytes of an activation and of a gradient, N parameters of the rank, r = t under sequence parallelism, q width "
      "of "
      "query, key and value, n values of a bucket.</p><ul "
      "class=legend>");
  for (std::size_t i = 0; i < purposes.size(); ++i) {
    page.add("<li><span class=\"key m{}\"></span>", i % kMemoryColours);
    page.text(purposes[i]);
  }
  page.raw("</ul><div class=cards>");
  for (std::size_t v = 0; v < result.variants.size(); ++v) {
    const VariantResult& variant = result.variants[v];
    if (variant.stages.empty()) continue;
    const std::string key = fmt::format("{}.v{}.", index, v);
    double longest = variant.capacity_gib * 0x1p30;
    for (const StageResult& stage : variant.stages) longest = std::max(longest, stage.memory.peak_bytes);
    longest *= 1.02;
    if (!(longest > 0)) continue;
    page.raw("<figure><figcaption><b>");
    page.text(variant.id);
    page.raw("</b><span class=soft>");
    number(page, significant(variant.peak_memory_gib), key + "peak_memory_gib");
    page.raw(" of ");
    number(page, fmt::format("{:.0f} GiB", variant.capacity_gib), key + "capacity_gib");
    page.raw("</span>");
    if (!variant.fits) {
      page.raw(" ");
      pill(page, "does not fit", "bad");
    }
    page.raw("</figcaption><div class=bars>");
    for (std::size_t s = 0; s < variant.stages.size(); ++s) {
      const StageResult& stage = variant.stages[s];
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
      page.raw("</svg></div><div class=v>");
      number(page, format_bytes(stage.memory.peak_bytes), fmt::format("{}s{}.peak_bytes", key, s));
      page.raw("</div>");
    }
    page.raw("</div>");
    peak_terms(page, variant, key);
    saved_activations(page, variant, key);
    page.raw("</figure>");
  }
  page.raw("</div>");
}

}  // namespace benchsuite::html
