#include "engine/parallel/operand_cast.h"

namespace benchsuite {

namespace {

Tensor copy_like(ParallelContext& context, const Tensor& x, std::uint32_t term) {
  return context.rec.allocate(Purpose::activations, term, DType::fp8, x.shape);
}

OpShape cast_shape(const ParallelContext& context, const Tensor& x, std::int64_t copies) {
  const bool measures = context.stack.fp8_scaling == Fp8Scaling::current;
  return {.kind = OpKind::cast,
          .dtype = x.dtype,
          .out_dtype = DType::fp8,
          .extra_kernels = measures ? std::uint8_t{1} : std::uint8_t{0},
          .dims = {x.elements(), 0, copies, measures ? 1 : 0}};
}

}  // namespace

DType operand_type(const ParallelContext& context) {
  const Site site = context.rec.at().site;
  const bool in_layer = site == Site::attention || site == Site::mlp;
  return context.layout.precision == DType::fp8 && in_layer ? DType::fp8 : context.dtype;
}

DType norm_output_type(const ParallelContext& context) {
  return context.stack.fp8_scaling == Fp8Scaling::delayed ? operand_type(context) : context.dtype;
}

Tensor cast_operand(ParallelContext& context, const Tensor& x, std::uint32_t term) {
  if (operand_type(context) == x.dtype) return x;
  const Tensor copy = copy_like(context, x, term);
  context.rec.record(cast_shape(context, x, 1), {reads(x), writes(copy)});
  return copy;
}

Operand8 cast_both_ways(ParallelContext& context, const Tensor& x, std::uint32_t term) {
  if (operand_type(context) == x.dtype) return {x, x};
  if (!context.stack.transposes_fp8) {
    const Tensor copy = cast_operand(context, x, term);
    return {copy, copy};
  }
  const Operand8 copies{copy_like(context, x, term), copy_like(context, x, term)};
  context.rec.record(cast_shape(context, x, 2), {reads(x), writes(copies.rows), writes(copies.transposed)});
  return copies;
}

Tensor transposed_operand(ParallelContext& context, const Tensor& x, std::uint32_t term) {
  if (x.dtype != DType::fp8 || !context.stack.transposes_fp8) return x;
  const Tensor copy = copy_like(context, x, term);
  context.rec.record({.kind = OpKind::cast, .dtype = x.dtype, .out_dtype = x.dtype, .dims = {x.elements()}},
                     {reads(x), writes(copy)});
  return copy;
}

void release_operand(ParallelContext& context, const Operand8& operand, const Tensor& x) {
  if (operand.transposed.buffer != operand.rows.buffer) context.rec.release(operand.transposed);
  if (operand.rows.buffer != x.buffer) context.rec.release(operand.rows);
}

}  // namespace benchsuite
