// Reading a series of results: rolling median, MAD band, change points.
#pragma once

#include <cstddef>
#include <vector>

namespace benchsuite {

/// Points on each side of a place that are held against each other.
inline constexpr std::size_t kTrendWindow = 5;
/// A change needs this many points on each side to be told.
inline constexpr std::size_t kTrendLeast = 3;

struct TrendPoint {
  double value = 0;
  double median = 0;      ///< of this point and the kTrendWindow - 1 before it, not across a change
  double low = 0, high = 0;  ///< median +- max(3 scaled MAD, floor): a value outside asks for a look
  bool outside = false;   ///< of the band of the points before it
  bool change = false;    ///< the level moved here
  double shift = 0;       ///< of a change: new median over old median, minus 1
};

/// A change stands where the medians of the windows before and after differ by more than max(floor x |median|, 3 scaled
/// MAD about them); of neighbouring places the one whose windows fit best. `floor` is relative.
std::vector<TrendPoint> trend_of(const std::vector<double>& values, double floor);

}  // namespace benchsuite
