#include <fmt/format.h>

#include <algorithm>

#include "suite/accuracy/accuracy_render.h"
#include "suite/report/format.h"
#include "suite/report/text_table.h"

namespace benchsuite {

std::string score_number(const std::optional<double>& value, int decimals) {
  return value ? fmt::format("{:.{}f}", *value, decimals) : "–";
}

std::string score_share(const std::optional<double>& value) {
  return value ? fmt::format("{:.0f} %", 100 * *value) : "–";
}

std::string score_half_width(const Score& score) {
  std::string text = score_number(score.interval_half_width_pct);
  if (score.interval_half_width_pct && score.target_mean_pct) {
    text += fmt::format(" of {:.1f}", kWidthInTargets * *score.target_mean_pct);
  }
  return text;
}

namespace {

int decimals_of(const SubTarget& target) { return target.metric == SubTarget::Metric::rank_correlation ? 2 : 1; }

}  // namespace

std::string sub_value(const SubScore& sub) { return score_number(sub.value, decimals_of(sub.target)); }

std::string sub_bound(const SubScore& sub) {
  if (!sub.target.bound) return "–";
  return fmt::format("{} {:.{}f}", sub.target.at_least() ? "≥" : "≤", *sub.target.bound, decimals_of(sub.target));
}

std::string sub_verdict(const SubScore& sub) { return !sub.target.bound ? "–" : sub.met() ? "met" : "missed"; }

std::vector<Score> sets_and_all(const AccuracyReport& report) {
  std::vector<Score> scores = report.sets;
  if (!report.all.sub_scores.empty()) scores.push_back(report.all);
  return scores;
}

std::string score_missed(const Score& score) {
  const bool target = score.target_mean_pct && score.compared > 0;
  if (!target && std::none_of(score.sub_scores.begin(), score.sub_scores.end(), [](const auto& sub) { return sub.target.bound; })) {
    return "–";
  }
  const std::vector<std::string> missed = score.missed_goals();
  return missed.empty() ? "none" : fmt::format("{}", fmt::join(missed, ", "));
}

std::string goals_in_words() {
  return fmt::format(
      "the mean at most the target, the worst row at most {} targets where the set has no bound of its own, the bias at most {} of "
      "one, at least {:.0f} % of the rows inside their interval, half of one at most {} targets wide in the median, and the bounds "
      "of its sub-targets, which stand below it",
      kWorstInTargets, kBiasInTargets, 100 * kLeastCoverage, kWidthInTargets);
}

std::string intervals_in_words(const AccuracyReport& report) {
  std::string text = fmt::format(
      "An interval is the central {:.0f} % of a row's draws, for every set alike: {} draws, seed {}, of the constants' published "
      "ranges, of each operator model's error on rows that it was not fitted to{}.",
      100 * (1 - 2 * kIntervalTail), report.draws, report.seed,
      report.unstated_drawn ? ", and of the documented alternatives of settings that the source leaves unstated" : "");
  if (report.all.interval_coverage) {
    text += fmt::format(" Of {} compared rows {:.0f} % lie in theirs; half of one is {:.1f} % of the published time in the median.",
                        report.all.compared, 100 * *report.all.interval_coverage, *report.all.interval_half_width_pct);
  }
  return text;
}

namespace {

std::string scores_text(const std::vector<Score>& scores, const char* title) {
  TextTable table({{title, TextTable::left, 44}, {"rows"}, {"used"}, {"mean"}, {"max"}, {"bias"}, {"target"}, {"rank"},
                   {"cover"}, {"width"}, {"draws ok"}, {"config"}, {"OOM ok"}});
  for (const Score& score : scores) {
    const auto of = [&](double value) { return score.compared > 0 ? score_number(value) : std::string("–"); };
    table.add({score.name, std::to_string(score.rows), std::to_string(score.compared), of(score.mean_abs_pct),
               of(score.max_abs_pct), of(score.bias_pct), score_number(score.target_mean_pct, 1),
               score_number(score.rank_correlation, 2), score_share(score.interval_coverage), score_half_width(score),
               score_share(score.share_of_draws), score.configurations > 0 ? of(score.configuration_mean_abs_pct) : "–",
               score.memory_rows > 0 ? score_share(score.memory_right) : std::string("–")});
    for (const SubScore& sub : score.sub_scores) {
      table.add({"  " + sub.target.name, "", std::to_string(sub.rows), sub_value(sub), "", "", sub_bound(sub), "", "", "", "", "",
                 ""});
    }
  }
  return table.text(2, [](std::string_view header) { return std::string(header); });
}

std::string rows_text(const AccuracyReport& report) {
  TextTable table({{"row", TextTable::left, 56}, {"published"}, {"predicted"}, {"error"}, {"interval"}, {"dominant", TextTable::left, 24}});
  for (const RowResult& row : report.rows) {
    if (!row.predicted) continue;
    const double published = row.published_seconds(), predicted = row.predicted_seconds();
    table.add({row.id, published > 0 ? format_seconds(published) : row.published.out_of_memory ? "no memory" : "–",
               predicted > 0 ? format_seconds(predicted) : row.predicted->fits ? "fits" : "no memory",
               row.error_pct ? fmt::format("{:+.1f} %", *row.error_pct) : "–",
               row.interval ? format_seconds(row.interval->first) + " – " + format_seconds(row.interval->second) : "–",
               row.dominant});
  }
  std::string text = table.text(2, [](std::string_view header) { return std::string(header); });
  TextTable ratios({{"row", TextTable::left, 44}, {"over", TextTable::left, 44}, {"published"}, {"predicted"}, {"error"}});
  bool any = false;
  for (const Score& score : report.sets) {
    for (const RelativeRow& row : score.relative_rows) {
      any = true;
      ratios.add({row.id, row.reference, fmt::format("{:.3f}", row.published), fmt::format("{:.3f}", row.predicted),
                  fmt::format("{:+.1f} %", row.error_pct)});
    }
  }
  if (any) text += "\n" + ratios.text(2, [](std::string_view header) { return std::string(header); });
  return text;
}

}  // namespace

std::vector<UnmappedReason> unmapped_reasons(const AccuracyReport& report) {
  std::vector<UnmappedReason> reasons;
  for (const RowResult& row : report.rows) {
    if (row.mapped) continue;
    auto found = std::find_if(reasons.begin(), reasons.end(), [&](const auto& known) { return known.reason == row.reason; });
    if (found == reasons.end()) found = reasons.insert(reasons.end(), {row.reason, row.id, 0});
    ++found->rows;
  }
  std::stable_sort(reasons.begin(), reasons.end(), [](const auto& a, const auto& b) { return a.rows > b.rows; });
  return reasons;
}

std::string accuracy_text(const AccuracyReport& report, bool rows) {
  std::string text;
  if (rows) text += rows_text(report) + "\n";
  text += scores_text(sets_and_all(report), "set") + "\n";
  text += "  errors in % of the published time; used: rows with a time that were simulated; rank: Spearman inside groups of\n"
          "  equal model, sequence and GPUs, – where none has three rows; cover: published times inside their interval; width:\n"
          "  median of half its width, of twice the target; draws ok: share of the draws whose mean error meets the "
          "target; config: mean over configurations\n";
  TextTable misses({{"set", TextTable::left, 44}, {"misses of its goals", TextTable::left, 44}});
  bool missed = false;
  for (const Score& score : sets_and_all(report)) {
    if (score.missed_goals().empty()) continue;
    missed = true;
    misses.add({score.name, score_missed(score)});
  }
  if (missed) text += "\n" + misses.text(2, [](std::string_view header) { return std::string(header); });
  text += "\n  goals of a set with a target: " + goals_in_words() + "\n\n";
  for (const Score& score : report.sets) {
    if (!score.relative_to.empty()) text += fmt::format("  {}: {}\n", score.name, score.relative_to);
  }
  text += "  " + intervals_in_words(report) + "\n\n";
  std::size_t unmapped = 0;
  TextTable reasons({{"rows"}, {"not mapped because", TextTable::left, 100}});
  for (const UnmappedReason& reason : unmapped_reasons(report)) {
    unmapped += reason.rows;
    reasons.add({std::to_string(reason.rows), one_line(reason.reason)});
  }
  if (unmapped > 0) text += reasons.text(2, [](std::string_view header) { return std::string(header); }) + "\n";
  if (!report.ablation.empty()) {
    TextTable table({{"effect", TextTable::left, 44}, {"set", TextTable::left, 32}, {"rows"}, {"step"}, {"mean"}, {"bias"}, {"was"}});
    for (const AblationRow& row : report.ablation) {
      table.add({row.effect, row.set, std::to_string(row.rows), fmt::format("{:+.1f} %", row.step_change_pct),
                 score_number(row.mean_abs_pct), score_number(row.bias_pct), score_number(row.base_mean_abs_pct)});
    }
    text += table.text(2, [](std::string_view header) { return std::string(header); }) + "\n";
  }
  text += fmt::format("{} rows, {} mapped, {} not; {} configurations simulated in {:.1f} s; {} draws{}, seed {}\n",
                      report.rows.size(), report.rows.size() - unmapped, unmapped, report.simulated, report.seconds, report.draws,
                      report.unstated_drawn ? " of constants and unstated settings" : " of constants", report.seed);
  return text;
}

}  // namespace benchsuite
