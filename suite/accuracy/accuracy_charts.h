// SVG pictures of an accuracy page.
#pragma once

#include <string>
#include <vector>

#include "suite/report/html_parts.h"

namespace benchsuite {

struct ChartPoint {
  double x = 0, y = 0;
  std::string title;  ///< shown on hover
};

/// Predicted (y) against published (x) seconds on logarithmic axes, with the diagonal and the 10 % band.
void identity_chart(html::Page& page, const std::vector<ChartPoint>& points);

/// Errors in percent (y, cut at +-60) over a quantity (x). Logarithmic in powers of two.
void residual_chart(html::Page& page, const std::string& label, const std::vector<ChartPoint>& points);

}  // namespace benchsuite
