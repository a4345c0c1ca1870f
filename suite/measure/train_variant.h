// The seam between the suite and real training on device `cpu`: a few steps of a case's variant, for its loss curve.
#pragma once

#include <atomic>
#include <string>

#include "engine/parallel/context.h"
#include "engine/train/config.h"
#include "suite/results/run.h"

namespace benchsuite {

/// Why device cpu doesn't train this variant in a test's time, or "".
std::string why_not_trainable(const TrainConfig& config);

/// Steps in which memory is touched for the first time and threads come up.
inline constexpr std::int64_t kWarmUpSteps = 2;

struct TrainVariantOptions {
  std::string text;  ///< file to train on; empty: cases/corpus/drill.txt of the root
  std::int64_t steps = 10;  ///< the first kWarmUpSteps of them are trained but not timed
  std::uint64_t seed = 1234;
  Faults faults;     ///< as TrainingOptions has them
  const std::atomic<bool>* cancelled = nullptr;  ///< looked at after every step; then throws Error (run)
};

/// Trains `steps` steps from the seed (AdamW, peak rate 3e-3 after 2 steps of warm-up, cosine to a tenth, clip 1) and fills
/// loss_curve, loss (of the last step), step_samples_s, iteration_s (their median), tokens_per_s_per_gpu (per rank),
/// flops_model and flops_hardware of VariantResult. MFU and everything that needs a timeline stay empty. Throws Error as TrainingRun does.
VariantResult train_variant(const TrainConfig& config, const TrainVariantOptions& options);

}  // namespace benchsuite
