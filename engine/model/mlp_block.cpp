#include "engine/model/mlp_block.h"

#include "engine/device/op_table.h"
#include "engine/model/pointwise.h"

namespace benchsuite {

namespace {
constexpr LinearTerms kTerms{index_of(Term::gathered), index_of(Term::transient), index_of(Term::reduced),
                             index_of(Term::operand), index_of(Term::weight_gradient)};
}

MlpBlock::MlpBlock(ModelContext& context, const MlpParameters& parameters)
    : context_(context),
      parameters_(parameters),
      norm_(context, *parameters.norm_gamma, parameters.norm_beta),
      fc1_(context, *parameters.fc1_weight, kTerms, runs_in_tiles(context),
           context.stack.separate_gate_linear && context.model.gated_mlp() ? 2 : 1),
      fc2_(context, *parameters.fc2_weight, kTerms, runs_in_tiles(context)) {}

/// FC1, activation function, FC2: what the `mlp` module of selective recompute runs again, collectives included.
Tensor MlpBlock::inner_forward(const Tensor& normed, LayerState& state) {
  Tensor hidden = fc1_.forward(normed);
  if (parameters_.fc1_bias && !context_.stack.fused_bias_gelu) {
    hidden = add_bias(context_, hidden, *parameters_.fc1_bias, Term::fc1_output);
  }
  const Tensor activated = activation_forward(context_, hidden, parameters_.fc1_bias, Term::gelu_output);
  state.finish(context_, Save::fc1_output, hidden);
  const auto [out, kept] = fc2_.forward(activated);
  release_dropped(context_, activated, kept);
  state.finish(context_, Save::gelu_output, kept);
  return out;
}

Tensor MlpBlock::forward(const Tensor& x, LayerState& state) {
  context_.rec.at().site = Site::mlp;
  const auto [normed, statistics] = norm_.forward(x, Term::mlp_norm, Term::mlp_statistics);
  state.finish(context_, Save::mlp_statistics, statistics);
  const Tensor out = inner_forward(normed, state);
  state.finish(context_, Save::mlp_norm, normed);
  const auto [y, mask] = bias_dropout_add(context_, out, parameters_.fc2_bias, x, kMlpOutputDropout,
                                          Term::layer_output, Term::mlp_output_mask);
  if (mask.valid()) state.finish(context_, Save::mlp_output_mask, mask);
  keep_beside(context_, norm_.kept_elements(x), Save::mlp_scaled, state);
  if (context_.model.gated_mlp() && !context_.stack.fused_swiglu) {
    keep_beside(context_, context_.s * context_.b * parameters_.fc2_weight->columns, Save::silu_output, state);
  }
  state.finish(context_, Save::mlp_input, x);
  return y;
}

void MlpBlock::recompute(LayerState& state) {
  context_.rec.at().phase = Phase::recompute;
  if (!state.keeps(Save::mlp_norm)) {
    const auto again = norm_.forward(state.get(Save::mlp_input), Term::mlp_norm, Term::mlp_statistics);
    context_.rec.release(again.statistics);
    state.put(Save::mlp_norm, again.output);
  }
  if (!state.keeps(Save::fc1_output)) {
    LayerState again(SaveSet::all());
    const Tensor out = inner_forward(state.get(Save::mlp_norm), again);
    context_.rec.release(out);
    state.put(Save::fc1_output, again.get(Save::fc1_output));
    state.put(Save::gelu_output, again.get(Save::gelu_output));
  }
  context_.rec.at().phase = Phase::backward;
}

Tensor MlpBlock::backward(const Tensor& dy, LayerState& state) {
  context_.rec.at().site = Site::mlp;
  const Tensor mask = state.has(Save::mlp_output_mask) ? state.get(Save::mlp_output_mask) : Tensor{};
  const Tensor dout = dropout_backward(context_, dy, mask, kMlpOutputDropout);
  if (mask.valid()) state.drop(context_, Save::mlp_output_mask);
  if (parameters_.fc2_bias) bias_gradient(context_, dout, *parameters_.fc2_bias);

  recompute(state);
  const Tensor dactivated = fc2_.backward(dout, state.get(Save::gelu_output));
  release_dropped(context_, dout, dy);
  state.drop(context_, Save::gelu_output);
  const Tensor dhidden =
      activation_backward(context_, dactivated, state.get(Save::fc1_output), parameters_.fc1_bias);
  context_.rec.release(dactivated);
  state.drop(context_, Save::fc1_output);
  if (parameters_.fc1_bias) bias_gradient(context_, dhidden, *parameters_.fc1_bias);
  const Tensor dnormed = fc1_.backward(dhidden, state.get(Save::mlp_norm));
  context_.rec.release(dhidden);
  state.drop(context_, Save::mlp_norm);

  const Tensor dx_branch = norm_.backward(dnormed, state.get(Save::mlp_input), state.get(Save::mlp_statistics));
  context_.rec.release(dnormed);
  state.drop(context_, Save::mlp_statistics);
  state.drop(context_, Save::mlp_input);
  for (const Save save : {Save::mlp_scaled, Save::silu_output}) {
    if (state.has(save)) state.drop(context_, save);
  }
  const Tensor dx = add(context_, dx_branch, dy, Term::gradient_of_input);
  context_.rec.release(dx_branch);
  return dx;
}

}  // namespace benchsuite
