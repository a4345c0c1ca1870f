// x + dropout(FC2(gelu(FC1(LayerNorm(x)) + bias1)) + bias2): the second half of a transformer layer.
#pragma once

#include "engine/model/layer_state.h"
#include "engine/model/norm.h"
#include "engine/parallel/linear.h"

namespace benchsuite {

struct MlpParameters {
  Parameter *norm_gamma, *norm_beta;  // [h]
  Parameter *fc1_weight, *fc1_bias;   // [f/t, h]; [f/t]
  Parameter *fc2_weight, *fc2_bias;   // [h, f/t]; [h]
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
  LayerNorm norm_;
  ColumnParallelLinear fc1_;
  RowParallelLinear fc2_;
};

}  // namespace benchsuite
