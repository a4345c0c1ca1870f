#include "suite/history/trend.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "suite/results/statistics.h"

namespace benchsuite {

namespace {

std::vector<double> copy_of(std::span<const double> values) { return {values.begin(), values.end()}; }

/// How the level moves at one place.
struct Step {
  bool significant = false;
  double before = 0, after = 0;
  double misfit = 0;  ///< sum of distances from the two medians
};

Step step_at(std::span<const double> values, std::size_t at, double floor) {
  Step step;
  const std::size_t begin = at > kTrendWindow ? at - kTrendWindow : 0;
  const std::size_t end = std::min(values.size(), at + kTrendWindow);
  if (at - begin < kTrendLeast || end - at < kTrendLeast) return step;
  const auto left = values.subspan(begin, at - begin), right = values.subspan(at, end - at);
  step.before = median(copy_of(left));
  step.after = median(copy_of(right));
  std::vector<double> distances;
  for (const double value : left) distances.push_back(std::abs(value - step.before));
  for (const double value : right) distances.push_back(std::abs(value - step.after));
  for (const double distance : distances) step.misfit += distance;
  const double noise = 3 * kScaledMad * median(std::move(distances));
  // Each level has to have been there for a while: two points after a stable past are no level yet.
  const auto nearer = [](std::span<const double> window, double level, double other) {
    return static_cast<std::size_t>(std::count_if(window.begin(), window.end(), [&](double value) {
      return std::abs(value - level) < std::abs(value - other);
    }));
  };
  const bool lasting =
      nearer(left, step.before, step.after) >= kTrendLeast && nearer(right, step.after, step.before) >= kTrendLeast;
  step.significant = lasting && std::abs(step.after - step.before) > std::max(floor * std::abs(step.before), noise);
  return step;
}

}  // namespace

std::vector<TrendPoint> trend_of(const std::vector<double>& values, double floor) {
  std::vector<TrendPoint> points(values.size());
  for (std::size_t at = 1; at < values.size();) {
    Step step = step_at(values, at, floor);
    if (!step.significant) {
      ++at;
      continue;
    }
    // The windows see one change from several places: it stands where they fit best.
    std::size_t best = at, next = at + 1;
    for (; next < values.size() && next < at + kTrendWindow; ++next) {
      const Step other = step_at(values, next, floor);
      if (!other.significant) break;
      if (other.misfit < step.misfit) {
        step = other;
        best = next;
      }
    }
    points[best].change = true;
    points[best].shift = step.before != 0 ? step.after / step.before - 1 : 0;
    at = std::max(next, best + kTrendLeast);
  }

  std::size_t level = 0;  // first point since the last change
  for (std::size_t i = 0; i < values.size(); ++i) {
    TrendPoint& point = points[i];
    point.value = values[i];
    if (point.change) level = i;
    if (i > level) {
      const TrendPoint& before = points[i - 1];
      point.outside = values[i] < before.low || values[i] > before.high;
    }
    const std::size_t begin = std::max(level, i + 1 > kTrendWindow ? i + 1 - kTrendWindow : 0);
    const std::vector<double> window(values.begin() + static_cast<std::ptrdiff_t>(begin),
                                     values.begin() + static_cast<std::ptrdiff_t>(i + 1));
    point.median = median(window);
    const double half = std::max(3 * scaled_mad(window), floor * std::abs(point.median));
    point.low = point.median - half;
    point.high = point.median + half;
  }
  return points;
}

}  // namespace benchsuite
