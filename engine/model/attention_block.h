// x + dropout(proj(attention(qkv(LayerNorm(x)))) + bias): the first half of a transformer layer.
#pragma once

#include "engine/model/core_attention.h"
#include "engine/model/norm.h"
#include "engine/parallel/linear.h"

namespace benchsuite {

struct AttentionParameters {
  Parameter *norm_gamma, *norm_beta;    // [h]
  Parameter *qkv_weight, *qkv_bias;     // [3 h/t, h] rows ordered [a/t, 3, d]; [3 h/t]
  Parameter *proj_weight, *proj_bias;   // [h, h/t]; [h]
};

class AttentionBlock {
 public:
  AttentionBlock(ModelContext& context, const AttentionParameters& parameters);

  /// x [s/t | s, b, h] -> same shape. x goes to `state` or, if not kept, is released when `release_input`.
  Tensor forward(const Tensor& x, LayerState& state, bool release_input);
  /// dy -> dx; drops everything the block kept. dy stays with the caller.
  Tensor backward(const Tensor& dy, LayerState& state);

 private:
  void recompute(LayerState& state);

  ModelContext& context_;
  AttentionParameters parameters_;
  LayerNorm norm_;
  ColumnParallelLinear qkv_;
  CoreAttention core_;
  RowParallelLinear proj_;
};

}  // namespace benchsuite
