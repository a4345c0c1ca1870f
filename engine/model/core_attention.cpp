#include "engine/model/core_attention.h"

#include <cmath>

#include "engine/device/op_table.h"

namespace benchsuite {

OpShape CoreAttention::shape(OpKind kind) const {
  const bool unfused = kind < OpKind::flash_attention;
  return {.kind = kind,
          .dtype = context_.dtype,
          .out_dtype = context_.dtype,
          .accumulate = kind == OpKind::attention_scores && context_.stack.adds_scores_bias,
          .causal = true,
          .eager = unfused && !context_.stack.strided_attention,
          .dims = {context_.s, context_.b, context_.a_local, context_.d, context_.kv_local},
          .scalars = {1.0f / std::sqrt(static_cast<float>(context_.d))}};
}

Tensor CoreAttention::forward(const Tensor& qkv, LayerState& state) {
  return context_.layout.attention == AttentionKernel::flash ? forward_flash(qkv, state) : forward_unfused(qkv, state);
}

Tensor CoreAttention::backward(const Tensor& dcontext, LayerState& state) {
  return context_.layout.attention == AttentionKernel::flash ? backward_flash(dcontext, state)
                                                             : backward_unfused(dcontext, state);
}

namespace {

/// [b, a, s, s] of the local heads.
Tensor new_square(ModelContext& context, Term term, DType dtype) {
  return context.rec.allocate(Purpose::activations, index_of(term), dtype,
                              {context.b, context.a_local, context.s, context.s});
}

OpShape softmax_shape(const ModelContext& context, OpKind kind) {
  const bool refused = context.b * context.a_local % context.stack.fused_softmax_batches != 0;
  return {.kind = kind,
          .dtype = context.dtype,
          .out_dtype = context.dtype,
          .causal = true,
          .eager = !context.stack.fused_softmax || refused,
          .dims = {context.b * context.a_local * context.s, context.s, context.stack.fused_softmax && refused ? 1 : 0}};
}

OpShape probability_dropout(const ModelContext& context, OpKind kind) {
  return {.kind = kind,
          .dtype = context.dtype,
          .out_dtype = context.dtype,
          .stores_mask = context.stores_masks(),
          .dims = {context.s, context.b, context.a_local, 0, context.at.tp * context.a_local, kAttentionDropout},
          .scalars = {context.dropout}};
}

}  // namespace

void CoreAttention::learn_sequence_lengths() {
  if (host_waits_of(context_.stack).sequence_lengths) context_.rec.wait_on_host(StreamKind::compute);
}

Tensor CoreAttention::forward_unfused(const Tensor& qkv, LayerState& state) {
  Recorder& rec = context_.rec;
  const Tensor scores = new_square(context_, Term::attention_scores, context_.dtype);
  rec.record(shape(OpKind::attention_scores), {reads(qkv), writes(scores)});
  const Tensor probabilities = new_square(context_, Term::softmax_output, context_.dtype);
  learn_sequence_lengths();  // for the mask
  rec.record(softmax_shape(context_, OpKind::softmax), {reads(scores), writes(probabilities)});
  rec.release(scores);

  if (!context_.drops()) {
    const Tensor context = context_.activation(Term::context, context_.s, context_.a_local * context_.d);
    rec.record(shape(OpKind::attention_context), {reads(probabilities), reads(qkv), writes(context)});
    state.finish(context_, Save::softmax_output, probabilities);
    return context;
  }
  const Tensor dropped = new_square(context_, Term::softmax_dropped, context_.dtype);
  const Tensor& samples = context_.current_inputs().samples;
  const OpShape dropout = probability_dropout(context_, OpKind::dropout);
  if (dropout.stores_mask) {
    const Tensor mask = new_square(context_, Term::softmax_dropout_mask, DType::uint8);
    rec.record(dropout, {reads(probabilities), reads(samples), writes(dropped), writes(mask)});
    state.finish(context_, Save::softmax_dropout_mask, mask);
  } else {
    rec.record(dropout, {reads(probabilities), reads(samples), writes(dropped)});
  }
  state.finish(context_, Save::softmax_output, probabilities);

  const Tensor context = context_.activation(Term::context, context_.s, context_.a_local * context_.d);
  rec.record(shape(OpKind::attention_context), {reads(dropped), reads(qkv), writes(context)});
  state.finish(context_, Save::softmax_dropped, dropped);
  return context;
}

/// The gradient of the probabilities before dropout; drops what dropout kept.
Tensor CoreAttention::undrop(const Tensor& dropped_gradient, LayerState& state) {
  if (!context_.drops()) return dropped_gradient;
  Recorder& rec = context_.rec;
  const Tensor dprobabilities = new_square(context_, Term::gradient_inside, context_.dtype);
  const OpShape dropout = probability_dropout(context_, OpKind::dropout_backward);
  if (dropout.stores_mask) {
    rec.record(dropout, {reads(dropped_gradient), reads(state.get(Save::softmax_dropout_mask)), writes(dprobabilities)});
    state.drop(context_, Save::softmax_dropout_mask);
  } else {
    rec.record(dropout, {reads(dropped_gradient), reads(context_.current_inputs().samples), writes(dprobabilities)});
  }
  rec.release(dropped_gradient);
  return dprobabilities;
}

Tensor CoreAttention::backward_unfused(const Tensor& dcontext, LayerState& state) {
  Recorder& rec = context_.rec;
  const Tensor& qkv = state.get(Save::qkv);
  const Tensor dqkv = context_.activation(Term::gradient_inside, context_.s, context_.qkv_width());

  // The Q, K and V parts of dqkv are interleaved by head, so each of the three products updates the whole range.
  const Tensor dropped_gradient = new_square(context_, Term::gradient_inside, context_.dtype);
  rec.record(shape(OpKind::attention_context_backward_p), {reads(dcontext), reads(qkv), writes(dropped_gradient)});
  Operand into_dqkv = writes(dqkv);
  rec.record(shape(OpKind::attention_context_backward_v),
             {reads(state.get(context_.drops() ? Save::softmax_dropped : Save::softmax_output)), reads(dcontext),
              into_dqkv});
  into_dqkv = updates(dqkv);
  if (context_.drops()) state.drop(context_, Save::softmax_dropped);
  const Tensor dprobabilities = undrop(dropped_gradient, state);

  const Tensor dscores = new_square(context_, Term::gradient_inside, context_.dtype);
  rec.record(softmax_shape(context_, OpKind::softmax_backward),
             {reads(dprobabilities), reads(state.get(Save::softmax_output)), writes(dscores)});
  state.drop(context_, Save::softmax_output);
  rec.release(dprobabilities);

  rec.record(shape(OpKind::attention_scores_backward_q), {reads(dscores), reads(qkv), into_dqkv});
  rec.record(shape(OpKind::attention_scores_backward_k), {reads(dscores), reads(qkv), into_dqkv});
  rec.release(dscores);
  return dqkv;
}

namespace {

OpShape flash_shape(const ModelContext& context, OpShape shape) {
  // Each of c context-parallel ranks has s/c queries against s keys: the work of c attentions over s/c.
  shape.dims[1] *= context.layout.cp;
  shape.dims[5] = context.at.tp * context.a_local;
  shape.scalars[1] = context.dropout;
  shape.attention = context.stack.fused_attention;
  shape.eager = copies_context(context.layout, context.stack);
  return shape;
}

}  // namespace

Tensor CoreAttention::forward_flash(const Tensor& qkv, LayerState& state) {
  const Tensor context = context_.activation(Term::context, context_.s, context_.a_local * context_.d);
  const Tensor log_sum = context_.rec.allocate(Purpose::activations, index_of(Term::attention_log_sum), DType::fp32,
                                               {1, context_.b, context_.a_local, context_.s});
  learn_sequence_lengths();
  context_.rec.record(flash_shape(context_, shape(OpKind::flash_attention)),
                      {reads(qkv), reads(context_.current_inputs().samples), writes(context), writes(log_sum)});
  state.finish(context_, Save::attention_log_sum, log_sum);
  return context;
}

Tensor CoreAttention::backward_flash(const Tensor& dcontext, LayerState& state) {
  const Tensor dqkv = context_.activation(Term::gradient_inside, context_.s, context_.qkv_width());
  context_.rec.record(flash_shape(context_, shape(OpKind::flash_attention_backward)),
                      {reads(dcontext), reads(state.get(Save::context)), reads(state.get(Save::qkv)),
                       reads(state.get(Save::attention_log_sum)), reads(context_.current_inputs().samples),
                       writes(dqkv)});
  state.drop(context_, Save::attention_log_sum);
  return dqkv;
}

}  // namespace benchsuite
