// Real training steps on device cpu: every rank of the layout a thread, fp32.
//
// Initial values, tokens and dropout masks are functions of (seed, global index), so every layout trains the same model on
// the same samples.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/train/step.h"

namespace benchsuite {

/// Adds `by` to one element of a global parameter at the start: for difference quotients.
struct Nudge {
  std::string parameter;
  std::int64_t index = 0;
  float by = 0;
};

struct CpuTrainingOptions {
  int steps = 1;
  std::uint64_t seed = 1234;
  float learning_rate = 1e-3f, beta1 = 0.9f, beta2 = 0.95f, epsilon = 1e-8f;
  OptimizerConfig optimizer;
  Faults faults;
  Nudge nudge;
  bool poison = false;             ///< fill memory with NaN outside lifetimes
  bool collect_gradients = false;  ///< of the last step, before they are cleared
};

struct CpuTrainingResult {
  std::vector<double> loss;           ///< by step: mean over all tokens of the global batch
  std::vector<double> gradient_norm;  ///< by step, before clipping
  /// Global gradients of the last step by parameter name, assembled from the shards (if collected).
  std::map<std::string, std::vector<float>> gradients;
  std::map<std::string, std::vector<float>> parameters;  ///< after the last step, likewise
};

/// Throws Error: config when the configuration does not validate or is not fp32, run when a rank fails.
CpuTrainingResult train_on_cpu(const TrainConfig& config, const CpuTrainingOptions& options);

/// Token at a position of a sample of the synthetic data: uniform over the vocabulary.
std::int32_t synthetic_token(std::uint64_t seed, std::int64_t sample, std::int64_t position, std::int64_t vocab);

/// Initial value of element `index` of the global tensor `name`.
float initial_value(std::uint64_t seed, const Parameter& parameter, std::int64_t index, std::int64_t layers);

}  // namespace benchsuite
