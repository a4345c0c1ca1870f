// The pipeline picture: how many rectangles a person can see.
#pragma once

#include <vector>

#include "suite/results/run.h"

namespace benchsuite {

/// A step of up to this many rectangles is drawn as it is.
inline constexpr std::size_t kGanttDetail = 2500;

/// Adds a span behind the others; a neighbour of the same category, micro-batch and chunk grows instead. Spans must
/// follow one another without a gap; empty ones are dropped.
void append_span(std::vector<GanttSpan>& spans, const GanttSpan& span);

/// Fewer rectangles that cover what `spans` cover, without gaps, when there are more than kGanttDetail: one per category and
/// pass, as long as the category's time in the pass. A pass is the forward or the backward of one micro-batch on one chunk; waiting
/// longer than a thousandth of the step stands alone. No category gains or loses time.
std::vector<GanttSpan> simplify(const std::vector<GanttSpan>& spans, Picoseconds step);

}  // namespace benchsuite
