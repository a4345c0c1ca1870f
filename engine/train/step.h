// Records one training step of one rank: the pipeline schedule with its transport, the gradient reductions, the optimizer.
//
//   Program program = record_step(config, rank);
//
// Recording is a pure function of (config, rank): every device, the verifier and every process of a distributed run record
// their own and agree.
#pragma once

#include <functional>

#include "engine/parallel/context.h"
#include "engine/train/config.h"
#include "engine/train/optimizer.h"

namespace benchsuite {

/// Where the host finds what it fills and reads, and where parameters live: for devices that compute.
struct StepBindings {
  std::vector<MicroBatchInputs> inputs;          ///< by micro-batch
  Tensor step_scalars;                           ///< fp32 [5]: lr, beta1, beta2, epsilon, step (from 1)
  Tensor loss;                                   ///< fp32 [1]: the replica's mean token loss; last stage only
  Tensor gradient_norm;                          ///< fp32 [2]: norm, clip coefficient
  std::vector<Parameter> parameters;             ///< what the rank has a part of; values and gradients are bound where whole

  /// Elements [first, first + tensor.elements()) of parameter `parameter` (row by row), and where they lie.
  struct Piece {
    std::size_t parameter = 0;  ///< index into parameters
    std::int64_t first = 0;
    Tensor tensor;
  };
  std::vector<Piece> values;     ///< all values the rank keeps between steps; each element once
  std::vector<Piece> gradients;  ///< what it owns after the reductions, for the optimizer
  std::vector<Piece> masters;    ///< fp32 copies of what it owns; empty in fp32
};

struct RecordedStep {
  Program program;
  StepBindings bindings;
};

/// Records rank `rank` of a validated configuration.
RecordedStep record_step(const TrainConfig& config, int rank, const OptimizerConfig& optimizer = {},
                         const Faults& faults = {});

/// The same Programs for several ranks at once, on `threads` threads: ranks share what the schedule says of all of them.
/// `each` sees every Program when it is recorded, on the thread that did; it may take from it what nobody needs later.
using SeeProgram = std::function<void(std::size_t index, Program& program)>;
std::vector<Program> record_programs(const TrainConfig& config, const std::vector<int>& ranks, int threads,
                                     RecordedDetail detail = RecordedDetail::whole, const Faults& faults = {},
                                     const SeeProgram& each = nullptr);

}  // namespace benchsuite
