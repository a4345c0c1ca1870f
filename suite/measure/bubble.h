// Why ranks wait: the bubble of the timeline as the formula's bubble and what comes on top.
//
// The formula (p - 1) / (v m) speaks of equal stages, passes that all take the same time and transfers that take none
// (Narayanan et al. 2021, section 2.2). Each part below is what one of these assumptions was worth, found by running the
// schedule with the measured lengths of the passes:
//
//   formula             (p - 1) / (v m) of the mean time of a rank's passes
//   unequal stages      the schedule with each stage's and chunk's own mean pass, above the formula
//   transfers           the same with each result travelling as long as the sends took on average
//   exposed transfers   less the transfers that compute waited for: they are a category of their own, not bubble
//   launches            all that was missing was the host's launch of the next op, or of the transfer it waits for
//   end of the step     waiting after the last pass of all ranks: for gradient reductions and the optimizer of others
//   rest                what is left: passes that vary between micro-batches, blocking transfers, ZeRO gathers
#pragma once

#include <vector>

#include "engine/parallel/schedule.h"
#include "suite/measure/metrics.h"
#include "suite/results/run.h"

namespace benchsuite {

/// `stages` gives the pipeline stage of each role. The parts add up to `idle_s`, the mean waiting time of a rank. Empty for
/// one stage without waiting.
std::vector<BubblePart> bubble_parts(const ScheduleShape& shape, const std::vector<RoleMetrics>& roles,
                                     const std::vector<std::int64_t>& stages, double idle_s);

}  // namespace benchsuite
