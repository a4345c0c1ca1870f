#include "engine/model/norm.h"

#include "engine/parallel/operand_cast.h"
#include "engine/parallel/tensor_region.h"

namespace benchsuite {

namespace {
constexpr float kEpsilon = 1e-5f;
}

OpShape Norm::shape(OpKind kind, const Tensor& x) const {
  return {.kind = kind,
          .dtype = x.dtype,
          .out_dtype = x.dtype,
          .eager = elementary(),
          .extra_kernels = kind == OpKind::layernorm_backward  ? context_.vector_additions(2)
                           : kind == OpKind::rmsnorm_backward ? context_.vector_additions(1)
                                                              : std::uint8_t{0},
          .dims = {x.shape[1] * x.shape[2], x.shape[3]},
          .scalars = {kEpsilon}};
}

Norm::Result Norm::forward(const Tensor& x, Term output, Term statistics) {
  const std::int64_t rows = x.shape[1] * x.shape[2];
  const DType type = norm_output_type(context_);
  Result result{
      context_.rec.allocate(Purpose::activations, index_of(output), type, {1, x.shape[1], x.shape[2], x.shape[3]}),
      context_.rec.allocate(Purpose::activations, index_of(statistics), DType::fp32, {1, 1, rows, beta_ ? 2 : 1})};
  OpShape norm = shape(beta_ ? OpKind::layernorm : OpKind::rmsnorm, x);
  norm.out_dtype = type;
  const auto launch = context_.rec.launch_together(type != operand_type(context_));
  if (beta_) {
    context_.rec.record(norm, {reads(x), reads(gamma_.value), reads(beta_->value), writes(result.output),
                               writes(result.statistics)});
  } else {
    context_.rec.record(norm, {reads(x), reads(gamma_.value), writes(result.output), writes(result.statistics)});
  }
  const Tensor operand = cast_operand(context_, result.output, index_of(output));
  release_entered(context_, result.output, operand);
  result.output = linear_input(context_, operand, index_of(output));
  return result;
}

Tensor Norm::backward(const Tensor& dy, const Tensor& x, const Tensor& statistics) {
  const Tensor dx = context_.activation(Term::gradient_inside, x.shape[1], x.shape[3]);
  if (beta_) {
    context_.rec.record(shape(OpKind::layernorm_backward, x),
                        {reads(dy), reads(x), reads(gamma_.value), reads(statistics), writes(dx),
                         updates(gamma_.gradient), updates(beta_->gradient)});
  } else {
    context_.rec.record(shape(OpKind::rmsnorm_backward, x), {reads(dy), reads(x), reads(gamma_.value), reads(statistics),
                                                             writes(dx), updates(gamma_.gradient)});
  }
  return dx;
}

}  // namespace benchsuite
