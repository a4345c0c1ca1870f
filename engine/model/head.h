// The last stage's output: final norm, the vocabulary-parallel head (tied to the embedding or not), cross-entropy on logits split over the
// vocabulary (Shoeybi et al. 2019, section 3; megatron-core cross_entropy.py): three fp32 all-reduces of [s, b].
#pragma once

#include <deque>

#include "engine/model/norm.h"
#include "engine/parallel/linear.h"

namespace benchsuite {

class Head {
 public:
  Head(ModelContext& context, Parameter& gamma, Parameter* beta, Parameter& words, const Tensor& loss);

  struct State {
    Tensor input, statistics, norm, softmax;
  };
  /// x [s/t | s, b, h] -> adds the micro-batch's mean token loss / m to the loss output. Takes over x.
  void forward(const Tensor& x, State& state);
  /// The gradient of x, [s/t | s, b, h].
  Tensor backward(State& state);

 private:
  Tensor loss_gradient(State& state);
  bool recomputes() const;
  void recompute_logits(const State& state);
  void recompute_norm(State& state);
  void whole_loss(Tensor logits, State& state);
  Tensor whole_loss_gradient(State& state);
  Tensor gather_logits(const Tensor& mine);
  Tensor my_columns(const Tensor& whole);
  Tensor widened(const Tensor& logits);
  Tensor narrowed(const Tensor& wide);
  Tensor fp32_logits(const std::array<std::int64_t, 4>& shape);
  Tensor row_values();
  OpShape rows_shape(OpKind kind, const Tensor& logits) const;

  ModelContext& context_;
  Parameter& words_;
  Tensor loss_;
  Norm norm_;
  ColumnParallelLinear projection_;
  std::deque<Tensor> outputs_;  // Stack::framework_loss: 16-bit logits of the last micro-batches
  std::int64_t backwards_ = 0;
};

}  // namespace benchsuite
