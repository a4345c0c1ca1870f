// Metrics by name: what expectations can speak about.
//
//   VARIANT.METRIC           full_m8.iteration_s
//   VARIANT.METRIC.DETAIL    full_m8.communication_bytes.tensor all_gather (recomputed)
//                            full_m8.saved_activation_bytes.0           (a stage)
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "suite/results/run.h"

namespace benchsuite {

/// VARIANT.METRIC[.DETAIL] taken apart. The detail may hold dots and spaces.
struct MetricPath {
  std::string variant, metric, detail;
};

/// What is wrong with `text` as a metric path (unknown metric: with a suggestion), or "".
std::string why_not_a_metric(const std::string& text);

MetricPath parse_metric(const std::string& text);

/// The value, or nothing when the variant doesn't have it (a null metric, a kind or stage that isn't there).
std::optional<double> metric_value(const VariantResult& variant, const MetricPath& path);

/// Why `path` means nothing in this layout, or "": it asks for a closed formula that the layout doesn't have (ZeRO slices, for
/// one), or for a pipeline stage beyond its last. A check of it says nothing, which is not a metric that is missing.
std::string why_not_in_layout(const VariantResult& variant, const MetricPath& path);

/// Every metric name, with its unit: for messages and documentation.
struct MetricName {
  const char* name;
  const char* unit;
  const char*
      detail;  ///< "": none, "kind": of communication, "stage": optional stage index (sum of all stages without), "step": optional, counted from 1 (last without)
};
const std::vector<MetricName>& metric_names();

}  // namespace benchsuite
