#include <fmt/format.h>

#include "suite/report/compare_render.h"
#include "suite/report/format.h"

namespace benchsuite {
namespace {

std::string value(const std::optional<double>& number, const std::string& unit) {
  return number ? markdown_escape(format_in_unit(*number, unit, 4)) : "–";
}

void pair_section(const VariantComparison& pair, std::string& text) {
  text += fmt::format("\n## {}: {} → {}\n\n", markdown_escape(pair.case_id), markdown_escape(pair.from),
                      markdown_escape(pair.to));
  if (pair.ratio) text += markdown_escape(ratio_text(*pair.ratio)) + "\n\n";
  text += "| metric | A | B | Δ | noise and effect floor | verdict | gates |\n|---|--:|--:|--:|---|---|---|\n";
  for (const MetricChange& change : pair.metrics) {
    const std::string note = change.note.empty() ? "" : ": " + markdown_escape(change.note);
    text += fmt::format("| {} | {} | {} | {} | {} | {}{} | {} |\n", markdown_escape(change.name),
                        value(change.from, change.unit), value(change.to, change.unit), change_text(change),
                        threshold_text(change), name_of(change.change), note, change.gates ? "yes" : "no");
  }
  if (!pair.waterfall || pair.waterfall->from_s == pair.waterfall->to_s) return;
  const WaterfallView view = view_of(*pair.waterfall);
  text += "\n| why | time |\n|---|--:|\n";
  text += fmt::format("| **{}** | **{}** |\n", markdown_escape(pair.from), view.scale.text(view.from));
  for (const WaterfallView::Row& part : view.rows) {
    text += fmt::format("| {} | {} |\n", markdown_escape(part.name), view.scale.text(part.ticks, true));
  }
  text += fmt::format("| **{}** | **{}** |\n", markdown_escape(pair.to), view.scale.text(view.to));
}

}  // namespace

std::string compare_markdown(const Comparison& comparison) {
  std::string text = fmt::format("# {}\n\n{}, exit code {}.\n\n- A: {}\n- B: {}\n", markdown_escape(comparison.verdict),
                                 markdown_escape(comparison.kind), comparison.exit_code,
                                 markdown_escape(comparison.from), markdown_escape(comparison.to));
  for (const std::string& note : comparison.notes) text += "- " + markdown_escape(note) + "\n";
  for (const VerdictChange& change : comparison.verdicts) {
    text += fmt::format("- {}: expectation “{}” was {}, is **{}**\n", markdown_escape(change.case_id),
                        markdown_escape(change.check), name_of(change.from), name_of(change.to));
  }
  for (const std::string& name : comparison.only_from) text += "- no longer there: " + markdown_escape(name) + "\n";
  for (const std::string& name : comparison.only_to) text += "- new: " + markdown_escape(name) + "\n";
  for (const VariantComparison& pair : comparison.variants) pair_section(pair, text);
  if (!comparison.environment.empty()) {
    text += "\n## Environment\n\n";
    for (const std::string& line : comparison.environment) text += "- " + markdown_escape(line) + "\n";
  }
  return text;
}

}  // namespace benchsuite
