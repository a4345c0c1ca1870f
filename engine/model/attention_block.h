// x + dropout(proj(attention(qkv(norm(x)))) + bias): the first half of a transformer layer. With or without biases, with
// LayerNorm or RMSNorm, with rotary positions or none, as the model's family says.
#pragma once

#include "engine/model/core_attention.h"
#include "engine/model/norm.h"
#include "engine/parallel/linear.h"

namespace benchsuite {

struct AttentionParameters {
  // Null where the family has none: norm_beta and the biases.
  Parameter *norm_gamma = nullptr, *norm_beta = nullptr;   // [h]
  Parameter *qkv_weight = nullptr, *qkv_bias = nullptr;    // [(a + 2 u) d/t, h] rows ordered [u/t, a/u + 2, d]; [(a + 2 u) d/t]
  Parameter *proj_weight = nullptr, *proj_bias = nullptr;  // [h, h/t]; [h]
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
  void rotate(OpKind kind, const Tensor& qkv);

  ModelContext& context_;
  AttentionParameters parameters_;
  Norm norm_;
  ColumnParallelLinear qkv_;
  CoreAttention core_;
  RowParallelLinear proj_;
};

}  // namespace benchsuite
