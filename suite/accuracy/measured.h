// What a row publishes, in the units that predictions are compared in.
#pragma once

#include <string>

#include "engine/model/config.h"
#include "engine/parallel/layout.h"
#include "suite/accuracy/published_row.h"

namespace benchsuite {

/// What a row lets us compare.
struct Published {
  double iteration_s = 0;           ///< 0: none
  double tokens_per_s_per_gpu = 0;  ///< 0: none
  double peak_memory_gb = 0;        ///< as printed, GB; 0: none
  double layer_forward_s = 0, layer_backward_s = 0;
  double activation_gib = 0;        ///< saved activations of the first stage
  bool out_of_memory = false;
  std::string from;  ///< what the time follows from: "iteration_s", "tokens_per_s_per_gpu", "tflops_per_gpu by korthikanti-2022"

  bool nothing() const;  ///< none of these
};

/// Times that no step, layer or measurement of one lies outside of, in seconds; memory in GB or GiB.
inline constexpr double kLeastSeconds = 1e-6, kMostSeconds = 1e6, kMostMemory = 1e6;

/// The first that the row states of a time, the rates and FLOPs by a stated convention is the step's time; `model` and
/// `layout` turn the others into it. Throws Unmapped for what is no number, or no time or memory that can have been measured.
Published read_measured(const PublishedRow& row, const ModelConfig& model, const Layout& layout);

}  // namespace benchsuite
