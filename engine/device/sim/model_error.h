// How far an operator model is from measurements, and drawing from that.
//
// A profile states for each model how far single shapes lie on machines that were not fitted, or where there is no table of such,
// on rows held back from its fit: median and 90th percentile of |predicted / measured - 1|, a factor that all shapes of a
// table share taken out (that is a constant with a range). A machine drawn for an ensemble takes for every operator and shape a
// factor of its own on the time, (1 + e) or 1 / (1 + e) alike often, with e from the distribution that these two quantiles
// give: a broken line through (0, 0), (0.5, median), (0.9, p90), continued to 1. Factors are a pure function of (seed,
// draw, operator and shape): ops of one shape err alike wherever they stand, others independently. Where a profile tells
// apart what shapes of one size share ("of_size"), that is a second factor, by the size class alone.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace benchsuite {

struct ModelError {
  double median = 0, p90 = 0;
  double size_median = 0, size_p90 = 0;  ///< what shapes of one size class share besides
  /// The error that a share `u` in [0, 1] of the rows stays below.
  double at(double u) const;
};

/// Which machine of an ensemble.
struct ErrorDraw {
  std::uint64_t seed = 0;
  int draw = 0;
};

/// What shapes of one size share, as an error of its own.
ModelError of_size(const ModelError& error);

/// Factor on the time of what `key` names (the model and the shape). 1 for a model without error.
double drawn_factor(const ModelError& error, const ErrorDraw& draw, std::initializer_list<std::int64_t> key);

}  // namespace benchsuite
