#include "engine/model/norm.h"

namespace benchsuite {

namespace {
constexpr float kEpsilon = 1e-5f;
}

LayerNorm::Result LayerNorm::forward(const Tensor& x, Term output, Term statistics) {
  const std::int64_t rows = x.shape[1] * x.shape[2];
  const Result result{
      context_.activation(output, x.shape[1], x.shape[3]),
      context_.rec.allocate(Purpose::activations, index_of(statistics), DType::fp32, {1, 1, rows, 2})};
  context_.rec.record({.kind = OpKind::layernorm,
                       .dtype = x.dtype,
                       .out_dtype = x.dtype,
                       .dims = {rows, x.shape[3]},
                       .scalars = {kEpsilon}},
                      {reads(x), reads(gamma_.value), reads(beta_.value), writes(result.output),
                       writes(result.statistics)});
  return result;
}

Tensor LayerNorm::backward(const Tensor& dy, const Tensor& x, const Tensor& statistics) {
  const Tensor dx = context_.activation(Term::gradient_inside, x.shape[1], x.shape[3]);
  context_.rec.record({.kind = OpKind::layernorm_backward,
                       .dtype = x.dtype,
                       .out_dtype = x.dtype,
                       .dims = {x.shape[1] * x.shape[2], x.shape[3]},
                       .scalars = {kEpsilon}},
                      {reads(dy), reads(x), reads(gamma_.value), reads(statistics), writes(dx),
                       updates(gamma_.gradient), updates(beta_.gradient)});
  return dx;
}

}  // namespace benchsuite
