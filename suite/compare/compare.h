// Comparing results: which metrics moved, by how much beyond noise and effect floor, and why.
//
// A change is told when it is larger than the metric's effect floor (suite/expectations/tracked_metrics.h) and is not noise: values of
// device sim are exact; where both sides are measured, Mann and Whitney's test decides at 5 %; against an exact value a
// measured one has to differ by more than 3 scaled MAD. Under five samples a measured side decides nothing.
#pragma once

#include <string>
#include <vector>

#include "suite/results/comparison.h"

namespace benchsuite {

struct CompareOptions {
  std::string only_case;              ///< empty: all cases both have
  std::vector<std::string> variants;  ///< globs; empty: all
  std::string from, to;               ///< two variants, in place of those of equal name
  bool force = false;                 ///< allow different case hashes
  bool other_hardware = false;        ///< the hashes differ on purpose
};

/// One metric. `exact` says that a side is simulated or counted; otherwise its samples are used.
MetricChange compare_metric(const std::string& metric, const VariantResult& from, bool from_exact,
                            const VariantResult& to, bool to_exact);

/// Throws Error (config) when the two can't be compared: different case hashes without `force`, unknown case or variant.
Comparison compare_runs(const Run& from, const Run& to, const CompareOptions& options);

/// Variants `options.from` and `options.to` of one run. The ratio of their steps is paired.
Comparison compare_variants(const Run& run, const CompareOptions& options);

}  // namespace benchsuite
