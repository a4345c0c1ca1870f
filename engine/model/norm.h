// LayerNorm or RMSNorm over the hidden dimension of [s/t | s, b, h].
#pragma once

#include "engine/model/model_context.h"
#include "engine/parallel/parameter.h"

namespace benchsuite {

class Norm {
 public:
  /// `beta` is null for RMSNorm.
  Norm(ModelContext& context, Parameter& gamma, Parameter* beta) : context_(context), gamma_(gamma), beta_(beta) {}

  /// Elements that a chain of elementary operations (Stack::fused_norm) keeps for its backward beside x: the norm before gamma, and
  /// x in fp32, which takes the place of x.
  std::int64_t kept_elements(const Tensor& x) const { return elementary() ? x.elements() * size_of(DType::fp32) / size_of(x.dtype) : 0; }

  struct Result {
    Tensor output;      // like x
    Tensor statistics;  // [positions b, 2] fp32: mean, 1/sigma; RMSNorm [positions b]: 1/rms
  };
  /// The output is what a column-parallel linear takes: whole where the stack keeps it so.
  Result forward(const Tensor& x, Term output, Term statistics);

  /// dx; accumulates the gradients of gamma and beta (partial sums under sequence parallelism).
  Tensor backward(const Tensor& dy, const Tensor& x, const Tensor& statistics);

 private:
  bool elementary() const { return !beta_ && !context_.stack.fused_norm; }
  OpShape shape(OpKind kind, const Tensor& x) const;

  ModelContext& context_;
  Parameter& gamma_;
  Parameter* beta_;
};

}  // namespace benchsuite
