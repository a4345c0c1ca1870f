// Real training steps on device cpu, or on another that computes: every rank of the layout a thread, in fp32 or bf16 (with fp32
// masters).
//
// Initial values, tokens and dropout masks are functions of (seed, global index), so every layout trains the same model on
// the same samples; in bf16 the masters start at the values that fp32 starts at, the parameters at those values rounded.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/device/step_rank.h"
#include "engine/train/cpu_host.h"
#include "engine/train/step.h"

namespace benchsuite {

struct CpuTrainingOptions {
  int steps = 1;
  std::uint64_t seed = 1234;
  float learning_rate = 1e-3f, beta1 = 0.9f, beta2 = 0.95f, epsilon = 1e-8f;
  OptimizerConfig optimizer;
  Faults faults;
  Nudge nudge;
  bool poison = false;             ///< fill memory with NaN outside lifetimes; device cpu only
  bool collect_gradients = false;  ///< of the last step, before they are cleared
};

struct CpuTrainingResult {
  std::vector<double> loss;           ///< by step: mean over all tokens of the global batch
  std::vector<double> gradient_norm;  ///< by step, before clipping
  /// Global gradients of the last step by parameter name, assembled from the shards (if collected).
  std::map<std::string, std::vector<float>> gradients;
  std::map<std::string, std::vector<float>> parameters;  ///< after the last step, likewise
};

/// Runs `steps` steps of a world of ranks on some device: device/cpu/run_ranks.h, device/cuda/cuda_device.h.
using RunWorld =
    std::function<void(const std::vector<const Program*>& programs, const HostWorkOn<RankMemory>& host, int steps)>;

/// A device beside cpu that a program was linked with.
struct TrainingDevice {
  std::function<std::string(int ranks)> why_unavailable;  ///< one line that names what is missing; "" when nothing is
  RunWorld run;
  std::function<std::unique_ptr<StepDevice>(int ranks)> open;  ///< for a training run
};

/// Throws Error: config when the configuration does not validate, run when a rank fails, and what `run` throws.
CpuTrainingResult train_on(const TrainConfig& config, const CpuTrainingOptions& options, const RunWorld& run);
CpuTrainingResult train_on_cpu(const TrainConfig& config, const CpuTrainingOptions& options);

/// Token at a position of a sample of the synthetic data: uniform over the vocabulary.
std::int32_t synthetic_token(std::uint64_t seed, std::int64_t sample, std::int64_t position, std::int64_t vocab);

}  // namespace benchsuite
