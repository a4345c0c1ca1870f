// What tests of the emulated device share: training a tiny model on it.
#pragma once

#include <gtest/gtest.h>

#include "engine/device/cuda/cuda_device.h"
#include "engine/train/cpu_training.h"
#include "tests/cuda_emulator/emulator.h"
#include "tests/engine/train/parity.h"

namespace benchsuite::testing_cuda {

/// As little as every op of the vocabulary needs.
inline TrainConfig small_gpt(DType precision) {
  TrainConfig config = testing_train::tiny_gpt();
  config.model.layers = 2, config.model.hidden = 16, config.model.ffn_hidden = 64, config.model.seq = 8, config.model.vocab = 64;
  config.layout.precision = precision;
  config.layout.global_batch = 4;
  return config;
}

inline TrainConfig small_llama(DType precision) {
  TrainConfig config = testing_train::tiny_llama();
  config.model.layers = 2, config.model.hidden = 32, config.model.ffn_hidden = 48, config.model.seq = 8, config.model.vocab = 64;
  config.layout.precision = precision;
  config.layout.global_batch = 4;
  return config;
}

/// Heads that fused attention kernels take, two on each key-value head.
inline TrainConfig small_llama_fused(DType precision) {
  TrainConfig config = small_llama(precision);
  config.model.heads = 4, config.model.kv_heads = 2;
  config.layout.attention = AttentionKernel::flash;
  return config;
}

inline constexpr std::size_t kGemmWorkspace = 2048;  // two of the emulator's three algorithms fit

/// `steps` steps on emulated GPUs, one a rank.
inline CpuTrainingResult train_emulated(const TrainConfig& config, cuda_emulator::Settings settings = {}, int steps = 3,
                                        cuda::Options options = {}) {
  const RankGrid grid(config.layout);
  settings.devices = grid.world();
  cuda_emulator::reset(settings);
  options.gemm_workspace = kGemmWorkspace;
  return train_on(config, {.steps = steps, .collect_gradients = true},
                  [&](const std::vector<const Program*>& programs, const HostWorkOn<RankMemory>& host, int count) {
                    cuda::run_ranks(programs, host, count, options);
                  });
}

inline CpuTrainingResult train_on_host(const TrainConfig& config, int steps = 3) {
  return train_on_cpu(config, {.steps = steps, .collect_gradients = true});
}

/// Bit for bit.
inline void expect_same_bits(const CpuTrainingResult& a, const CpuTrainingResult& b) {
  EXPECT_EQ(a.loss, b.loss);
  EXPECT_EQ(a.gradient_norm, b.gradient_norm);
  for (const auto& [name, values] : b.parameters) EXPECT_EQ(a.parameters.at(name), values) << name;
}

}  // namespace benchsuite::testing_cuda
