// How far the simulated device is from published training-step measurements, row by row.
//
// Every row of the selection is in the report: mapped and simulated, or with the reason why not. Equal configurations are
// simulated once. Comparison is on iteration time (a rate is turned into it); errors are 100 (predicted / published - 1).
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "suite/accuracy/map_row.h"
#include "suite/accuracy/progress.h"
#include "suite/accuracy/source_rules.h"
#include "suite/accuracy/steady_state.h"

namespace benchsuite {

struct Prediction {
  double iteration_s = 0;  ///< 0 for rows of memory or of one layer
  double tokens_per_s_per_gpu = 0, model_tflops_per_gpu = 0;
  std::optional<double> mfu, hfu;
  double peak_memory_gib = 0;
  bool fits = true;
  double layer_forward_s = 0, layer_backward_s = 0;  ///< rows of one layer
  double activation_gib = 0;                         ///< saved activations of the first stage
  std::string samples;                               ///< what was simulated, steady_state.h
};

struct RowResult {
  std::string id, source, set;
  RowKind kind{};
  bool verified = true;
  bool mapped = false;
  std::string reason;
  std::string stack, hardware;
  ModelConfig model;
  Layout layout;
  std::vector<std::string> assumptions;
  Published published;
  std::optional<Prediction> predicted;
  std::optional<double> error_pct;  ///< of the time: iteration, or layer forward + backward; null where neither is published
  std::optional<double> forward_error_pct, backward_error_pct;  ///< rows of one layer
  std::optional<double> memory_error_pct;                       ///< peak or saved activations
  std::optional<std::pair<double, double>> interval;            ///< central 90 % of the draws, seconds of the same time as error_pct
  std::string dominant;

  /// The time that error_pct compares, in seconds: of an iteration, or of one layer forward and backward; 0: none.
  double published_seconds() const;
  double predicted_seconds() const;  ///< of a row with a prediction

  /// Rows that differ in replicas, batch and GPUs alone are one configuration of a source.
  std::string configuration() const;
};

/// A row of a relative score: times over those of its reference row.
struct RelativeRow {
  std::string id, reference;
  double published = 0, predicted = 0;
  double error_pct = 0;
};

/// What a SubTarget asks for, and what its rows show.
struct SubScore {
  SubTarget target;
  std::size_t rows = 0;  ///< that have the figure; 0: there is no value
  double value = 0;
  bool met() const;  ///< always without a bound
};

struct Score {
  std::string name;  ///< of a source or a set
  std::size_t rows = 0, mapped = 0, compared = 0;
  double mean_abs_pct = 0, max_abs_pct = 0, bias_pct = 0;
  std::string worst;                        ///< id of the worst row
  std::optional<double> rank_correlation;   ///< Spearman inside groups of equal model, sequence and GPUs, mean by rows
  std::size_t rank_groups = 0;              ///< of at least three rows; 0: there is no rank correlation
  std::optional<double> interval_coverage;  ///< share of compared rows whose published time lies in its interval
  std::string interval_note;                ///< why it is below 80 %, where it is
  std::optional<double> interval_half_width_pct;  ///< median, of the published time
  std::optional<double> share_of_draws;     ///< of the ensemble's draws that meet the set's target mean
  std::size_t configurations = 0;
  double configuration_mean_abs_pct = 0, configuration_max_abs_pct = 0;  ///< errors averaged by configuration first
  std::optional<double> target_mean_pct, target_max_pct;
  std::optional<double> first_mean_abs_pct;  ///< the set's first score, expected/published/first_scores.json
  std::string residual;
  std::size_t memory_rows = 0;         ///< rows that say out of memory, or ran
  double memory_right = 0;             ///< share predicted right
  std::size_t false_fits = 0, false_ooms = 0;
  std::string relative_to;                 ///< what the rows are compared with, relative.h; empty: the published time itself
  std::vector<RelativeRow> relative_rows;  ///< relative scores only

  std::vector<SubScore> sub_scores;        ///< of the set's sub-targets, those with a value

  /// Which goals it misses: of a set with a target "mean", "worst", "bias", "coverage", "width", and the names of missed
  /// sub-targets. Empty where it meets them all, or has none or nothing compared.
  std::vector<std::string> missed_goals() const;
};

struct AblationRow {
  std::string effect, set;
  std::size_t rows = 0;
  double base_mean_abs_pct = 0, base_bias_pct = 0;
  double mean_abs_pct = 0, bias_pct = 0;
  double step_change_pct = 0;  ///< mean change of the predicted time
};

struct AccuracyReport {
  std::vector<RowResult> rows;
  std::vector<Score> sources, sets;  ///< sets: the relative ones last
  Score all;                         ///< every compared row
  std::vector<AblationRow> ablation;
  std::string selection;     ///< --source as given
  int draws = 0;
  bool unstated_drawn = false;
  std::uint64_t seed = 0;
  double seconds = 0;
  std::size_t simulated = 0;  ///< distinct configurations
};

struct AccuracyOptions {
  std::vector<std::string> files;  ///< empty: expected/published of the root
  std::string source;              ///< glob or part of source, set or id; empty: all
  int draws = 32;
  bool draw_unstated = false;
  std::uint64_t seed = 1;
  bool ablate = false;
  int threads = 2;
};

/// Throws Error (config) for a file that isn't there or is no table of rows, (run) when `signal` is set while it runs.
AccuracyReport run_accuracy(const AccuracyOptions& options, const AccuracyProgress& progress,
                            const std::atomic<int>& signal);

/// What part of a row's draws its interval leaves out on either side, alike for every row.
inline constexpr double kIntervalTail = 0.05;
/// What else a set with a target should meet: at most so many targets for half an interval in the median, for the worst row
/// (where it has no bound of its own) and for the bias; and at least so many rows inside their interval.
inline constexpr double kWidthInTargets = 2, kWorstInTargets = 2, kBiasInTargets = 0.5, kLeastCoverage = 0.8;

/// The score of all rows together.
Score score_all(const std::vector<RowResult>& rows);

/// Every sub-target's figure, added to its set's score or to `all`. `results` are those of `rows`, in order.
void add_sub_scores(const std::vector<PublishedRow>& rows, const std::vector<RowResult>& results, const SourceRules& rules,
                    std::vector<Score>& sets, Score& all);

/// Scores of `rows` by source and by set, in the order of first appearance.
std::vector<Score> score_by(const std::vector<RowResult>& rows, bool by_set, const SourceRules& rules);

}  // namespace benchsuite
