// Trends as one HTML page in the report's style: no script, no request.
#pragma once

#include <string>

#include "suite/history/trend_line.h"

namespace benchsuite {

/// A picture for each line: every run as a dot (on hover: run, value, commit), the rolling median, the band of median and
/// MAD, a mark where the level changed, a gap where the case changed; below it the same in words.
std::string trend_page(const std::vector<TrendLine>& lines);

}  // namespace benchsuite
