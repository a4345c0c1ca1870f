#include <fmt/format.h>

#include "suite/accuracy/accuracy_render.h"
#include "suite/report/format.h"

namespace benchsuite {

std::string accuracy_markdown(const AccuracyReport& report) {
  std::string text = fmt::format(
      "# Predictions against published training steps\n\nMade by `benchsuite accuracy {}--markdown "
      "reports/accuracy.md`. Constants come from operator measurements and datasheets, none was adjusted to these rows; *first* is the "
      "untouched first score of a set (`expected/published/first_scores.json`). Errors in percent of the published step time. "
      "Intervals, which *coverage* and *half-width* are of: {} draws of the constants' published ranges{}, seed {}.\n\n",
      report.unstated_drawn ? fmt::format("--ensemble {} ", report.draws) : "", report.draws,
      report.unstated_drawn ? " and of settings that the source leaves unstated" : "", report.seed);
  text +=
      "| set | rows | compared | first mean | mean | target | max | bias | by configuration | rank | coverage | half-width | draws "
      "that meet it | memory right |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n";
  for (const Score& score : report.sets) {
    const bool any = score.compared > 0;
    text += fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n", markdown_escape(score.name),
                        score.rows, score.compared, score_number(score.first_mean_abs_pct, 1),
                        any ? fmt::format("{:.1f}", score.mean_abs_pct) : "–", score_number(score.target_mean_pct, 1),
                        any ? fmt::format("{:.1f}", score.max_abs_pct) : "–", any ? fmt::format("{:+.1f}", score.bias_pct) : "–",
                        score.configurations > 0 ? fmt::format("{:.1f} of {}", score.configuration_mean_abs_pct, score.configurations) : "–",
                        score_number(score.rank_correlation, 2), score_share(score.interval_coverage), score_number(score.interval_half_width_pct, 1),
                        score_share(score.share_of_draws),
                        score.memory_rows > 0 ? fmt::format("{:.0f} % of {}", 100 * score.memory_right, score.memory_rows) : "–");
  }
  for (const Score& score : report.sets) {
    if (!score.relative_to.empty()) text += "\n- **" + markdown_escape(score.name) + "**: " + score.relative_to + "\n";
  }
  text += "\n## What is left\n\n";
  for (const Score& score : report.sets) {
    if (!score.residual.empty()) text += "- **" + markdown_escape(score.name) + "**: " + score.residual + "\n";
  }
  text += "\n| rows not mapped | reason | one of them |\n|---|---|---|\n";
  for (const UnmappedReason& reason : unmapped_reasons(report)) {
    text += fmt::format("| {} | {} | {} |\n", reason.rows, markdown_escape(reason.reason), markdown_escape(reason.example));
  }
  if (!report.ablation.empty()) {
    text += "\n| change | set | rows | step | mean % | bias % | mean before | bias before |\n|---|---|---|---|---|---|---|---|\n";
    for (const AblationRow& row : report.ablation) {
      text += fmt::format("| {} | {} | {} | {:+.1f} % | {:.1f} | {:+.1f} | {:.1f} | {:+.1f} |\n", row.effect, markdown_escape(row.set),
                          row.rows, row.step_change_pct, row.mean_abs_pct, row.bias_pct, row.base_mean_abs_pct, row.base_bias_pct);
    }
  }
  return text;
}

}  // namespace benchsuite
