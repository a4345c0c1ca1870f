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
          .stores_mask = context.stack.stores_dropout_masks,
          .dims = {x.shape[1], x.shape[2], x.shape[3], context.first_position(), 0, site},
          .scalars = {context.dropout}};
}

Tensor new_mask(ModelContext& context, const Tensor& x, Term term) {
  if (!context.stack.stores_dropout_masks) return {};
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
  context.rec.record(shape, {reads(dy), updates(bias.gradient)});
}

Tensor add(ModelContext& context, const Tensor& a, const Tensor& b, Term term) {
  const Tensor c = context.activation(term, a.shape[1], a.shape[3]);
  context.rec.record({.kind = OpKind::add, .dtype = a.dtype, .out_dtype = a.dtype, .dims = {a.elements()}},
                     {reads(a), reads(b), writes(c)});
  return c;
}

Tensor gelu_forward(ModelContext& context, const Tensor& x, const Parameter& bias, Term term) {
  const Tensor y = context.activation(term, x.shape[1], x.shape[3]);
  if (context.stack.fused_bias_gelu) {
    context.rec.record(matrix_shape(OpKind::bias_gelu, x), {reads(x), reads(bias.value), writes(y)});
  } else {
    context.rec.record(matrix_shape(OpKind::gelu, x), {reads(x), writes(y)});
  }
  return y;
}

Tensor gelu_backward(ModelContext& context, const Tensor& dy, const Tensor& x, const Parameter& bias) {
  const Tensor dx = context.activation(Term::gradient_inside, x.shape[1], x.shape[3]);
  if (context.stack.fused_bias_gelu) {
    context.rec.record(matrix_shape(OpKind::bias_gelu_backward, x),
                       {reads(dy), reads(x), reads(bias.value), writes(dx)});
  } else {
    context.rec.record(matrix_shape(OpKind::gelu_backward, x), {reads(dy), reads(x), writes(dx)});
  }
  return dx;
}

Dropped dropout_forward(ModelContext& context, const Tensor& x, std::int64_t site, Term output, Term mask_term) {
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
  const Tensor dx = context.activation(Term::gradient_inside, dy.shape[1], dy.shape[3]);
  context.rec.record(dropout_shape(context, OpKind::dropout_backward, dy, site),
                     {reads(dy), reads(mask.valid() ? mask : context.current_inputs().samples), writes(dx)});
  return dx;
}

Dropped bias_dropout_add(ModelContext& context, const Tensor& x, const Parameter& bias, const Tensor& residual,
                         std::int64_t site, Term output, Term mask_term) {
  if (context.stack.fused_bias_dropout_add) {
    const Tensor y = context.activation(output, x.shape[1], x.shape[3]);
    const Tensor mask = new_mask(context, x, mask_term);
    const OpShape shape = dropout_shape(context, OpKind::bias_dropout_add, x, site);
    const Tensor& samples = context.current_inputs().samples;
    if (mask.valid()) {
      context.rec.record(shape, {reads(x), reads(bias.value), reads(residual), reads(samples), writes(y), writes(mask)});
    } else {
      context.rec.record(shape, {reads(x), reads(bias.value), reads(residual), reads(samples), writes(y)});
    }
    context.rec.release(x);
    return {y, mask};
  }
  const Tensor biased = add_bias(context, x, bias, Term::bias_sum);
  const Dropped dropped = dropout_forward(context, biased, site, Term::transient, mask_term);
  context.rec.release(biased);
  const Tensor y = add(context, dropped.output, residual, output);
  context.rec.release(dropped.output);
  return {y, dropped.mask};
}

}  // namespace benchsuite
