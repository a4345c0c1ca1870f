// x + dropout(FC2(f(FC1(norm(x)) + bias1)) + bias2): the second half of a transformer layer. f is GELU, or SwiGLU with FC1 twice
// as wide and no biases, as the model's family says.
#pragma once

#include "engine/model/layer_state.h"
#include "engine/model/norm.h"
#include "engine/parallel/linear.h"

namespace benchsuite {

struct MlpParameters {
  // Null where the family has none: norm_beta and the biases.
  Parameter *norm_gamma = nullptr, *norm_beta = nullptr;  // [h]
  Parameter *fc1_weight = nullptr, *fc1_bias = nullptr;   // [f/t, h]; [f/t]. Gated: [2 f/t, h], rows gate 0, up 0, gate 1, ...
  Parameter *fc2_weight = nullptr, *fc2_bias = nullptr;   // [h, f/t]; [h]
};

class MlpBlock {
 public:
  MlpBlock(ModelContext& context, const MlpParameters& parameters);

  /// x [s/t | s, b, h] -> same shape. x goes to `state`, or is released.
  Tensor forward(const Tensor& x, LayerState& state);
  /// dy -> dx; drops everything the block kept. dy stays with the caller.
  Tensor backward(const Tensor& dy, LayerState& state);

 private:
  Tensor inner_forward(const Tensor& normed, LayerState& state);
  void recompute(LayerState& state);

  ModelContext& context_;
  MlpParameters parameters_;
  Norm norm_;
  ColumnParallelLinear fc1_;
  RowParallelLinear fc2_;
};

}  // namespace benchsuite
