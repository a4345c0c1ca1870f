// What each modelled effect is worth: the predictions with one effect switched off, by set.
#pragma once

#include "suite/accuracy/row_job.h"

namespace benchsuite {

/// At most this many rows of a set, evenly spread, are simulated again for each effect.
inline constexpr std::size_t kAblationRows = 12;

std::vector<AblationRow> ablate(const std::vector<PublishedRow>& rows, const std::vector<RowResult>& base, RowJobs& jobs,
                                const SourceRules& rules, const std::atomic<int>& signal);

}  // namespace benchsuite
