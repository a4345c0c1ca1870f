#include "engine/model/pointwise.h"

#include "engine/device/op_table.h"

namespace benchsuite {

namespace {

std::int64_t rows_of(const Tensor& x) { return x.shape[1] * x.shape[2]; }

OpShape matrix_shape(OpKind kind, const Tensor& x) {
  return {.kind = kind, .dtype = x.dtype, .out_dtype = x.dtype, .dims = {rows_of(x), x.shape[3]}};
}

OpShape dropout_shape(const ModelContext& context, OpKind kind, const Tensor& x, std::int64_t site) {
  return {.kind = kind,
          .dtype = x.dtype,
          .out_dtype = x.dtype,
          .stores_mask = context.stores_masks(),
          .dims = {x.shape[1], x.shape[2], x.shape[3], context.first_position(), 0, site},
          .scalars = {context.dropout}};
}

Tensor new_mask(ModelContext& context, const Tensor& x, Term term) {
  if (!context.stores_masks()) return {};
  return context.rec.allocate(Purpose::activations, index_of(term), DType::uint8, x.shape);
}

}  // namespace

Tensor add_bias(ModelContext& context, const Tensor& x, const Parameter& bias, Term term) {
  const Tensor y = context.activation(term, x.shape[1], x.shape[3]);
  context.rec.record(matrix_shape(OpKind::bias_add, x), {reads(x), reads(bias.value), writes(y)});
  context.rec.release(x);
  return y;
}

void bias_gradient(ModelContext& context, const Tensor& dy, const Parameter& bias) {
  OpShape shape = matrix_shape(OpKind::bias_gradient, dy);
  shape.out_dtype = bias.gradient.dtype;
  shape.extra_kernels = context.vector_additions(1);
  context.rec.record(shape, {reads(dy), updates(bias.gradient)});
}

Tensor add(ModelContext& context, const Tensor& a, const Tensor& b, Term term) {
  const Tensor c = context.activation(term, a.shape[1], a.shape[3]);
  context.rec.record({.kind = OpKind::add, .dtype = a.dtype, .out_dtype = a.dtype, .dims = {a.elements()}},
                     {reads(a), reads(b), writes(c)});
  return c;
}

namespace {

/// Rows and columns of what comes out of the activation function of x.
OpShape activation_shape(const ModelContext& context, OpKind kind, const Tensor& x) {
  OpShape shape = matrix_shape(kind, x);
  if (context.model.gated_mlp()) {
    shape.dims[1] = div_exact<std::int64_t>(x.shape[3], 2);
    shape.eager = !context.stack.fused_swiglu;
  }
  return shape;
}

}  // namespace

Tensor activation_forward(ModelContext& context, const Tensor& x, const Parameter* bias, Term term) {
  const bool gated = context.model.gated_mlp(), fused = !gated && context.stack.fused_bias_gelu;
  const OpShape shape =
      activation_shape(context, gated ? OpKind::swiglu : fused ? OpKind::bias_gelu : OpKind::gelu, x);
  const Tensor y = context.activation(term, x.shape[1], shape.dims[1]);
  if (fused) {
    context.rec.record(shape, {reads(x), reads(bias->value), writes(y)});
  } else {
    context.rec.record(shape, {reads(x), writes(y)});
  }
  return y;
}

Tensor activation_backward(ModelContext& context, const Tensor& dy, const Tensor& x, const Parameter* bias) {
  const bool gated = context.model.gated_mlp(), fused = !gated && context.stack.fused_bias_gelu;
  const OpShape shape = activation_shape(
      context, gated ? OpKind::swiglu_backward : fused ? OpKind::bias_gelu_backward : OpKind::gelu_backward, x);
  const Tensor dx = context.activation(Term::gradient_inside, x.shape[1], x.shape[3]);
  if (fused) {
    context.rec.record(shape, {reads(dy), reads(x), reads(bias->value), writes(dx)});
  } else {
    context.rec.record(shape, {reads(dy), reads(x), writes(dx)});
  }
  return dx;
}

Dropped dropout_forward(ModelContext& context, const Tensor& x, std::int64_t site, Term output, Term mask_term) {
  if (!context.drops()) return {x, {}};
  const Tensor y = context.activation(output, x.shape[1], x.shape[3]);
  const Tensor mask = new_mask(context, x, mask_term);
  const OpShape shape = dropout_shape(context, OpKind::dropout, x, site);
  const Tensor& samples = context.current_inputs().samples;
  if (mask.valid()) {
    context.rec.record(shape, {reads(x), reads(samples), writes(y), writes(mask)});
  } else {
    context.rec.record(shape, {reads(x), reads(samples), writes(y)});
  }
  return {y, mask};
}

Tensor dropout_backward(ModelContext& context, const Tensor& dy, const Tensor& mask, std::int64_t site) {
  if (!context.drops()) return dy;
  const Tensor dx = context.activation(Term::gradient_inside, dy.shape[1], dy.shape[3]);
  context.rec.record(dropout_shape(context, OpKind::dropout_backward, dy, site),
                     {reads(dy), reads(mask.valid() ? mask : context.current_inputs().samples), writes(dx)});
  return dx;
}

void release_dropped(ModelContext& context, const Tensor& result, const Tensor& x) {
  if (result.buffer != x.buffer) context.rec.release(result);
}

Dropped bias_dropout_add(ModelContext& context, const Tensor& x, const Parameter* bias, const Tensor& residual,
                         std::int64_t site, Term output, Term mask_term) {
  if (context.stack.fused_bias_dropout_add && bias) {
    const Tensor y = context.activation(output, x.shape[1], x.shape[3]);
    const Tensor mask = new_mask(context, x, mask_term);
    const OpShape shape = dropout_shape(context, OpKind::bias_dropout_add, x, site);
    const Tensor& samples = context.current_inputs().samples;
    if (mask.valid()) {
      context.rec.record(shape, {reads(x), reads(bias->value), reads(residual), reads(samples), writes(y), writes(mask)});
    } else {
      context.rec.record(shape, {reads(x), reads(bias->value), reads(residual), reads(samples), writes(y)});
    }
    context.rec.release(x);
    return {y, mask};
  }
  const Tensor biased = bias ? add_bias(context, x, *bias, Term::bias_sum) : x;
  const Dropped dropped = dropout_forward(context, biased, site, Term::transient, mask_term);
  release_dropped(context, biased, dropped.output);
  const Tensor y = add(context, dropped.output, residual, output);
  context.rec.release(dropped.output);
  return {y, dropped.mask};
}

}  // namespace benchsuite
