// Bias, dropout, residual and GELU around the linears, fused or not as the stack says.
#pragma once

#include "engine/model/model_context.h"
#include "engine/parallel/parameter.h"

namespace benchsuite {

/// y = x + bias; releases x.
Tensor add_bias(ModelContext& context, const Tensor& x, const Parameter& bias, Term term);

/// dbias += column sums of dy.
void bias_gradient(ModelContext& context, const Tensor& dy, const Parameter& bias);

/// c = a + b; releases neither.
Tensor add(ModelContext& context, const Tensor& a, const Tensor& b, Term term);

/// gelu(x + bias). Fused: x stays as it is, to be kept. Unfused: the caller adds the bias first and passes no bias.
Tensor gelu_forward(ModelContext& context, const Tensor& x, const Parameter& bias, Term term);
Tensor gelu_backward(ModelContext& context, const Tensor& dy, const Tensor& x, const Parameter& bias);

/// Dropout of [positions, b, width] rows at a site. `mask` is invalid when the stack regenerates masks.
struct Dropped {
  Tensor output;
  Tensor mask;
};
Dropped dropout_forward(ModelContext& context, const Tensor& x, std::int64_t site, Term output, Term mask);
/// Gradient of any dropout; the mask (or the regenerated one) decides.
Tensor dropout_backward(ModelContext& context, const Tensor& dy, const Tensor& mask, std::int64_t site);

/// residual + dropout(x + bias); releases x.
Dropped bias_dropout_add(ModelContext& context, const Tensor& x, const Parameter& bias, const Tensor& residual,
                         std::int64_t site, Term output, Term mask);

}  // namespace benchsuite
