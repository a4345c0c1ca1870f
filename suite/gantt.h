// The pipeline picture: how many rectangles a person can see.
#pragma once

#include <vector>

#include "suite/run.h"

namespace benchsuite {

/// Rectangles shorter than this part of the step are merged with their neighbours.
inline constexpr Picoseconds kGanttResolution = 1500;

/// Adds a span behind the others; a neighbour of the same category, micro-batch and chunk grows instead. Spans must
/// follow one another without a gap; empty ones are dropped.
void append_span(std::vector<GanttSpan>& spans, const GanttSpan& span);

/// At most kGanttResolution + 1 rectangles that cover what `spans` cover, without gaps: runs of short spans become one
/// of the kind that fills most of it.
std::vector<GanttSpan> simplify(const std::vector<GanttSpan>& spans, Picoseconds step);

}  // namespace benchsuite
