#include "suite/report/markdown.h"

#include <fmt/format.h>

#include <cmath>

#include "suite/report/format.h"

namespace benchsuite {
namespace {

std::string row(const std::vector<std::string>& cells) {
  std::string line = "|";
  for (const std::string& cell : cells) line += " " + cell + " |";
  return line + "\n";
}

std::string header(const std::vector<std::string>& titles, std::size_t left_columns) {
  std::string line = row(titles) + "|";
  for (std::size_t i = 0; i < titles.size(); ++i) line += i < left_columns ? "---|" : "--:|";
  return line + "\n";
}

std::string failures(const Run& run) {
  std::string text;
  for (const CaseResult& result : run.cases) {
    if (result.status > Status::warn && !result.reason.empty()) {
      text += fmt::format("- **{}** {}: {}\n", name_of(result.status), markdown_escape(result.id),
                          markdown_escape(result.reason));
    }
    for (const CheckResult& check : result.checks) {
      if (!needs_attention(check)) continue;
      text += fmt::format("- **{}** {}: {}: {} ({}: {})\n", name_of(check.verdict), markdown_escape(result.id),
                          markdown_escape(title_of(check)), markdown_escape(failure_text(check)),
                          markdown_escape(check.kind), markdown_escape(check.source));
    }
    for (const VariantResult& variant : result.variants) {
      if (variant.status == Status::pass) continue;
      text += fmt::format("- **{}** {}/{}: {} {}\n", name_of(variant.status), markdown_escape(result.id),
                          markdown_escape(variant.id), markdown_escape(variant.reason_code),
                          markdown_escape(variant.reason));
    }
  }
  return text;
}

std::string variants(const CaseResult& result, std::string_view device) {
  std::string text = "### Variants\n\n" +
                     header({"variant", "step", "n", "spread", "tokens/s per GPU", "MFU", "HFU", "GPU busy", "bubble",
                             "formula", "exposed tensor comm", "recompute", "peak memory", "capacity", "ratio"},
                            1);
  const std::vector<std::optional<double>> ratios = step_ratios(result);
  for (std::size_t i = 0; i < result.variants.size(); ++i) {
    const VariantResult& v = result.variants[i];
    if (!(v.iteration_s > 0)) {
      std::vector<std::string> cells(15, "–");
      cells[0] = markdown_escape(v.id);
      cells[1] = name_of(v.status);
      text += row(cells);
      continue;
    }
    const Sampling sampling = sampling_of(v);
    text += row({markdown_escape(v.id), format_seconds(v.iteration_s), fmt::to_string(sampling.n),
                 format_spread(sampling, device), significant(v.tokens_per_s_per_gpu),
                 v.mfu ? format_percent(*v.mfu) : "–", v.hfu ? format_percent(*v.hfu) : "–", format_percent(v.gpu_busy),
                 format_percent(v.bubble_share), format_percent(v.bubble_formula_step),
                 format_seconds(mean_seconds(v, Category::tensor) + mean_seconds(v, Category::tensor_recompute)),
                 format_seconds(v.recompute_s),
                 significant(v.peak_memory_gib) + " GiB" + (v.fits ? "" : " (**does not fit**)"),
                 fmt::format("{:.0f} GiB", v.capacity_gib), ratios[i] ? fmt::format("{:.2f}", *ratios[i]) : "–"});
  }
  text +=
      "\nStep: median of n; spread: (longest − shortest) / median. Ratio: step over the fastest of the same model, "
      "hardware and layout (recompute apart) that fits. Times by "
      "category are means over the ranks.\n";

  std::string bubbles, legend;
  for (const VariantResult& v : result.variants) {
    if (v.bubble_parts.empty()) continue;
    const bool first = legend.empty();
    std::string parts;
    for (const BubblePart& part : v.bubble_parts) {
      if (first) legend += "- " + part.name + ": " + markdown_escape(part.explanation) + "\n";
      if (std::abs(part.seconds) < 1e-9) continue;  // rounding to picoseconds
      parts += (parts.empty() ? "" : " + ") + part.name + " " + format_seconds(part.seconds);
    }
    bubbles += row({markdown_escape(v.id), format_percent(v.bubble_share), format_percent(v.bubble_formula_step),
                    format_percent(v.bubble_over_ideal), format_percent(v.bubble_formula_ideal),
                    format_seconds(v.bubble_share * v.iteration_s), markdown_escape(parts)});
  }
  if (!bubbles.empty()) {
    text += "\n### Bubble: measured beside the formula, in both conventions\n\n" +
            header({"variant", "of the step", "(p - 1)/(v m + p - 1)", "of the passes", "(p - 1)/(v m)", "waiting",
                    "made of"}, 1) +
            bubbles + "\nWhat the parts are, with the numbers of the first variant:\n\n" + legend;
  }

  if (!has_timeline(result)) return text + "\n";
  text += "\n### Where the step goes (percent of the step, mean over the ranks)\n\n";
  std::vector<std::string> titles{"variant"};
  for (const CategoryStyle& style : category_styles()) titles.emplace_back(style.title);
  titles.emplace_back("sum");
  text += header(titles, 1);
  for (const VariantResult& v : result.variants) {
    const auto shares = permille_of(v.mean_breakdown);
    std::vector<std::string> cells{markdown_escape(v.id)};
    std::int64_t sum = 0;
    for (const CategoryStyle& style : category_styles()) {
      const std::int64_t share = shares[static_cast<std::size_t>(style.category)];
      sum += share;
      cells.push_back(fmt::format("{}.{}", share / 10, share % 10));
    }
    cells.push_back(fmt::format("{}.{}", sum / 10, sum % 10));
    text += row(cells);
  }
  return text + "\n";
}

/// Where something was trained.
std::string losses(const CaseResult& result) {
  std::string rows;
  for (const VariantResult& v : result.variants) {
    if (v.loss_curve.empty()) continue;
    rows += row({markdown_escape(v.id), fmt::to_string(v.loss_curve.size()), significant(v.loss_curve.front(), 6),
                 significant(v.loss_curve.back(), 6)});
  }
  return rows.empty() ? "" : "### Loss\n\n" + header({"variant", "steps", "first", "last"}, 1) + rows + "\n";
}

std::string waterfall(const Waterfall& fall) {
  const WaterfallView view = view_of(fall);
  std::string text = fmt::format("### Why: {} → {}\n\n", markdown_escape(fall.from), markdown_escape(fall.to));
  if (!fall.one_line.empty()) text += markdown_escape(fall.one_line) + "\n\n";
  text += "| part | time | what it is |\n|---|--:|---|\n";
  text += row({"**" + markdown_escape(fall.from) + "**", "**" + view.scale.text(view.from) + "**", ""});
  for (const WaterfallView::Row& part : view.rows) {
    text += row({markdown_escape(part.name), view.scale.text(part.ticks, true), markdown_escape(part.explanation)});
  }
  text += row({"**" + markdown_escape(fall.to) + "**", "**" + view.scale.text(view.to) + "**",
               "difference " + view.scale.text(view.to - view.from, true)});
  return text + "\n";
}

std::string checks(const CaseResult& result, std::string_view device) {
  std::string rows, claims;
  for (const CheckResult& check : result.checks) {
    if (check.verdict == Verdict::shown) {
      claims += "- **" + markdown_escape(title_of(check)) + "**";
      if (check.target) claims += ": claimed " + markdown_escape(format_in_unit(*check.target, check.unit));
      if (check.value)
        claims +=
            std::string(check.target ? ", here " : ": ") + markdown_escape(format_in_unit(*check.value, check.unit));
      claims += ". " + markdown_escape(check.explanation) + " (" + markdown_escape(check.source) + ")\n";
      continue;
    }
    const int digits = digits_to_tell_apart(check);
    const Sampling sampling = sampling_of(check, result);
    std::string expected = format_range(check.pass_low, check.pass_high, check.unit, digits);
    const std::string warn = format_range(check.warn_low, check.warn_high, check.unit, digits);
    if (!warn.empty() && warn != expected) expected += " (warns within " + warn + ")";
    const std::string delta = format_delta(check);
    rows += row({markdown_escape(title_of(check)),
                 check.value ? markdown_escape(format_in_unit(*check.value, check.unit, digits)) : "missing",
                 expected.empty() ? "–" : markdown_escape(expected), delta.empty() ? "–" : delta,
                 sampling.n > 0 ? fmt::to_string(sampling.n) : "–", format_spread(sampling, device),
                 std::string(name_of(check.verdict)), markdown_escape(check.kind), markdown_escape(check.source)});
  }
  std::string text;
  if (!rows.empty()) {
    text +=
        "### Expectations\n\n| expectation | measured | expected | Δ | n | spread | verdict | kind | source "
        "|\n|---|--:|--:|--:|--:|--:|---|---|---|\n" +
        rows + "\n";
  }
  if (!claims.empty()) text += "### Claims (shown, never judged)\n\n" + claims + "\n";
  return text;
}

/// The note's headings sink below the case's own.
std::string sink_headings(const std::string& note) {
  std::string text;
  bool code = false;
  for (std::size_t at = 0; at < note.size();) {
    const std::size_t end = std::min(note.find('\n', at), note.size());
    const std::string line = note.substr(at, end - at);
    at = end + 1;
    if (line.rfind("```", 0) == 0) code = !code;
    if (!code && line.rfind("#", 0) == 0) text += "###";
    text += line + "\n";
  }
  return text;
}

}  // namespace

std::string markdown_report(const Run& run) {
  std::string text = fmt::format("# benchsuite {}: {}\n\n{}\n\n", markdown_escape(run.run_id),
                                 name_of(worst_status(run)), count_line(run));
  text += fmt::format("Device `{}`, exit code {}. Reproduce with:\n\n```\n{}\n```\n\n", one_line(run.device),
                      run.exit_code, reproduce_line(run));
  text += "## What failed and why\n\n";
  const std::string failed = failures(run);
  text += failed.empty() ? std::string(run.cases.empty() ? "No case ran: nothing was judged.\n" : "Nothing failed.\n")
                         : failed;
  for (const CaseResult& result : run.cases) {
    text += fmt::format("\n## {} {}\n\n{}\n\n", name_of(result.status), markdown_escape(result.id),
                        markdown_escape(result.title));
    for (const Waterfall& fall : result.waterfalls) text += waterfall(fall);
    if (!result.variants.empty()) text += variants(result, run.device);
    text += losses(result);
    text += checks(result, run.device);
    if (!result.method_note.empty()) text += "### Method\n\n" + sink_headings(result.method_note) + "\n";
  }
  const auto environment = environment_lines(run.environment);
  if (!environment.empty()) text += "\n## Environment\n\n| name | value |\n|---|---|\n";
  for (const auto& [name, value] : environment) text += row({markdown_escape(name), markdown_escape(value)});
  text += fmt::format("\n---\n\nbenchsuite {}, engine {}", markdown_escape(run.suite_version),
                      markdown_escape(run.engine_commit));
  if (!run.host.empty()) text += ", host " + markdown_escape(run.host);
  if (!run.started.empty()) text += fmt::format(", {} to {}", run.started, run.ended);
  text += "\n";
  return text;
}

}  // namespace benchsuite
