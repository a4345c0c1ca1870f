// The first stage's input: vocabulary-parallel word embedding, learned positions where the family has them, dropout (Shoeybi et
// al. 2019, section 3).
//
// Rows of the table are split over t; a rank contributes zeros for ids it does not hold and the sum is all-reduced. With
// learned positions sequence parallelism changes nothing before that: the sum is whole, and each rank keeps its s/t slice.
// Without them the sum is scattered along the sequence (megatron-core's reduce_scatter_embeddings).
#pragma once

#include "engine/model/model_context.h"
#include "engine/parallel/parameter.h"

namespace benchsuite {

class Embedding {
 public:
  Embedding(ModelContext& context, Parameter& words, Parameter* positions)
      : context_(context), words_(words), positions_(positions) {}

  struct State {
    Tensor mask;
  };
  /// Tokens of the current micro-batch -> [s/t | s, b, h].
  Tensor forward(State& state);
  /// dy -> gradients of both tables. dy stays with the caller.
  void backward(const Tensor& dy, State& state);

 private:
  OpShape lookup_shape(OpKind kind) const;
  Tensor add_positions(const Tensor& whole);

  ModelContext& context_;
  Parameter& words_;      // [V/t, h]
  Parameter* positions_;  // [s, h] or null
};

}  // namespace benchsuite
