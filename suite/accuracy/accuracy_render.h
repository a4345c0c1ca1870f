// Renderings of an AccuracyReport.
#pragma once

#include <string>

#include "suite/accuracy/accuracy.h"

namespace benchsuite {

/// {"rows": [{"id", "mapped", "reason", "published", "predicted", "error_pct", "interval", "dominant", ...}],
///  "sources": [{"source", "rows", "mean_abs_pct", "max_abs_pct", "bias_pct", "rank_correlation", "interval_coverage", ...}],
///  "sets": [...], "ablation": [...]}. "interval" is the central 90 % of the row's draws ("interval_quantiles"). "sub_targets" of a
/// set: [{"name", "rows", "value", "bound", "met"}], bound and met null where it is shown alone; those of every row are under "all".
/// Relative scores are sets with "relative_to" and "relative_rows" [{"id", "reference",
///  "published", "predicted", "error_pct"}], ratios of times. Times in seconds, errors in percent; null where there is nothing to say.
Json to_json(const AccuracyReport& report);

/// Tables for a terminal: sets and sources, reasons of unmapped rows, ablation; with `rows`, every row.
std::string accuracy_text(const AccuracyReport& report, bool rows);

/// One self-contained page.
std::string accuracy_html(const AccuracyReport& report);

/// The scores as Markdown tables, for reports/accuracy.md. `command` is the command line that made them.
std::string accuracy_markdown(const AccuracyReport& report, const std::string& command);

/// How tables of scores write what may be missing: so many decimals, a share as whole percent, "–" for nothing.
std::string score_number(const std::optional<double>& value, int decimals = 1);
std::string score_share(const std::optional<double>& value);

/// The median half-width and what it may be ("4.4 of 24.0").
std::string score_half_width(const Score& score);
/// A sub-target's figure, its bound ("≥ 0.90", "–" without one), and "met", "missed" or "–".
std::string sub_value(const SubScore& sub);
std::string sub_bound(const SubScore& sub);
std::string sub_verdict(const SubScore& sub);
/// The rows of a table of sets: every set, and all rows together where these have sub-targets.
std::vector<Score> sets_and_all(const AccuracyReport& report);

/// The goals that a set misses ("worst, bias"); "none" where it meets all, "–" where it has none.
std::string score_missed(const Score& score);
/// What these goals are.
std::string goals_in_words();
/// What an interval is, and how many rows lie in theirs.
std::string intervals_in_words(const AccuracyReport& report);

/// What happened to unmapped rows: reason, number of rows, an id; most frequent first.
struct UnmappedReason {
  std::string reason, example;
  std::size_t rows = 0;
};
std::vector<UnmappedReason> unmapped_reasons(const AccuracyReport& report);

}  // namespace benchsuite
