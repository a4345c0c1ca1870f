// Why one variant is slower than another, in parts that add up.
#pragma once

#include <string>

#include "suite/results/run.h"

namespace benchsuite {

/// Parts of the difference `to` minus `from`, from the mean breakdowns: recompute, recomputed collectives, other
/// exposed tensor communication, waiting, other communication, rest. They are whole picoseconds and add up to the
/// difference of the steps exactly; `rest` (forward, backward, optimizer) takes what rounding the means leaves. Both
/// variants must be measured (apply_metrics).
Waterfall waterfall_between(const std::string& id, const VariantResult& from, const VariantResult& to);

/// gpu_busy beside MFU: how a GPU that looks busy does little useful work.
std::string busy_beside_mfu(const VariantResult& variant);

}  // namespace benchsuite
