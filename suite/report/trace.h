// Chrome/Perfetto trace of a step: one process per rank, one thread per stream, one complete ("X") event per span, flow
// events ("s", "t", "f") from member to member of a collective and from sender to receiver.
// Format: the Trace Event Format document of the Chromium project; ui.perfetto.dev and chrome://tracing open it.
#pragma once

#include <cstdint>
#include <ostream>
#include <span>
#include <string_view>

#include "engine/core/letters.h"

namespace benchsuite {

/// What one op did on one stream of one rank. The views have to outlive the call only.
struct TraceSpan {
  int rank = 0;
  std::string_view stream;    ///< "compute", "tensor", ...
  std::string_view name;      ///< of the op
  std::string_view category;  ///< phase or category; the viewers filter by it
  Picoseconds start = 0, end = 0;
  std::int32_t micro_batch = -1, layer = -1, chunk = -1;  ///< -1: not shown
  std::int64_t bytes = -1;                                ///< moved by a collective; -1: not shown
  std::int64_t flow = -1;      ///< equal on the spans of one collective or transfer; -1: none
  bool flow_source = false;    ///< of a transfer, the sender
};

/// Writes one JSON object. Events are sorted by start, then rank, then stream; times are microseconds with picosecond
/// decimals. A stream's thread id is its place among all streams in order of first appearance, so ranks list theirs
/// alike. Spans with the same flow are joined by arrows: from the source, or else the first by that order, to each next.
/// Throws CHECK when a span ends before it starts.
void write_trace(std::ostream& out, std::span<const TraceSpan> spans);

}  // namespace benchsuite
