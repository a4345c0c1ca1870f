// The comparison for a terminal, and the words that all renderings share.
#include <fmt/format.h>

#include <algorithm>

#include "suite/report/compare_render.h"
#include "suite/report/console.h"
#include "suite/report/format.h"
#include "suite/report/text_table.h"

namespace benchsuite {
namespace {

const char* colour_of(Change change) {
  switch (change) {
    case Change::better: return "32";
    case Change::worse:
    case Change::missing: return "31";
    case Change::unclear:
    case Change::changed: return "33";
    case Change::same: break;
  }
  return "2";
}

std::string paint(std::string_view text, const char* code, bool colour) {
  return colour ? fmt::format("\033[{}m{}\033[0m", code, text) : std::string(text);
}

std::string value(const std::optional<double>& number, const std::string& unit) {
  return number ? format_in_unit(*number, unit, 4) : "–";
}

void add_wrapped(std::string& text, const std::string& line, const char* first, const char* rest) {
  bool begun = false;
  for (const std::string& piece : wrap(line, kConsoleColumns - 4)) {
    text += (begun ? rest : first) + piece + "\n";
    begun = true;
  }
}

std::string waterfall_text(const Waterfall& waterfall) {
  const WaterfallView view = view_of(waterfall);
  std::string text = fmt::format("  why: {} → {}\n", one_line(waterfall.from), one_line(waterfall.to));
  const auto row = [&](const std::string& name, const std::string& time) {
    text += fmt::format("    {}  {}\n", pad_right(clip(one_line(name), 32), 32), pad_left(time, 14));
  };
  row(waterfall.from, view.scale.text(view.from));
  for (const WaterfallView::Row& part : view.rows) {
    if (part.ticks != 0) row(part.name, view.scale.text(part.ticks, true));
  }
  row(waterfall.to, view.scale.text(view.to));
  if (const std::string unchanged = unchanged_parts(view); !unchanged.empty()) {
    add_wrapped(text, "unchanged: " + unchanged, "    ", "      ");
  }
  return text;
}

/// Nothing to look at: one line says so.
bool is_unchanged(const VariantComparison& pair) {
  return !pair.ratio && std::all_of(pair.metrics.begin(), pair.metrics.end(), [](const MetricChange& change) {
    return change.change == Change::same && change.relative == 0;
  });
}

std::string metrics_text(const VariantComparison& pair, bool colour) {
  TextTable table({{"metric", TextTable::left}, {"A"}, {"B"}, {"Δ"}, {"noise and effect floor", TextTable::left, 48},
                   {"verdict", TextTable::left}});
  for (const MetricChange& change : pair.metrics) {
    table.add({change.name + (change.gates ? "" : " *"), value(change.from, change.unit), value(change.to, change.unit),
               change_text(change), threshold_text(change), std::string(name_of(change.change))});
  }
  return table.text(
      2, [&](std::string_view header) { return paint(header, "2", colour); },
      [&](std::size_t row, std::string_view cell) { return paint(cell, colour_of(pair.metrics[row].change), colour); },
      [&](std::size_t row) { return pair.metrics[row].note; });
}

}  // namespace

std::string_view name_of(Change change) {
  switch (change) {
    case Change::same: return "same";
    case Change::better: return "better";
    case Change::worse: return "WORSE";
    case Change::changed: return "changed";
    case Change::unclear: return "UNDECIDED";
    case Change::missing: return "MISSING";
  }
  return "?";
}

std::string change_text(const MetricChange& change) {
  if (!change.from || !change.to) return "–";
  if (change.unit == "1" && change.floor == 0) return *change.from == *change.to ? "0" : "changed";
  if (change.relative == 0) return "0 %";
  return fmt::format("{:+.2f} %", change.relative * 100);
}

std::string threshold_text(const MetricChange& change) {
  const std::string floor = fmt::format("floor {:g} %", change.floor * 100);
  if (change.exact) return "noise 0 (n = 1, exact), " + floor;
  const std::string samples = fmt::format("n = {}, {}", change.from_samples, change.to_samples);
  return fmt::format("noise {:.2f} % ({}), {}", change.noise * 100, samples, floor);
}

std::string ratio_text(const StepRatio& ratio) {
  std::string interval;
  if (ratio.low && ratio.high && ratio.confidence) {
    interval = fmt::format(", {:.4g} % of the time in [{:.4f}, {:.4f}], {} pairs", *ratio.confidence * 100, *ratio.low,
                           *ratio.high, ratio.pairs);
  }
  return fmt::format("step B / A = {:.4f}{} ({})", ratio.ratio, interval, ratio.note);
}

std::string compare_text(const Comparison& comparison, bool colour) {
  std::string text;
  add_wrapped(text, comparison.kind, "", "  ");
  add_wrapped(text, "A: " + one_line(comparison.from), "  ", "     ");
  add_wrapped(text, "B: " + one_line(comparison.to), "  ", "     ");
  bool derived = false;
  for (const VariantComparison& pair : comparison.variants) {
    text +=
        "\n" +
        paint(fmt::format("{}: {} → {}", one_line(pair.case_id), one_line(pair.from), one_line(pair.to)), "1", colour) +
        "\n";
    if (is_unchanged(pair)) {
      const MetricChange& first = pair.metrics.front();
      text += fmt::format("  all {} metrics are the same, {} {} ({})\n", pair.metrics.size(), first.name,
                          value(first.to, first.unit), threshold_text(first));
      continue;
    }
    text += metrics_text(pair, colour);
    derived = derived ||
              std::any_of(pair.metrics.begin(), pair.metrics.end(), [](const MetricChange& c) { return !c.gates; });
    if (pair.ratio) add_wrapped(text, ratio_text(*pair.ratio), "  ", "    ");
    if (pair.waterfall && pair.waterfall->from_s != pair.waterfall->to_s) text += waterfall_text(*pair.waterfall);
  }
  text += "\n";
  if (derived) text += "  * shown, never decides: it follows from the step, or says how rather than how well\n";
  for (const VerdictChange& change : comparison.verdicts) {
    add_wrapped(text, fmt::format("{}: expectation \"{}\" was {}, is {}", change.case_id, change.check,
                                  name_of(change.from), name_of(change.to)), "  ", "    ");
  }
  for (const std::string& name : comparison.only_from) add_wrapped(text, "no longer there: " + name, "  ", "    ");
  for (const std::string& name : comparison.only_to) add_wrapped(text, "new: " + name, "  ", "    ");
  for (const std::string& line : comparison.environment)
    add_wrapped(text, "environment: " + one_line(line), "  ", "    ");
  for (const std::string& note : comparison.notes) add_wrapped(text, note, "  ", "    ");
  return text + fmt::format("benchsuite compare: {}  exit={}\n", one_line(comparison.verdict), comparison.exit_code);
}

}  // namespace benchsuite
