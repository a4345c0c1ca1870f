// Uncertainty of a prediction from what nobody measured for this machine: every constant of the hardware profile that has
// a published range, drawn from it, and every setting that a source leaves unstated, drawn from its documented
// alternatives.
//
// A draw prices the ops of the busiest stage again (LedgerEntry) and moves the step by the difference: passes count once more
// for each slot of the pipeline's bubble, the end of the step once. Where the host's launches bound the step, they do so
// after the draw too: the step follows max(device, host). Communication has no published ranges and stays as it is.
// An alternative setting is simulated once and its ratio to the base multiplies the step.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

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

/// Seconds of the step on `drawn`, by the difference of its ops.
double repriced_step(const StepEstimate& estimate, const TrainConfig& config, const HardwareProfile& base,
                     const HardwareProfile& drawn);

}  // namespace benchsuite
