// The metrics that are compared between results and kept in the history, with what counts as a change.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "suite/expectations/expected.h"
#include "suite/results/run.h"

namespace benchsuite {

struct TrackedMetric {
  const char* name;    ///< as in suite/expectations/metric_value.h
  const char* unit;
  Better better;       ///< neither: a change is told, but is neither good nor bad
  bool gates;          ///< the others follow from these, or say how rather than how well
  double floor;        ///< relative change below which nobody would act; 0: any change counts
  bool follows_step;   ///< moves with the step time, so it has the step's noise
};

/// step time, rates and shares that follow from it, waiting, recompute, memory, loss: in the order they are shown.
const std::vector<TrackedMetric>& tracked_metrics();

/// nullptr for a name that is not tracked.
const TrackedMetric* find_tracked(const std::string& name);

/// The value of a variant, nullopt where it has none (null, not finite, or the variant was not measured).
std::optional<double> tracked_value(const VariantResult& variant, const TrackedMetric& metric);

/// Whether the numbers of a variant are results: it ran to its end.
bool is_measured(const VariantResult& variant);

/// Whether it says where every instant of its step went: only then can a waterfall explain it.
bool has_breakdown(const VariantResult& variant);

}  // namespace benchsuite
