#include "engine/model/attention_block.h"

#include "engine/device/op_table.h"
#include "engine/model/pointwise.h"

namespace benchsuite {

namespace {
constexpr LinearTerms kTerms{index_of(Term::gathered), index_of(Term::transient), index_of(Term::reduced),
                             index_of(Term::operand), index_of(Term::weight_gradient)};
}

AttentionBlock::AttentionBlock(ModelContext& context, const AttentionParameters& parameters)
    : context_(context),
      parameters_(parameters),
      norm_(context, *parameters.norm_gamma, parameters.norm_beta),
      qkv_(context, *parameters.qkv_weight, kTerms, runs_in_tiles(context)),
      core_(context),
      proj_(context, *parameters.proj_weight, kTerms, runs_in_tiles(context)) {}

Tensor AttentionBlock::forward(const Tensor& x, LayerState& state, bool release_input) {
  context_.rec.at().site = Site::attention;
  const auto [normed, statistics] = norm_.forward(x, Term::attention_norm, Term::attention_statistics);
  state.finish(context_, Save::attention_statistics, statistics);
  const Tensor product = qkv_.forward(normed);
  state.finish(context_, Save::attention_norm, normed);
  const Tensor qkv =
      parameters_.qkv_bias ? add_bias(context_, product, *parameters_.qkv_bias, Term::qkv) : product;
  if (context_.model.rotary_positions()) rotate(OpKind::rope, qkv);
  const Tensor context = core_.forward(qkv, state);
  state.finish(context_, Save::qkv, qkv);
  const auto [projected, kept] = proj_.forward(context);
  // The attention kernel's backward pass reads its output in 16 bit.
  if (kept.buffer != context.buffer) state.finish(context_, Save::context_operand, kept);
  state.finish(context_, Save::context, context);
  const auto [y, mask] = bias_dropout_add(context_, projected, parameters_.proj_bias, x, kAttentionOutputDropout,
                                          Term::mlp_input, Term::attention_output_mask);
  if (mask.valid()) state.finish(context_, Save::attention_output_mask, mask);
  keep_beside(context_, norm_.kept_elements(x), Save::attention_scaled, state);
  if (copies_context(context_.layout, context_.stack)) keep_beside(context_, context.elements(), Save::context_copy, state);
  if (context_.model.rotary_positions() && !context_.stack.fused_rope && !copies_queries(context_.layout, context_.stack)) {
    // Values stay a view of the linear's whole output.
    keep_beside(context_, context_.s * context_.b * (context_.a_local + context_.kv_local) * context_.d, Save::rotated, state);
  }
  if (state.keeps(Save::attention_input)) {
    state.finish(context_, Save::attention_input, x);
  } else if (release_input) {
    context_.rec.release(x);
  }
  return y;
}

/// In place: what is kept for backward is what attention reads.
void AttentionBlock::rotate(OpKind kind, const Tensor& qkv) {
  context_.rec.record({.kind = kind,
                       .dtype = context_.dtype,
                       .out_dtype = context_.dtype,
                       .eager = !context_.stack.fused_rope,
                       .dims = {context_.s, context_.b, context_.a_local, context_.d, context_.kv_local, 0},
                       .scalars = {static_cast<float>(context_.model.rope_theta)}},
                      {updates(qkv)});
}

void AttentionBlock::recompute(LayerState& state) {
  const Phase phase = context_.rec.at().phase;
  context_.rec.at().phase = Phase::recompute;
  if (!state.keeps(Save::softmax_output)) {
    LayerState again(SaveSet::all());
    const Tensor context = core_.forward(state.get(Save::qkv), again);
    context_.rec.release(context);
    for (const Save save :
         {Save::softmax_output, Save::softmax_dropout_mask, Save::softmax_dropped, Save::attention_log_sum}) {
      if (again.has(save)) state.put(save, again.get(save));
    }
  }
  context_.rec.at().phase = phase;
}

Tensor AttentionBlock::backward(const Tensor& dy, LayerState& state) {
  context_.rec.at().site = Site::attention;
  const Tensor mask = state.has(Save::attention_output_mask) ? state.get(Save::attention_output_mask) : Tensor{};
  const Tensor dprojected = dropout_backward(context_, dy, mask, kAttentionOutputDropout);
  if (mask.valid()) state.drop(context_, Save::attention_output_mask);
  if (parameters_.proj_bias) bias_gradient(context_, dprojected, *parameters_.proj_bias);
  const bool cast = state.has(Save::context_operand);
  const Tensor dcontext = proj_.backward(dprojected, state.get(cast ? Save::context_operand : Save::context));
  if (cast) state.drop(context_, Save::context_operand);
  release_dropped(context_, dprojected, dy);

  recompute(state);
  const Tensor dqkv = core_.backward(dcontext, state);
  context_.rec.release(dcontext);
  state.drop(context_, Save::context);
  state.drop(context_, Save::qkv);

  if (context_.model.rotary_positions()) rotate(OpKind::rope_backward, dqkv);
  if (parameters_.qkv_bias) bias_gradient(context_, dqkv, *parameters_.qkv_bias);
  if (!state.keeps(Save::attention_norm)) {
    context_.rec.at().phase = Phase::recompute;
    const auto again =
        norm_.forward(state.get(Save::attention_input), Term::attention_norm, Term::attention_statistics);
    context_.rec.release(again.statistics);
    state.put(Save::attention_norm, again.output);
    context_.rec.at().phase = Phase::backward;
  }
  const Tensor dnormed = qkv_.backward(dqkv, state.get(Save::attention_norm));
  context_.rec.release(dqkv);
  state.drop(context_, Save::attention_norm);

  const Tensor dx_branch =
      norm_.backward(dnormed, state.get(Save::attention_input), state.get(Save::attention_statistics));
  context_.rec.release(dnormed);
  state.drop(context_, Save::attention_statistics);
  state.drop(context_, Save::attention_input);
  for (const Save save : {Save::attention_scaled, Save::context_copy, Save::rotated}) {
    if (state.has(save)) state.drop(context_, save);
  }
  const Tensor dx = add(context_, dx_branch, dy, Term::gradient_of_input);
  context_.rec.release(dx_branch);
  return dx;
}

}  // namespace benchsuite
