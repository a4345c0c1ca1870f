// A synthetic Run for the tests of the renderings. SYNTHETIC: the durations are round numbers chosen to look like the
// case sp_recompute_13b, scheduled by a small 1F1B list scheduler of this fixture; nothing here was measured or
// simulated by the engine.
#pragma once

#include "suite/results/run.h"

namespace benchsuite {

/// One case with 12 variants of GPT-13B, TP4 PP4: full, selective and no recompute at m = 8 and m = 128; full and
/// selective with tensor groups across nodes on two networks; flash attention with and without recompute. `per_layer`:
/// spans of single layers (thousands a stage) instead of passes.
Run synthetic_run(bool per_layer = false);

/// A 1F1B step of `stages` stages and `micro_batches` micro-batches, five spans a pass: forward and its collective;
/// recompute, backward and its collective.
VariantResult wide_variant(int stages, int micro_batches);

/// Markup that would act, were it not escaped.
inline constexpr const char* kEvil = "<script>alert('x')</script> & \"q\" <img src=x onerror=y>";

/// A run with kEvil in every string.
Run hostile();

}  // namespace benchsuite
