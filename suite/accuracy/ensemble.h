// Uncertainty of a prediction from what nobody measured for this machine: every constant of the hardware profile that has
// a published range, drawn from it; every operator's model, drawn from how far it is from measurements (model_error.h); and
// every setting that a source leaves unstated, drawn from its documented alternatives.
//
// A draw prices the longest chains of the step again (step_path.h), communication and launches with them: each entry of a
// chain by the ratio of its op's time alone on the drawn machine to that on the machine the chain was found on, what
// collectives add to it by the SMs they hold by the ratio of those. Chains are found on the machine itself and on its
// corners, where one part is slow and the others are fast (compute, communication, the host), and the step is the longest of
// them. A corner's chain that comes out longer than the step on the machine itself has waits in it that sharing made there: it is
// scaled down to that step. Left out: chains that are longest nowhere but between the corners, and sharing (of links, of memory)
// that changes.
// tests/suite/accuracy/test_ensemble.cpp says how far that is from simulating every draw.
//
// Settings are drawn jointly, kJointDraws times over: every combination that comes up is simulated, and priced again with the
// constants of the draws that fall to it. One that can't run, or that would not fit the memory which the published run fitted, is
// drawn anew. A source has one software and one cluster: within a set all rows draw a setting alike, and sets apart from each
// other.
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
  std::string drawn_as;  ///< the constant it stands for or shares its cause with; mostly itself
  std::string unit;
  double low = 0, value = 0, high = 0;
};
std::vector<RangedConstant> ranged_constants(const HardwareProfile& hardware);

/// Uniform in [0, 1) by (seed, draw, name).
double uniform_by(std::uint64_t seed, int draw, const std::string& name);

/// A profile, and its costs for ops one by one. Any number of threads may use it.
class Machine {
 public:
  explicit Machine(HardwareProfile hardware);
  const HardwareProfile& hardware() const { return hardware_; }
  /// Seconds of a chain's op alone; `launch_s`: of each launch, where the host waits for each op.
  double seconds(const PathEntry& entry, double launch_s) const;

 private:
  HardwareProfile hardware_;
  Placement placement_;  ///< one node: prices of compute ops don't depend on it
  CostModel costs_;
};

/// The profile with every ranged constant below its value as often as above, evenly to either end of its range, by (seed, draw,
/// the path it is drawn as): a draw's median is the profile itself. And every operator with a factor of its own (model_error.h). Two profiles with
/// the same constant draw alike.
std::shared_ptr<const Machine> drawn_machine(const HardwareProfile& hardware, std::uint64_t seed, int draw);

/// The profile with one of its parts at the slow ends of all its ranges, and the other two at the fast ones.
enum class SlowPart : std::uint8_t { compute, communication, host };
std::shared_ptr<const Machine> corner_machine(const HardwareProfile& hardware, SlowPart part);

/// The machine itself, its corners, and two whose host is between its fast end and itself.
using Corners = std::vector<std::shared_ptr<const Machine>>;
Corners corners_of(const HardwareProfile& hardware);
/// What a simulation tells of them.
SteadyStateOptions options_for(const Corners& corners);

/// One estimated step, priced again and again.
class Repricer {
 public:
  /// `estimate` comes from options_for(corners). `estimate` and `config` must outlive it.
  Repricer(const StepEstimate& estimate, const TrainConfig& config, const Corners& corners);
  /// Seconds of the step on `drawn`.
  double step(const Machine& drawn) const;

 private:
  struct Priced {
    std::size_t op = 0;  ///< index into ops_
    double alone_s = 0, inside_s = 0, across_s = 0;  ///< each a second of the op alone on the drawn machine, a permille of SMs
  };
  struct Chain {
    std::vector<Priced> entries;
    double launches = 0, fixed_s = 0;
    double scale = 1;
  };
  double launch_s(const HardwareProfile& hardware) const;
  /// Of each chain on `machine`.
  std::vector<double> chains_on(const Machine& machine) const;

  const TrainConfig& config_;
  std::vector<PathEntry> ops_;  ///< distinct ops of all chains
  std::vector<Chain> chains_;
};

inline constexpr int kJointDraws = 24;

/// A value for each of `settings` in draw `draw` of `set`, which repeat after kJointDraws; `attempt` counts the draws that could
/// not run.
std::vector<Setting> drawn_settings(const std::vector<UnstatedSetting>& settings, const std::string& set, std::uint64_t seed,
                                    int draw, int attempt);

}  // namespace benchsuite
