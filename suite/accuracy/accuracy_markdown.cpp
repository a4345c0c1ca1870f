#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "suite/accuracy/accuracy_render.h"
#include "suite/report/format.h"

namespace benchsuite {

namespace {

/// What a change does to all sets, each of which weighs alike.
struct EffectSummary {
  std::string effect;
  std::size_t sets = 0, better = 0, worse = 0;
  double step_change_pct = 0, mean_abs_pct = 0, base_mean_abs_pct = 0;
  const AblationRow* most = nullptr;  ///< the set whose step changes most
};

std::vector<EffectSummary> summaries_of(const std::vector<AblationRow>& rows) {
  constexpr double kSeen = 0.5;  // percent: less is no difference
  std::vector<EffectSummary> effects;
  for (const AblationRow& row : rows) {
    auto found = std::find_if(effects.begin(), effects.end(), [&](const auto& known) { return known.effect == row.effect; });
    if (found == effects.end()) found = effects.insert(effects.end(), {.effect = row.effect});
    ++found->sets;
    found->step_change_pct += row.step_change_pct;
    found->mean_abs_pct += row.mean_abs_pct;
    found->base_mean_abs_pct += row.base_mean_abs_pct;
    found->better += row.mean_abs_pct < row.base_mean_abs_pct - kSeen ? 1 : 0;
    found->worse += row.mean_abs_pct > row.base_mean_abs_pct + kSeen ? 1 : 0;
    if (!found->most || std::abs(row.step_change_pct) > std::abs(found->most->step_change_pct)) found->most = &row;
  }
  for (EffectSummary& effect : effects) {
    for (double* sum : {&effect.step_change_pct, &effect.mean_abs_pct, &effect.base_mean_abs_pct}) {
      *sum /= static_cast<double>(effect.sets);
    }
  }
  return effects;
}

std::string ablation_markdown(const AccuracyReport& report) {
  if (report.ablation.empty()) return "";
  std::string text =
      "\n## What each effect is worth\n\nThe same rows with one thing changed; means over the sets that it is compared on. A lower "
      "error is no evidence by itself: errors cancel. A set is better or worse when its mean moves by more than half a point. "
      "`--html FILE` and `--json FILE` have it set by set.\n\n| change | sets | step | mean before | mean | sets better | sets worse | "
      "step moves most in |\n|---|---|---|---|---|---|---|---|\n";
  for (const EffectSummary& effect : summaries_of(report.ablation)) {
    text += fmt::format("| {} | {} | {:+.1f} % | {:.1f} | {:.1f} | {} | {} | {} ({:+.1f} %) |\n", markdown_escape(effect.effect),
                        effect.sets, effect.step_change_pct, effect.base_mean_abs_pct, effect.mean_abs_pct, effect.better,
                        effect.worse, markdown_escape(effect.most->set), effect.most->step_change_pct);
  }
  return text;
}

}  // namespace

std::string accuracy_markdown(const AccuracyReport& report, const std::string& command) {
  std::string text = fmt::format(
      "# Predictions against published training steps\n\nMade by `{}`. Constants come from operator measurements "
      "and datasheets, none was adjusted to these rows; *first* is the untouched first score of a set "
      "(`expected/published/first_scores.json`). Errors in percent of the published step time. {} *Half-width* stands beside what it may be. *Misses* names what a set with a target does not meet: {}.\n\n",
      command, intervals_in_words(report), goals_in_words());
  text +=
      "| set | rows | compared | first mean | mean | target | max | bias | by configuration | rank | coverage | half-width | draws "
      "that meet it | memory right | misses |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n";
  for (const Score& score : sets_and_all(report)) {
    const bool any = score.compared > 0;
    text += fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n", markdown_escape(score.name),
                        score.rows, score.compared, score_number(score.first_mean_abs_pct, 1),
                        any ? fmt::format("{:.1f}", score.mean_abs_pct) : "–", score_number(score.target_mean_pct, 1),
                        any ? fmt::format("{:.1f}", score.max_abs_pct) : "–", any ? fmt::format("{:+.1f}", score.bias_pct) : "–",
                        score.configurations > 0 ? fmt::format("{:.1f} of {}", score.configuration_mean_abs_pct, score.configurations) : "–",
                        score_number(score.rank_correlation, 2), score_share(score.interval_coverage), score_half_width(score),
                        score_share(score.share_of_draws),
                        score.memory_rows > 0 ? fmt::format("{:.0f} % of {}", 100 * score.memory_right, score.memory_rows) : "–",
                        score_missed(score));
    for (const SubScore& sub : score.sub_scores) {
      text += fmt::format("| – {} | | {} | | {} | {} | | | | | | | | | {} |\n", markdown_escape(sub.target.name), sub.rows,
                          sub_value(sub), sub_bound(sub), sub_verdict(sub));
    }
  }
  for (const Score& score : report.sets) {
    if (!score.relative_to.empty()) text += "\n- **" + markdown_escape(score.name) + "**: " + score.relative_to + "\n";
  }
  std::string left;
  for (const Score& score : report.sets) {
    if (score.residual.empty() && score.interval_note.empty()) continue;
    left += "- **" + markdown_escape(score.name) + "**: " + score.residual;
    if (!score.interval_note.empty()) left += (score.residual.empty() ? "Intervals: " : " Intervals: ") + score.interval_note;
    left += "\n";
  }
  if (!left.empty()) text += "\n## What is left\n\n" + left;
  const std::vector<UnmappedReason> reasons = unmapped_reasons(report);
  if (!reasons.empty()) text += "\n| rows not mapped | reason | one of them |\n|---|---|---|\n";
  for (const UnmappedReason& reason : reasons) {
    text += fmt::format("| {} | {} | {} |\n", reason.rows, markdown_escape(reason.reason), markdown_escape(reason.example));
  }
  return text + ablation_markdown(report);
}

}  // namespace benchsuite
