// The trace of a replayed step: every op of every recorded rank, with flows between the members of collectives.
#pragma once

#include <string>
#include <vector>

#include "engine/program/program.h"
#include "engine/program/timeline.h"

namespace benchsuite {

/// Writes report/trace.h's format to `path`; programs and timelines have the same order. Where one Program stands for
/// several ranks, only flows between recorded ranks are drawn. Throws Error (io).
void write_step_trace(const std::vector<const Program*>& programs, const std::vector<Timeline>& timelines,
                      const std::string& path);

}  // namespace benchsuite
