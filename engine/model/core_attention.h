// Core attention on the local heads: softmax(Q K^T / sqrt(d)) V with dropout on the probabilities; causal. No collective.
//
// unfused: four ops (three without dropout) whose s x s results are kept (or made again by selective recompute); flash: one fused op each way that
// keeps the log-sum-exp of the rows (Dao 2023).
#pragma once

#include "engine/model/layer_state.h"
#include "engine/model/model_context.h"

namespace benchsuite {

class CoreAttention {
 public:
  explicit CoreAttention(ModelContext& context) : context_(context) {}

  /// qkv [s, b, (a + 2 u)/t d] -> context [s, b, a/t d]; what backward needs goes to `state`.
  Tensor forward(const Tensor& qkv, LayerState& state);

  /// dcontext, and from `state` qkv and what forward kept -> dqkv. Drops what it used of the core's own tensors; keeps qkv
  /// and the context for the caller to drop.
  Tensor backward(const Tensor& dcontext, LayerState& state);

 private:
  OpShape shape(OpKind kind) const;
  /// The host stops before the next op (HostWaits::sequence_lengths).
  void learn_sequence_lengths();
  Tensor forward_unfused(const Tensor& qkv, LayerState& state);
  Tensor undrop(const Tensor& dropped_gradient, LayerState& state);
  Tensor backward_unfused(const Tensor& dcontext, LayerState& state);
  Tensor forward_flash(const Tensor& qkv, LayerState& state);
  Tensor backward_flash(const Tensor& dcontext, LayerState& state);

  ModelContext& context_;
};

}  // namespace benchsuite
