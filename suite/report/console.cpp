#include "suite/report/console.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "suite/report/format.h"
#include "suite/report/text_table.h"

namespace benchsuite {
namespace {

constexpr std::size_t kIndent = 9;  ///< below the text behind "[ PASS ] "

class Paint {
 public:
  explicit Paint(bool colour) : colour_(colour) {}
  std::string operator()(std::string_view text, const char* code) const {
    return colour_ ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : std::string(text);
  }
  std::string bold(std::string_view text) const { return (*this)(text, "1"); }
  std::string dim(std::string_view text) const { return (*this)(text, "2"); }

 private:
  bool colour_;
};

const char* code_of(Status status) {
  switch (status) {
    case Status::pass:
    case Status::xfail: return "32";
    case Status::skip:
    case Status::noref:
    case Status::warn:
    case Status::xpass: return "33";
    case Status::fail:
    case Status::aborted:
    case Status::timeout:
    case Status::error: return "31";
  }
  return "0";
}

const char* code_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::pass: return "32";
    case Verdict::warn:
    case Verdict::improved:
    case Verdict::noref: return "33";
    case Verdict::fail:
    case Verdict::missing: return "31";
    case Verdict::shown: return "2";
  }
  return "0";
}

std::string variants_table(const CaseResult& result, const Paint& paint) {
  TextTable table({{"variant", TextTable::left, 24},
                   {"step"},
                   {"MFU"},
                   {"HFU"},
                   {"busy"},
                   {"bubble | formula"},
                   {"exposed TP"},
                   {"recompute"},
                   {"peak / GiB"},
                   {"ratio"}});
  const std::vector<std::optional<double>> ratios = step_ratios(result);
  std::string notes;
  for (std::size_t i = 0; i < result.variants.size(); ++i) {
    const VariantResult& v = result.variants[i];
    if (!(v.iteration_s > 0)) {
      table.add({v.id, std::string(name_of(v.status)), "–", "–", "–", "–", "–", "–", "–", "–"});
      notes += fmt::format("  {}: {}\n", one_line(v.id),
                           one_line(v.reason_code + (v.reason.empty() ? "" : ": " + v.reason)));
      continue;
    }
    const double exposed = mean_seconds(v, Category::tensor) + mean_seconds(v, Category::tensor_recompute);
    table.add({v.id, format_seconds(v.iteration_s), v.mfu ? format_percent(*v.mfu) : "–",
               v.hfu ? format_percent(*v.hfu) : "–", format_percent(v.gpu_busy),
               fmt::format("{} | {}", format_percent(v.bubble_share), format_percent(v.bubble_formula_step)),
               format_seconds(exposed), format_seconds(v.recompute_s),
               fmt::format("{} / {:.0f}{}", significant(v.peak_memory_gib), v.capacity_gib, v.fits ? "" : " !"),
               ratios[i] ? fmt::format("{:.2f}", *ratios[i]) : "–"});
    if (const Sampling sampling = sampling_of(v); sampling.n > 1) {
      notes += fmt::format("  {}: median of n = {} steps, spread {}\n", one_line(v.id), sampling.n,
                           sampling.spread.value_or(0) == 0 ? "0 (equal)" : format_percent(*sampling.spread));
    }
    if (!v.fits) {
      notes += fmt::format("  ! {} does not fit: {} GiB of {:.0f} GiB\n", one_line(v.id),
                           significant(v.peak_memory_gib), v.capacity_gib);
    }
    if (v.loss) notes += fmt::format("  {}: loss {}\n", one_line(v.id), significant(*v.loss, 6));
  }
  std::string formulas;
  for (const VariantResult& v : result.variants) {
    if (!v.flops_formula.empty() && formulas.find(v.flops_formula) == std::string::npos)
      formulas += (formulas.empty() ? "" : ", ") + v.flops_formula;
  }
  if (formulas.find(", ") != std::string::npos) {
    notes += "  MFU counts FLOPs by " + formulas + ": a flash kernel skips what the causal mask leaves out\n";
  }
  std::string text = table.text(2, [&](std::string_view header) { return paint.bold(header); });
  text +=
      paint.dim("  ratio: step over the fastest of the same model, hardware and layout (recompute apart) that fits") +
      "\n";
  return text + notes;
}

/// A part of the bubble in a column's width: its word that is not common to others.
std::string one_word(const std::string& name) {
  if (name == "unequal stages") return "stages";
  if (name == "varying passes") return "varying";
  if (name == "end of the step") return "end";
  return name;
}

/// The waiting time of a mean rank beside the formula in its second convention (the first is in the table above), and what
/// it is made of. Parts that are small everywhere are left out.
std::string bubble_table(const CaseResult& result, const Paint& paint) {
  std::vector<std::string> names;
  for (const VariantResult& v : result.variants) {
    for (const BubblePart& part : v.bubble_parts) {
      const bool matters = std::abs(part.seconds) >= 0.0005 * v.iteration_s;
      if (matters && std::find(names.begin(), names.end(), part.name) == names.end()) names.push_back(part.name);
    }
  }
  if (names.empty()) return "";
  const std::vector<BubblePart>& order = std::max_element(
      result.variants.begin(), result.variants.end(), [](const VariantResult& x, const VariantResult& y) {
        return x.bubble_parts.size() < y.bubble_parts.size();
      })->bubble_parts;
  std::vector<TextTable::Column> columns{{"bubble", TextTable::left, 24}, {"of passes"}, {"formula"}, {"waiting ="}};
  std::vector<std::string> shown;
  for (const BubblePart& part : order) {
    if (std::find(names.begin(), names.end(), part.name) == names.end()) continue;
    columns.push_back({(shown.empty() ? "" : "+ ") + one_word(part.name)});
    shown.push_back(part.name);
  }
  TextTable table(columns);
  for (const VariantResult& v : result.variants) {
    if (v.bubble_parts.empty()) continue;
    std::vector<std::string> cells{
        v.id, format_percent(v.bubble_over_ideal), format_percent(v.bubble_formula_ideal),
        format_seconds(v.bubble_share * v.iteration_s)};
    for (const std::string& name : shown) {
      const auto part = std::find_if(v.bubble_parts.begin(), v.bubble_parts.end(),
                                     [&](const BubblePart& candidate) { return candidate.name == name; });
      cells.push_back(part == v.bubble_parts.end() ? "–" : format_seconds(part->seconds));
    }
    table.add(cells);
  }
  std::string text = "\n" + table.text(2, [&](std::string_view header) { return paint.bold(header); });
  for (const std::string& line : wrap("formula: (p - 1)/(v m + p - 1) of the step above, (p - 1)/(v m) of the passes "
                                      "here; parts under 0.05 % of every step are left out",
                                      kConsoleColumns - 2)) {
    text += paint.dim("  " + line) + "\n";
  }
  return text;
}

/// A bar that spans [from, to] of `longest` on `width` columns; at least one column wide.
std::string bar(double from, double to, double longest, std::size_t width, bool solid) {
  const double scale = longest > 0 ? static_cast<double>(width) / longest : 0;
  auto first = static_cast<std::size_t>(std::lround(std::min(from, to) * scale));
  auto last = static_cast<std::size_t>(std::lround(std::max(from, to) * scale));
  first = std::min(first, width - 1);
  last = std::clamp(last, first + 1, width);
  std::string text(first, ' ');
  for (std::size_t i = first; i < last; ++i) text += solid ? "█" : "▒";
  return text;
}

std::string waterfall_text(const Waterfall& waterfall, const Paint& paint) {
  const WaterfallView view = view_of(waterfall);
  std::string text = "  " + paint.bold(fmt::format("why: {} → {}", one_line(waterfall.from), one_line(waterfall.to))) +
                     fmt::format("  ({})\n", view.scale.text(view.to - view.from, true));
  std::size_t name_width = std::max(columns(waterfall.from), columns(waterfall.to));
  double longest = std::max(waterfall.from_s, waterfall.to_s), level = waterfall.from_s;
  for (const WaterfallView::Row& row : view.rows) {
    name_width = std::max(name_width, columns(row.name));
    level += row.seconds;
    longest = std::max(longest, level);
  }
  name_width = std::min<std::size_t>(name_width, 40);
  const std::size_t width = kConsoleColumns - name_width - 20;
  const auto line = [&](std::string_view name, const std::string& value, const std::string& picture, const char* code) {
    text += fmt::format("    {}  {}", pad_right(clip(one_line(name), name_width), name_width), pad_left(value, 11));
    text += picture.empty() ? "\n" : "  " + paint(picture, code) + "\n";
  };
  line(waterfall.from, view.scale.text(view.from), bar(0, waterfall.from_s, longest, width, true), "34");
  level = waterfall.from_s;
  for (const WaterfallView::Row& row : view.rows) {
    if (row.ticks != 0) {
      line(row.name, view.scale.text(row.ticks, true), bar(level, level + row.seconds, longest, width, false),
           row.seconds < 0 ? "32" : "31");
    }
    level += row.seconds;
  }
  line(waterfall.to, view.scale.text(view.to), bar(0, waterfall.to_s, longest, width, true), "34");
  if (const std::string names = unchanged_parts(view); !names.empty()) {
    for (const std::string& piece : wrap("unchanged: " + names, kConsoleColumns - 4)) text += "    " + piece + "\n";
  }
  if (!waterfall.one_line.empty()) {
    for (const std::string& piece : wrap(waterfall.one_line, kConsoleColumns - 4)) text += "    " + piece + "\n";
  }
  return text;
}

std::string expected_text(const CheckResult& check, int digits) {
  return format_range(check.pass_low, check.pass_high, check.unit, digits);
}

/// Every check that did not pass, and the passing measurements and baselines; bounds that hold are many and are only
/// counted.
std::string checks_text(const CaseResult& result, const Paint& paint) {
  std::vector<const CheckResult*> listed;
  std::size_t gating = 0, held = 0;
  for (const CheckResult& check : result.checks) gating += check.verdict == Verdict::shown ? 0 : 1;
  for (const CheckResult& check : result.checks) {
    if (check.verdict == Verdict::shown) continue;
    if (gating > 12 && check.verdict == Verdict::pass && check.kind == "bound") {
      ++held;
    } else {
      listed.push_back(&check);
    }
  }
  if (listed.empty() && held == 0) return "";
  std::stable_sort(listed.begin(), listed.end(), [](const CheckResult* a, const CheckResult* b) {
    return needs_attention(*a) > needs_attention(*b);
  });
  TextTable table({{"verdict", TextTable::left, 8},
                   {"expectation", TextTable::left, 56},
                   {"value"},
                   {"expected"},
                   {"kind", TextTable::left, 11}});
  for (const CheckResult* check : listed) {
    const int digits = digits_to_tell_apart(*check);
    table.add({std::string(name_of(check->verdict)), title_of(*check),
               check->value ? format_in_unit(*check->value, check->unit, digits) : "missing",
               expected_text(*check, digits), check->kind});
  }
  std::string text;
  if (!listed.empty()) {
    text = table.text(
        2, [&](std::string_view header) { return paint.bold(header); },
        [&](std::size_t row, std::string_view cell) { return paint(cell, code_of(listed[row]->verdict)); },
        [&](std::size_t row) { return listed[row]->source; });
  }
  if (held > 0) text += fmt::format("  PASS      {} more bounds hold; the reports list each\n", held);
  return text;
}

std::string claims_text(const CaseResult& result, const Paint& paint) {
  std::string text;
  for (const CheckResult& check : result.checks) {
    if (check.verdict != Verdict::shown) continue;
    if (text.empty()) text = "  " + paint.bold("claims, shown but never judged") + "\n";
    std::string line = title_of(check);
    if (check.target) line += fmt::format(": claimed {}", format_in_unit(*check.target, check.unit));
    if (check.value)
      line += fmt::format("{} {}", check.target ? ", here" : ":", format_in_unit(*check.value, check.unit));
    line += ".";
    if (!check.explanation.empty()) line += " " + check.explanation;
    bool first = true;
    for (const std::string& piece : wrap(line, kConsoleColumns - 4)) {
      text += (first ? "  - " : "    ") + piece + "\n";
      first = false;
    }
  }
  return text;
}

}  // namespace

std::string console_start(const CaseResult& result, std::string_view device, bool colour) {
  return Paint(colour)("[ RUN  ]", "36") +
         fmt::format(" {}  ({} variant{} on {})\n", one_line(result.id), result.variants.size(),
                     result.variants.size() == 1 ? "" : "s", one_line(device));
}

std::string console_case(const CaseResult& result, bool colour, std::string_view reproduce) {
  const Paint paint(colour);
  std::string text = paint(fmt::format("[ {} ]", pad_right(name_of(result.status), 4)), code_of(result.status)) + " " +
                     paint.bold(one_line(result.id)) + fmt::format("  {}", format_seconds(result.elapsed_s));
  text += "\n";
  const std::string indent(kIndent, ' ');
  for (const std::string& piece : wrap(result.title, kConsoleColumns - kIndent))
    text.append(indent).append(piece).append("\n");
  if (!result.reason_code.empty() || !result.reason.empty()) {
    const std::string reason =
        result.reason_code + (result.reason_code.empty() || result.reason.empty() ? "" : ": ") + result.reason;
    for (const std::string& piece : wrap(reason, kConsoleColumns - kIndent))
      text.append(indent).append(piece).append("\n");
  }
  if (!result.variants.empty()) text += "\n" + variants_table(result, paint) + bubble_table(result, paint);
  for (const Waterfall& waterfall : result.waterfalls) text.append("\n").append(waterfall_text(waterfall, paint));
  if (const std::string checks = checks_text(result, paint); !checks.empty()) text.append("\n").append(checks);
  if (const std::string claims = claims_text(result, paint); !claims.empty()) text.append("\n").append(claims);
  const std::string command =
      reproduce.empty() ? "benchsuite run --case " + shell_quote(one_line(result.id)) : one_line(reproduce);
  return text + "\n  " + paint.dim("reproduce:") + " " + command + "\n";
}

std::string console_summary(const Run& run, std::string_view results_folder) {
  std::string line =
      fmt::format("benchsuite: {}  [{}]  exit={}", count_line(run), one_line(results_folder), run.exit_code);
  return line;
}

bool wants_colour(bool no_color, int descriptor) {
  const char* forbidden = std::getenv("NO_COLOR");
  return !no_color && !(forbidden && *forbidden) && ::isatty(descriptor) == 1;
}

}  // namespace benchsuite
