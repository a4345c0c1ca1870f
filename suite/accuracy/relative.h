// Scores in which a common factor of a source cancels: rows are compared by their ratio to a reference row of the same model
// and micro-batch, of the simulated step or of the pipeline schedule alone.
//
// expected/published/sources.json, "relative": [{"set": "...", "of": ["set", ...], "id": ["prefix", ...], "compares": "step",
// "reference": {"cluster.gpus": 96}, "mean_abs_pct": 4, "why": "..."}]
//
// `compares` "schedule": the engine's schedule with the stage times that the source prints (measured.stage_forward_ms,
// stage_backward_input_ms, stage_backward_weight_ms, stage_p2p_ms of a row of the same model and micro-batch), nothing of
// our own. 1F1B and interleaved are parallel/schedule_times.h, zero-bubble ones parallel/zero_bubble.h.
// Of several reference rows the one nearest in micro-batches counts (as a ratio; the first of equally near ones). A reference is 0 % by definition and isn't compared.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "suite/accuracy/accuracy.h"

namespace benchsuite {

/// Seconds of a step of the row's schedule from stage times that rows of `all` print for its model and micro-batch, those of
/// the nearest number of micro-batches; nullopt where none does or the schedule has no name here.
std::optional<double> schedule_seconds(const PublishedRow& row, const std::vector<PublishedRow>& all);

/// One score for each relative set that has a compared row. `results` and `draws` are those of `rows`, in order.
std::vector<Score> relative_scores(const std::vector<PublishedRow>& rows, const std::vector<RowResult>& results,
                                   const std::vector<std::vector<double>>& draws, const SourceRules& rules);

}  // namespace benchsuite
