// The step of many micro-batches from two of few.
//
// A step repeats itself: past the warm-up every further group of micro-batches adds the same time. So the step is measured at
// two numbers of micro-batches past the warm-up and continued along the line through them; steps of few are simulated whole.
// How far the continuation is from the whole step is a test's business (tests/suite/accuracy/test_steady_state.cpp); memory
// beyond the schedule's depth doesn't depend on m at all. Layers are never left out: the peak of memory moves from stage to
// stage with depth.
//
// The representative of a pipeline stage stands for all its ranks; under ZeRO the first replica stands for the others.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/device/sim/hardware.h"
#include "engine/train/config.h"
#include "suite/accuracy/step_path.h"
#include "suite/results/run.h"

namespace benchsuite {

struct StepEstimate {
  double iteration_s = 0;
  std::array<double, kCategories> seconds{};  ///< where the busiest stage's step went; adds up to iteration_s
  int busiest_stage = 0;
  double peak_gib = 0;      ///< most of any stage, live bytes and what the stack adds
  double reserved_gib = 0;  ///< with the allocator's holes
  double saved_gib = 0;     ///< saved activations of the first stage at their peak (those that Korthikanti et al. count)
  bool fits = true;
  double host_s = 0;  ///< what the host needs to launch the busiest stage's ops one by one
  std::vector<StepPath> paths;  ///< the longest chains, of the hardware and of each of SteadyStateOptions::also_on
  std::string samples;  ///< "micro-batches 2, 3 of 128", "whole"
};

/// The largest of these categories but forward and backward compute, as words: "bubble", "tensor communication", ...;
/// "compute" where none takes a tenth of the step. What `stages` share as a bubble is on a single one the wait for the host's
/// launches: "host launches".
std::string dominant_term(const StepEstimate& estimate, std::int64_t stages);

struct SteadyStateOptions {
  bool memory_only = false;  ///< no replay: times stay 0
  bool whole = false;        ///< never continue: for the test of the continuation
  bool paths = false;        ///< tell the longest chains
  std::vector<const HardwareProfile*> also_on;  ///< more machines whose longest chains to tell, with equal nodes
};

/// One configuration on several machines: what ranks do doesn't depend on the machine, and is recorded once.
class StepEstimator {
 public:
  /// `config` must be valid, and outlive it.
  explicit StepEstimator(const TrainConfig& config, const SteadyStateOptions& options = {});
  ~StepEstimator();
  /// Throws Error (config) when the ranks of a stage don't do the same (groups that cross nodes differently), with the
  /// reason.
  StepEstimate on(const HardwareProfile& hardware);

 private:
  struct Recorded;
  const Recorded& recorded(std::int64_t micro_batches, const HardwareProfile& hardware);

  const TrainConfig& config_;
  SteadyStateOptions options_;
  /// By micro-batches, memory and GPUs of a node.
  std::map<std::tuple<std::int64_t, std::int64_t, int>, std::unique_ptr<const Recorded>> recorded_;
};

/// The same on one.
StepEstimate estimate_step(const TrainConfig& config, const HardwareProfile& hardware,
                           const SteadyStateOptions& options = {});

/// Forward and backward (with recompute) of one transformer layer, first micro-batch, no pipeline: the difference between
/// steps of three and of two layers.
struct LayerTime {
  double forward_s = 0, backward_s = 0;
};
LayerTime estimate_layer(TrainConfig config, const HardwareProfile& hardware);

}  // namespace benchsuite
