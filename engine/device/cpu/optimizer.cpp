#include <algorithm>
#include <cmath>

#include "engine/core/exact_sum.h"
#include "engine/device/cpu/kernels.h"

namespace benchsuite::cpu {

void sum_squares(const KernelCall& call) {
  CHECK(call.operands.size() >= 2) << "sum_squares takes at least one input and the sum";
  const std::size_t inputs = call.operands.size() - 1;
  std::int64_t elements = 0;
  ExactSum sum;
  const double weight = call.scalar(0);
  for (std::size_t input = 0; input < inputs; ++input) {
    const std::int64_t count = call.elements(input, call.shape.dtype);
    const float* x = call.in(input, count);
    for (std::int64_t i = 0; i < count; ++i) sum.add(weight * static_cast<double>(x[i]) * x[i]);
    elements += count;
  }
  CHECK(elements == call.dim(0)) << "sum_squares: inputs have " << elements << " elements, not " << call.dim(0);
  sum.add_to({call.f32(inputs, kExactSumDigits), kExactSumDigits});
}

void clip_coefficient(const KernelCall& call) {
  call.expect_operands(2);
  const auto norm = static_cast<float>(std::sqrt(ExactSum::value_of({call.f32(0, kExactSumDigits), kExactSumDigits})));
  float* out = call.f32(1, 2);
  const float limit = call.scalar(0);
  out[0] = norm;
  // Compared so that a norm that is not a number gives a coefficient that is not: it must show.
  const float coefficient = limit / (norm + 1e-6f);
  out[1] = limit == 0 || coefficient > 1.0f ? 1.0f : coefficient;
}

// AdamW (Loshchilov and Hutter 2019, algorithm 2) with bias correction; the decay is decoupled and scaled by lr.
void adamw(const KernelCall& call) {
  const bool writes_parameters = call.operands.size() == 7;
  call.expect_operands(writes_parameters ? 7 : 6);
  const std::int64_t n = call.dim(0);
  const float* gradient = call.in(0, n);
  const float* scalars = call.f32(1, 5);  // lr, beta1, beta2, eps, step (from 1)
  const float clip = call.f32(2, 2)[1];   // norm, coefficient
  float* master = call.f32(3, n);
  float* first = call.f32(4, n);
  float* second = call.f32(5, n);
  float* parameters = writes_parameters ? call.out(6, n) : nullptr;

  const double lr = scalars[0], beta1 = scalars[1], beta2 = scalars[2], step = scalars[4];
  const float eps = scalars[3], decay = static_cast<float>(lr * call.scalar(0));
  CHECK(step >= 1) << "Adam's step count starts at 1, not " << step;
  const auto b1 = static_cast<float>(beta1), b2 = static_cast<float>(beta2);
  const auto rate = static_cast<float>(lr / (1.0 - std::pow(beta1, step)));
  const auto correction = static_cast<float>(1.0 / std::sqrt(1.0 - std::pow(beta2, step)));
  for (std::int64_t i = 0; i < n; ++i) {
    const float g = gradient[i] * clip;
    first[i] = b1 * first[i] + (1.0f - b1) * g;
    second[i] = b2 * second[i] + (1.0f - b2) * g * g;
    const float before = master[i];
    master[i] = before - decay * before - rate * first[i] / (std::sqrt(second[i]) * correction + eps);
    if (parameters) parameters[i] = master[i];
  }
}

}  // namespace benchsuite::cpu
