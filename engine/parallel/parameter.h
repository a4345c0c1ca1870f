// A parameter of the model as one rank holds it: a shard of a global tensor, with its gradient accumulator.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/program/tensor.h"

namespace benchsuite {

struct Parameter {
  enum class Initial : std::uint8_t { zeros, ones, normal, scaled_normal };  ///< scaled: 0.02 / sqrt(2 L)

  std::string name;                 ///< global, e.g. "layer.3.mlp.fc1.weight"
  std::int64_t rows = 1, columns = 1;          ///< local extents; vectors are one row
  std::int64_t global_rows = 1, global_columns = 1;
  std::int64_t first_row = 0, first_column = 0;  ///< where the shard starts in the global tensor
  Initial initial = Initial::normal;
  bool decays = true;               ///< weight decay: matrices yes, vectors no
  bool replicated = false;          ///< equal on all tensor-parallel ranks: counted once in norms
  bool partial_gradient = false;    ///< sequence parallel: gradient is a partial sum over s/t, summed at step end
  bool shared_copy = false;         ///< the tied embedding's copy on the last stage: not counted in norms

  Tensor value;     // [rows, columns] compute precision
  Tensor gradient;  // [rows, columns] stack.gradient_dtype

  std::int64_t elements() const { return rows * columns; }
};

}  // namespace benchsuite
