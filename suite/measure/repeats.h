// A variant measured more than once (run --repeat): rounds over all variants, so that what drifts hits each alike and step
// k of one variant pairs with step k of another.
#pragma once

#include "suite/measure/runner.h"

namespace benchsuite {

/// Begins the samples of a variant. Device sim gives one a round; measured steps bring their own.
void begin_samples(VariantResult& result, Device device);

/// Adds a further round of the same variant. The step becomes the median of all samples, and what follows from it moves
/// along. A round that ended badly is the result. Two rounds of device sim, or two trainings from one seed, that differ
/// are an error: NOT_REPRODUCIBLE.
void add_round(VariantResult& all, VariantResult&& again, Device device);

}  // namespace benchsuite
