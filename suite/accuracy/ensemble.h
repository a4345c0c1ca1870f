// Uncertainty of a prediction from what nobody measured for this machine: every constant of the hardware profile that has
// a published range, drawn from it, and every setting that a source leaves unstated, drawn from its documented
// alternatives.
//
// A draw prices the ops of the busiest stage again (LedgerEntry) and moves the step by the difference: passes count once more
// for each slot of the pipeline's bubble, the end of the step once. Where the host's launches bound the step, they do so
// after the draw too: the step follows max(device, host). Communication has no published ranges and stays as it is.
// Settings are drawn jointly: every combination that comes up is simulated, and priced again with the constants of its draws. A
// source has one software: within a set all rows draw a setting alike, and sets apart from each other.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "suite/accuracy/map_row.h"
#include "suite/accuracy/steady_state.h"

namespace benchsuite {

/// A constant with a published range: where it stands in the profile, and its ends.
struct RangedConstant {
  std::string path;  ///< "gemm.burst_efficiency"
  double low = 0, value = 0, high = 0;
};
std::vector<RangedConstant> ranged_constants(const HardwareProfile& hardware);

/// The profile with every ranged constant at low + u (high - low), u in [0, 1) by (seed, draw, path): two profiles
/// with the same constant draw alike.
std::shared_ptr<const HardwareProfile> drawn_profile(const HardwareProfile& hardware, std::uint64_t seed, int draw);

/// Uniform in [0, 1) by (seed, draw, name).
double uniform_by(std::uint64_t seed, int draw, const std::string& name);

/// What the busiest stage's device and host take on one profile, in seconds.
struct StepBounds {
  double passes = 0;  ///< compute of forward, recompute and backward
  double ends = 0;    ///< of the rest
  double host = 0;
};

/// One estimated step, priced again and again.
class Repricer {
 public:
  /// All three must outlive it.
  Repricer(const StepEstimate& estimate, const TrainConfig& config, const HardwareProfile& base);
  /// Seconds of the step on `drawn`, by the difference of its ops.
  double step(const HardwareProfile& drawn) const;

 private:
  StepBounds bounds_on(const HardwareProfile& hardware) const;
  double seconds_of(const StepBounds& bounds) const;

  const StepEstimate& estimate_;
  const TrainConfig& config_;
  double exposed_ = 0;    ///< communication
  double reference_ = 0;  ///< seconds_of the base
};

/// A value for each of `settings` in draw `draw` of `set`; `attempt` counts the draws that could not run.
std::vector<Setting> drawn_settings(const std::vector<UnstatedSetting>& settings, const std::string& set, std::uint64_t seed,
                                    int draw, int attempt);

}  // namespace benchsuite
