// Small statistics over samples, deterministic: nothing is drawn at random.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace benchsuite {

/// A spread in units of a standard deviation: 1.4826 x the median absolute deviation (Hampel 1974), for normal noise.
inline constexpr double kScaledMad = 1.4826;

/// Fewer samples than this on a side decide nothing.
inline constexpr std::size_t kEnoughSamples = 5;

/// Mean of the middle two for an even count. Needs at least one value.
double median(std::vector<double> values);

/// 1.4826 x the median distance from the median. Needs at least one value; 0 for one.
double scaled_mad(const std::vector<double>& values);

/// Two-sided p-value of Mann and Whitney's U (1947), normal approximation with tie and continuity correction. nullopt
/// with fewer than kEnoughSamples on a side. 1 when all values are equal.
std::optional<double> mann_whitney_p(const std::vector<double>& a, const std::vector<double>& b);

/// Ratios b[i] / a[i] of pairs that were measured side by side, so that what drifts hits both.
struct PairedRatio {
  std::size_t pairs = 0;
  double median = 0;
  double low = 0, high = 0;  ///< order statistics that enclose the median with at least `confidence`
  double confidence = 0;     ///< binomial, no assumption about the distribution; 93.75 % with five pairs
};
/// nullopt when the counts differ, a pair has no positive first value, or there are fewer than kEnoughSamples pairs.
std::optional<PairedRatio> paired_ratio(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace benchsuite
