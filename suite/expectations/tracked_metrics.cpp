#include "suite/expectations/tracked_metrics.h"

#include <cmath>

#include "suite/expectations/metric_value.h"

namespace benchsuite {

const std::vector<TrackedMetric>& tracked_metrics() {
  // Floors: 1 % of a step is what acceptance guides call noise of a healthy node's best case, and no one changes a flag
  // for less; a deterministic allocator moves in 2 MiB blocks, so memory is told from 0.1 % on; losses of one seed
  // agree to 1e-3 between layouts that add in another order.
  static const std::vector<TrackedMetric> metrics = {
      {"iteration_s", "s", Better::lower, true, 0.01, true},
      {"tokens_per_s_per_gpu", "tokens/s", Better::higher, false, 0.01, true},
      {"model_tflops_per_gpu", "TFLOP/s", Better::higher, false, 0.01, true},
      {"mfu", "1", Better::higher, false, 0.01, true},
      {"hfu", "1", Better::neither, false, 0.01, true},
      {"gpu_busy", "1", Better::neither, false, 0.01, true},
      {"bubble_share", "1", Better::lower, false, 0.01, true},
      {"recompute_s", "s", Better::lower, false, 0.01, true},
      {"peak_memory_gib", "GiB", Better::lower, true, 0.001, false},
      {"fits", "1", Better::higher, true, 0, false},
      {"loss", "1", Better::lower, true, 0.001, false},
  };
  return metrics;
}

const TrackedMetric* find_tracked(const std::string& name) {
  for (const TrackedMetric& metric : tracked_metrics()) {
    if (name == metric.name) return &metric;
  }
  return nullptr;
}

bool is_measured(const VariantResult& variant) {
  switch (variant.status) {
    case Status::error:
    case Status::timeout:
    case Status::aborted:
    case Status::skip: return false;
    default: return true;
  }
}

std::optional<double> tracked_value(const VariantResult& variant, const TrackedMetric& metric) {
  if (!is_measured(variant)) return std::nullopt;
  const std::optional<double> value = metric_value(variant, MetricPath{variant.id, metric.name, ""});
  return value && std::isfinite(*value) ? value : std::nullopt;
}

bool has_breakdown(const VariantResult& variant) {
  if (!is_measured(variant) || variant.ranks_in_breakdown <= 0 || variant.step <= 0) return false;
  Picoseconds sum = 0;
  for (const Picoseconds part : variant.mean_breakdown.time) sum += part;
  return sum == variant.step * variant.ranks_in_breakdown;
}

}  // namespace benchsuite
