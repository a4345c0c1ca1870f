// What parity tests share: a tiny model on one rank as the baseline, and how far two trainings are apart.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "engine/train/cpu_training.h"

namespace benchsuite::testing_train {

inline TrainConfig tiny_gpt() {
  TrainConfig config;
  config.model = {.name = "tiny", .layers = 4, .hidden = 32, .ffn_hidden = 128, .heads = 4, .kv_heads = 4, .seq = 16,
                  .vocab = 512, .dropout = 0.1};
  config.layout.precision = DType::fp32;
  config.layout.attention = AttentionKernel::unfused;
  config.layout.global_batch = 8;
  return config;
}

/// Two query heads share a key-value head; no dropout.
inline TrainConfig tiny_llama() {
  TrainConfig config = tiny_gpt();
  config.model = {.name = "tiny", .family = ModelFamily::llama, .layers = 4, .hidden = 32, .ffn_hidden = 88, .heads = 8,
                  .kv_heads = 4, .seq = 16, .vocab = 512, .dropout = 0};
  return config;
}

inline CpuTrainingResult train(const TrainConfig& config, const Faults& faults = {}) {
  return train_on_cpu(config, {.steps = 2, .faults = faults, .poison = true, .collect_gradients = true});
}

/// Largest difference over all tensors of `a` and `b`, each relative to the largest value of its tensor in `b`.
inline double largest_difference(const std::map<std::string, std::vector<float>>& a,
                                 const std::map<std::string, std::vector<float>>& b) {
  double largest = 0;
  for (const auto& [name, wanted] : b) {
    const std::vector<float>& got = a.at(name);
    EXPECT_EQ(got.size(), wanted.size()) << name;
    double scale = 0, difference = 0;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      scale = std::max(scale, std::fabs(static_cast<double>(wanted[i])));
      const double distance = std::fabs(static_cast<double>(got[i]) - static_cast<double>(wanted[i]));
      difference = std::isnan(distance) ? std::numeric_limits<double>::infinity() : std::max(difference, distance);
    }
    largest = std::max(largest, difference / scale);
  }
  return largest;
}

}  // namespace benchsuite::testing_train
