#include "engine/model/embedding.h"

#include "engine/device/op_table.h"
#include "engine/model/pointwise.h"
#include "engine/parallel/tensor_region.h"

namespace benchsuite {

OpShape Embedding::lookup_shape(OpKind kind) const {
  return {.kind = kind,
          .dtype = context_.dtype,
          .out_dtype = kind == OpKind::embedding ? context_.dtype : words_.gradient.dtype,
          .dims = {context_.s * context_.b, context_.h, words_.rows, words_.first_row}};
}

Tensor Embedding::forward(State& state) {
  Recorder& rec = context_.rec;
  rec.at().site = Site::embedding;
  // Without positions an all-reduce completes it in place; sequence parallelism scatters the sum into another tensor.
  const bool in_place = !positions_ && !context_.sequence_parallel();
  const Tensor whole = context_.activation(in_place ? Term::layer_output : Term::transient, context_.s, context_.h);
  rec.record(lookup_shape(OpKind::embedding),
             {reads(context_.current_inputs().tokens), reads(words_.value), writes(whole)});
  const Tensor summed =
      positions_ ? add_positions(whole) : leave_region(context_, whole, index_of(Term::layer_output));
  const auto [y, mask] = dropout_forward(context_, summed, kEmbeddingDropout, Term::layer_output, Term::embedding_mask);
  release_dropped(context_, summed, y);
  state.mask = mask;
  if (mask.valid()) rec.mark_saved(mask, index_of(Term::embedding_mask));
  return y;
}

/// Completes the sum over vocabulary shards and adds the positions of this rank's part of the sequence. Releases `whole`.
Tensor Embedding::add_positions(const Tensor& whole) {
  Recorder& rec = context_.rec;
  all_reduce_tensor(context_, whole, Reduction::sum);
  Tensor mine = whole.flat_slice(context_.first_position() * context_.b * context_.h,
                                 context_.s_local * context_.b * context_.h);
  const Term term = context_.drops() ? Term::transient : Term::layer_output;
  const Tensor positioned = context_.activation(term, context_.s_local, context_.h);
  rec.record({.kind = OpKind::position,
              .dtype = context_.dtype,
              .out_dtype = context_.dtype,
              .dims = {context_.s_local, context_.b, context_.h, context_.first_position()}},
             {reads(mine), reads(positions_->value), writes(positioned)});
  rec.release(whole);
  return positioned;
}

void Embedding::backward(const Tensor& dy, State& state) {
  Recorder& rec = context_.rec;
  rec.at().site = Site::embedding;
  const Tensor dpositioned = dropout_backward(context_, dy, state.mask, kEmbeddingDropout);
  if (state.mask.valid()) rec.release(state.mask);
  state.mask = {};
  // Gathered under sequence parallelism, so both tables see the whole sequence and need no sum over t afterwards.
  const Tensor whole = enter_region(context_, dpositioned, index_of(Term::gathered));
  if (positions_) {
    rec.record({.kind = OpKind::position_backward,
                .dtype = context_.dtype,
                .out_dtype = positions_->gradient.dtype,
                .extra_kernels = context_.vector_additions(1),
                .dims = {context_.s, context_.b, context_.h, 0}},
               {reads(whole), updates(positions_->gradient)});
  }
  OpShape lookup = lookup_shape(OpKind::embedding_backward);
  lookup.eager = !context_.stack.fused_gradient_accumulation;
  // Not fused, a whole table of zeros takes the rows, which is then added.
  const Tensor own = lookup.eager ? rec.allocate(Purpose::activations, index_of(Term::weight_gradient), context_.dtype,
                                                 {1, 1, words_.rows, context_.h})
                                  : Tensor{};
  rec.record(lookup,
             {reads(context_.current_inputs().tokens), reads(whole), updates(words_.gradient)});
  if (own.valid()) rec.release(own);
  release_entered(context_, whole, dpositioned);
  release_dropped(context_, dpositioned, dy);
}

}  // namespace benchsuite
