// What the host does for one rank around a step, on devices that compute: initial parameters and masters, inputs, step scalars.
//
// Initial values are functions of (seed, global index), samples of their global index, so every layout trains the same model
// on the same samples. Sample k of a step (0 <= k < global_batch) goes to micro-batch i, replica r, place j in it with
//   k = (i dp + r) b + j
// Shared by cpu_training.h (tests, one call) and training_run.h (runs with data, checkpoints and processes).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "engine/device/rank_memory.h"
#include "engine/parallel/rank_grid.h"
#include "engine/train/step.h"

namespace benchsuite {

/// Adds `by` to one element of a global parameter at the start: for difference quotients.
struct Nudge {
  std::string parameter;
  std::int64_t index = 0;
  float by = 0;
};

/// Initial value of element `index` of the global tensor `name`.
float initial_value(std::uint64_t seed, const Parameter& parameter, std::int64_t index, std::int64_t layers);

/// Parameters start at their initial values (rounded in bf16), masters at the values themselves.
void initialise_parameters(RankMemory& rank, const StepBindings& bindings, std::int64_t layers, std::uint64_t seed,
                           const Nudge& nudge = {});

/// body(index in the piece's tensor, index in the global tensor) for every element of a piece.
template <class Body>
void for_each_element(const StepBindings& bindings, const StepBindings::Piece& piece, Body body) {
  const Parameter& parameter = bindings.parameters[piece.parameter];
  for (std::int64_t i = 0; i < piece.tensor.elements(); ++i) {
    const std::int64_t row = (piece.first + i) / parameter.columns, column = (piece.first + i) % parameter.columns;
    body(static_cast<std::size_t>(i),
         (parameter.first_row + row) * parameter.global_columns + parameter.first_column + column);
  }
}

/// Puts the s + 1 tokens of a sample into `tokens`: inputs are the first s, labels the last s.
using TokenSource = std::function<void(std::int64_t sample, std::span<std::int32_t> tokens)>;

struct StepScalars {
  float learning_rate = 1e-3f, beta1 = 0.9f, beta2 = 0.95f, epsilon = 1e-8f;
};

/// Fills the inputs of step `step` (from 0): samples step B .. step B + B - 1 of the source.
void fill_inputs(RankMemory& rank, const StepBindings& bindings, const TrainConfig& config, const Coordinates& at,
                 std::int64_t step, std::uint64_t seed, const TokenSource& source, const StepScalars& scalars);

}  // namespace benchsuite
