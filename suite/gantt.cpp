#include "suite/gantt.h"

#include <algorithm>
#include <cstddef>

#include "engine/core/error.h"

namespace benchsuite {
namespace {

bool same_kind(const GanttSpan& a, const GanttSpan& b) {
  return a.category == b.category && a.micro_batch == b.micro_batch && a.chunk == b.chunk;
}

/// Short spans in a row, with the time of each kind.
class ShortRun {
 public:
  bool empty() const { return kinds_.empty(); }
  Picoseconds start() const { return start_; }
  Picoseconds end() const { return end_; }
  Picoseconds length() const { return end_ - start_; }

  void add(const GanttSpan& span) {
    if (empty()) start_ = span.start;
    end_ = span.end;
    auto found =
        std::find_if(kinds_.begin(), kinds_.end(), [&](const GanttSpan& kind) { return same_kind(kind, span); });
    if (found == kinds_.end()) {
      kinds_.push_back(span);
    } else {
      found->end += span.end - span.start;  // a kind's length is its total time; its position doesn't matter
    }
  }

  /// One span over the run, of the kind with the most time (the first of equals); empties the run.
  GanttSpan take() {
    GanttSpan most = *std::max_element(kinds_.begin(), kinds_.end(), [](const GanttSpan& a, const GanttSpan& b) {
      return a.end - a.start < b.end - b.start;
    });
    most.start = start_;
    most.end = end_;
    kinds_.clear();
    return most;
  }

  void clear() { kinds_.clear(); }

 private:
  std::vector<GanttSpan> kinds_;
  Picoseconds start_ = 0, end_ = 0;
};

}  // namespace

void append_span(std::vector<GanttSpan>& spans, const GanttSpan& span) {
  if (span.start == span.end) return;
  if (!spans.empty()) {
    CHECK(spans.back().end == span.start) << "a gap from " << spans.back().end << " to " << span.start << " ps";
    if (same_kind(spans.back(), span)) {
      spans.back().end = span.end;
      return;
    }
  }
  spans.push_back(span);
}

std::vector<GanttSpan> simplify(const std::vector<GanttSpan>& spans, Picoseconds step) {
  const Picoseconds shortest = std::max<Picoseconds>(1, div_ceil(step, kGanttResolution));
  std::vector<GanttSpan> result;
  ShortRun run;
  for (const GanttSpan& span : spans) {
    if (span.end - span.start < shortest) {
      run.add(span);
      if (run.length() >= shortest) append_span(result, run.take());
      continue;
    }
    GanttSpan whole = span;
    if (!run.empty()) {  // what is left between two rectangles goes to the first; at the very start to the second
      (result.empty() ? whole.start : result.back().end) = result.empty() ? run.start() : run.end();
      run.clear();
    }
    append_span(result, whole);
  }
  if (!run.empty()) {
    if (result.empty()) {
      result.push_back(run.take());
    } else {
      result.back().end = run.end();
    }
  }
  return result;
}

}  // namespace benchsuite
