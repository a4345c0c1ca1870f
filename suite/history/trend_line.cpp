#include "suite/history/trend_line.h"

#include <fmt/format.h>

#include "suite/expectations/tracked_metrics.h"

namespace benchsuite {

namespace {

TrendLine line_of(const std::vector<HistoryRow>& rows, std::size_t begin, std::size_t end) {
  TrendLine line;
  for (std::size_t i = begin; i < end; ++i) {
    if (line.empty() || line.back().rows.back().case_hash != rows[i].case_hash) line.emplace_back();
    line.back().rows.push_back(rows[i]);
  }
  const TrackedMetric* metric = find_tracked(rows[begin].metric);
  for (Segment& segment : line) {
    std::vector<double> values;
    for (const HistoryRow& row : segment.rows) values.push_back(row.value);
    segment.points = trend_of(values, metric ? metric->floor : 0);
  }
  return line;
}

}  // namespace

std::vector<TrendLine> lines_of(const std::vector<HistoryRow>& rows) {
  std::vector<TrendLine> lines;
  for (std::size_t begin = 0; begin < rows.size();) {
    std::size_t end = begin;
    const auto same = [&](const HistoryRow& row) {
      return row.variant == rows[begin].variant && row.metric == rows[begin].metric &&
             row.device == rows[begin].device && row.system == rows[begin].system;
    };
    while (end < rows.size() && same(rows[end])) ++end;
    lines.push_back(line_of(rows, begin, end));
    begin = end;
  }
  return lines;
}

std::vector<std::string> events_of(const TrendLine& line) {
  std::vector<std::string> events;
  for (std::size_t s = 0; s < line.size(); ++s) {
    const Segment& segment = line[s];
    if (s > 0) {
      events.push_back(fmt::format("│ new series at {}: the case changed, {} to {}", segment.rows.front().run_id,
                                   line[s - 1].rows.back().case_hash, segment.rows.front().case_hash));
    }
    for (std::size_t i = 0; i < segment.points.size(); ++i) {
      if (!segment.points[i].change) continue;
      events.push_back(fmt::format("▲ level changed by {:+.1f} % at {} (engine {} before, {} from there on)",
                                   segment.points[i].shift * 100, segment.rows[i].run_id, segment.rows[i - 1].commit,
                                   segment.rows[i].commit));
    }
    if (segment.rows.size() < 2 * kTrendLeast) {
      events.push_back(fmt::format("{} run{}: not enough samples for a change of level (needs {})", segment.rows.size(),
                                   segment.rows.size() == 1 ? "" : "s", 2 * kTrendLeast));
    }
  }
  return events;
}

}  // namespace benchsuite
