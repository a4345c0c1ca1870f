// One metric of one variant over time: rows of the history with what the trend says of each.
#pragma once

#include <vector>

#include "suite/history/history.h"
#include "suite/history/trend.h"

namespace benchsuite {

/// One case hash of a line: what may be compared. `points` go with `rows`.
struct Segment {
  std::vector<HistoryRow> rows;
  std::vector<TrendPoint> points;
};

/// Of one variant, metric, device and system, oldest first; a different case hash starts a new segment. Never empty.
using TrendLine = std::vector<Segment>;

/// Rows as History::rows gives them, cut into lines.
std::vector<TrendLine> lines_of(const std::vector<HistoryRow>& rows);

/// What happened along a line, a sentence each: changes of level, new series, too few runs.
std::vector<std::string> events_of(const TrendLine& line);

}  // namespace benchsuite
