// What each modelled effect is worth: the predictions with one effect switched off, by set.
#pragma once

#include "suite/accuracy/row_job.h"

namespace benchsuite {

/// Every row of a set with a target whose time was compared is simulated again for each effect. Throws Error (run) when
/// `signal` is set meanwhile.
std::vector<AblationRow> ablate(const std::vector<PublishedRow>& rows, const std::vector<RowResult>& base, RowJobs& jobs,
                                const SourceRules& rules, int threads, const AccuracyProgress& progress,
                                const std::atomic<int>& signal);

}  // namespace benchsuite
