// What parity tests share: a tiny model on one rank as the baseline, and how far two trainings are apart.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <utility>
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

inline TrainConfig tiny(ModelFamily family, DType precision) {
  TrainConfig config = family == ModelFamily::llama ? tiny_llama() : tiny_gpt();
  config.layout.precision = precision;
  return config;
}

// fp32 sums in another order: about sqrt(terms) roundings of 6e-8 on sums of a few thousand products, through four
// layers; single small entries of LayerNorm gradients see up to 1.5e-5 of their tensor's largest value.
constexpr double kReordered = 1e-4;

// A rounding to bf16 is off by 2^-9 rms of the value. Some fifty of them follow one another through four layers and back:
// sqrt(50) 2^-9 = 1.4 % of a gradient's size; the worst of a few thousand entries lies four to five deviations out.
constexpr double kRoundedToBf16 = 0.07;

inline CpuTrainingResult train(const TrainConfig& config, const Faults& faults = {}) {
  return train_on_cpu(config, {.steps = 2, .faults = faults, .poison = true, .collect_gradients = true});
}

/// One rank, trained once a program.
inline const CpuTrainingResult& baseline(ModelFamily family, DType precision) {
  static std::map<std::pair<ModelFamily, DType>, CpuTrainingResult> trained;
  const auto found = trained.find({family, precision});
  if (found != trained.end()) return found->second;
  return trained[{family, precision}] = train(tiny(family, precision));
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

/// Holds the analytic gradients of the whole model against central differences of its loss, one entry for each of its
/// `parameters`.
inline void expect_gradients_match_differences(const TrainConfig& config, std::size_t parameters) {
  CpuTrainingOptions options{.steps = 1, .learning_rate = 0, .collect_gradients = true};
  const auto gradients = train_on_cpu(config, options).gradients;
  EXPECT_EQ(gradients.size(), parameters);
  for (const auto& [name, gradient] : gradients) {
    std::size_t index = 0;  // the entry with the largest gradient: the loss is fp32, small ones drown in its rounding
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      if (std::fabs(gradient[i]) > std::fabs(gradient[index])) index = i;
    }
    const float step = 0.02f;
    const auto loss_at = [&](float by) {
      options.nudge = {.parameter = name, .index = static_cast<std::int64_t>(index), .by = by};
      return train_on_cpu(config, options).loss[0];
    };
    const double numeric = (loss_at(step) - loss_at(-step)) / (2.0 * step);
    // Rounding of the two losses (6 * 6e-8 / 0.04 = 1e-5) and the cubic term of the difference quotient.
    EXPECT_NEAR(gradient[index], numeric, 3e-5 + 0.02 * std::fabs(numeric)) << name << "[" << index << "]";
  }
}

}  // namespace benchsuite::testing_train
