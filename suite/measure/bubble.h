// Why ranks wait: the bubble of the timeline as the formula's bubble and what comes on top.
//
// The formula (p - 1) / (v m) speaks of equal stages, passes that all take the same time and transfers that take none
// (Narayanan et al. 2021, section 2.2). The first parts run the schedule with measured lengths of passes, one assumption less
// each time; the others are measured on the timeline. P is the end of the last pass of all ranks.
//
//   formula          (p - 1) / (v m) of the mean time of a rank's passes
//   unequal stages   the schedule with each stage's and chunk's own mean pass
//   varying passes   the schedule with every pass as long as it was (links are shared by fewer while the pipeline fills)
//   transfers        the same with each result travelling as long as the sends took on average
//   launches         all that was missing was the host's launch of the next op, or of the transfer it waits for
//   other work       less what ranks did before P that is no pass and no waiting: transfers that compute waited for,
//                    reductions, gathers
//   end of the step  waiting after P: for gradient reductions and the optimizer of others
//   rest             how much later than that schedule P was, launches apart: blocking transfers, waits for gathers
#pragma once

#include <vector>

#include "engine/parallel/schedule.h"
#include "suite/measure/metrics.h"
#include "suite/results/run.h"

namespace benchsuite {

/// `stages` gives the pipeline stage of each role. The parts add up to `idle_s`, the mean waiting time of a rank, to a
/// picosecond. Empty for one stage: nothing in it waits for a pipeline.
std::vector<BubblePart> bubble_parts(const ScheduleShape& shape, const std::vector<RoleMetrics>& roles,
                                     const std::vector<std::int64_t>& stages, double idle_s);

}  // namespace benchsuite
