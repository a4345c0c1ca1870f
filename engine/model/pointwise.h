// Bias, dropout, residual and activation function around the linears, fused or not as the stack says. Without dropout (p = 0)
// no dropout op is recorded and no mask is kept.
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

/// The activation function of the MLP: gelu(x + bias) where the stack fuses the two, gelu(x) where the caller has added the bias
/// (x stays as it is, to be kept); in a gated MLP silu(gate) up of x [., 2 f], whose columns are gate 0, up 0, gate 1, ...
Tensor activation_forward(ModelContext& context, const Tensor& x, const Parameter* bias, Term term);
Tensor activation_backward(ModelContext& context, const Tensor& dy, const Tensor& x, const Parameter* bias);

/// Dropout of [positions, b, width] rows at a site. `mask` is invalid when the stack regenerates masks. Without dropout the
/// output is x itself.
struct Dropped {
  Tensor output;
  Tensor mask;
};
Dropped dropout_forward(ModelContext& context, const Tensor& x, std::int64_t site, Term output, Term mask);
/// Gradient of any dropout; the mask (or the regenerated one) decides. Without dropout dy itself.
Tensor dropout_backward(ModelContext& context, const Tensor& dy, const Tensor& mask, std::int64_t site);

/// Releases `result` unless it is the same buffer as `x`.
void release_dropped(ModelContext& context, const Tensor& result, const Tensor& x);

/// residual + dropout(x + bias); releases x. `bias` may be null.
Dropped bias_dropout_add(ModelContext& context, const Tensor& x, const Parameter* bias, const Tensor& residual,
                         std::int64_t site, Term output, Term mask);

}  // namespace benchsuite
