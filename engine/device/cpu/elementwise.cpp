#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "engine/device/cpu/kernels.h"

namespace benchsuite::cpu {
namespace {

// GELU in the tanh form with the constants of Megatron-LM's fused_bias_gelu: sqrt(2 / pi) to eight digits.
constexpr float kSlope = 0.79788456f;
constexpr float kCubic = 0.044715f;

float gelu_of(float x) { return 0.5f * x * (1.0f + std::tanh(kSlope * x * (1.0f + kCubic * x * x))); }

float gelu_slope(float x) {
  const float t = std::tanh(kSlope * x * (1.0f + kCubic * x * x));
  return 0.5f * x * (1.0f - t * t) * kSlope * (1.0f + 3.0f * kCubic * x * x) + 0.5f * (1.0f + t);
}

float sigmoid(float x) { return 1.0f / (1.0f + std::exp(-x)); }

}  // namespace

void bias_add(const KernelCall& call) {
  call.expect_operands(3);
  const std::int64_t rows = call.dim(0), cols = call.dim(1);
  const float* x = call.in(0, rows * cols);
  const float* bias = call.in(1, cols);
  float* y = call.out(2, rows * cols);
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t i = 0; i < cols; ++i) y[row * cols + i] = x[row * cols + i] + bias[i];
  }
}

void bias_gradient(const KernelCall& call) {
  call.expect_operands(2);
  const std::int64_t rows = call.dim(0), cols = call.dim(1);
  const float* dy = call.in(0, rows * cols);
  float* dbias = call.inout(1, cols);
  double* sums = call.staging.sums(cols);
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t i = 0; i < cols; ++i) sums[i] += dy[row * cols + i];
  }
  for (std::int64_t i = 0; i < cols; ++i) dbias[i] += static_cast<float>(sums[i]);
}

void gelu(const KernelCall& call) {
  call.expect_operands(2);
  const std::int64_t n = call.dim(0) * call.dim(1);
  const float* x = call.in(0, n);
  float* y = call.out(1, n);
  for (std::int64_t i = 0; i < n; ++i) y[i] = gelu_of(x[i]);
}

void gelu_backward(const KernelCall& call) {
  call.expect_operands(3);
  const std::int64_t n = call.dim(0) * call.dim(1);
  const float* dy = call.in(0, n);
  const float* x = call.in(1, n);
  float* dx = call.out(2, n);
  for (std::int64_t i = 0; i < n; ++i) dx[i] = dy[i] * gelu_slope(x[i]);
}

void bias_gelu(const KernelCall& call) {
  call.expect_operands(3);
  const std::int64_t rows = call.dim(0), cols = call.dim(1);
  const float* x = call.in(0, rows * cols);
  const float* bias = call.in(1, cols);
  float* y = call.out(2, rows * cols);
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t i = 0; i < cols; ++i) y[row * cols + i] = gelu_of(x[row * cols + i] + bias[i]);
  }
}

void bias_gelu_backward(const KernelCall& call) {
  call.expect_operands(4);
  const std::int64_t rows = call.dim(0), cols = call.dim(1);
  const float* dy = call.in(0, rows * cols);
  const float* x = call.in(1, rows * cols);
  const float* bias = call.in(2, cols);
  float* dx = call.out(3, rows * cols);
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t i = 0; i < cols; ++i) {
      dx[row * cols + i] = dy[row * cols + i] * gelu_slope(x[row * cols + i] + bias[i]);
    }
  }
}

// SwiGLU (Shazeer 2020): silu(gate) up, gate and up side by side.
void swiglu(const KernelCall& call) {
  call.expect_operands(2);
  const std::int64_t n = call.dim(0) * call.dim(1);
  const float* x = call.in(0, 2 * n);
  float* y = call.out(1, n);
  for (std::int64_t i = 0; i < n; ++i) y[i] = x[2 * i] * sigmoid(x[2 * i]) * x[2 * i + 1];
}

void swiglu_backward(const KernelCall& call) {
  call.expect_operands(3);
  const std::int64_t n = call.dim(0) * call.dim(1);
  const float* dy = call.in(0, n);
  const float* x = call.in(1, 2 * n);
  float* dx = call.out(2, 2 * n);
  for (std::int64_t i = 0; i < n; ++i) {
    const float gate = x[2 * i], up = x[2 * i + 1], s = sigmoid(gate), gradient = dy[i];
    dx[2 * i] = gradient * up * s * (1.0f + gate * (1.0f - s));
    dx[2 * i + 1] = gradient * gate * s;
  }
}

void add(const KernelCall& call) {
  call.expect_operands(3);
  const std::int64_t n = call.dim(0);
  const float* a = call.in(0, n);
  const float* b = call.in(1, n);
  float* y = call.out(2, n);
  for (std::int64_t i = 0; i < n; ++i) y[i] = a[i] + b[i];
}

void accumulate(const KernelCall& call) {
  call.expect_operands(2);
  const std::int64_t n = call.dim(0);
  const float* x = call.in(0, n);
  float* y = call.inout(1, n);
  for (std::int64_t i = 0; i < n; ++i) y[i] += x[i];
}

void sum_pieces(const KernelCall& call) {
  call.expect_operands(2);
  const std::int64_t n = call.dim(0), pieces = call.dim(1);
  const float* x = call.in(0, n * pieces);
  float* y = call.out(1, n);
  std::copy_n(x, n, y);
  for (std::int64_t piece = 1; piece < pieces; ++piece) {
    for (std::int64_t i = 0; i < n; ++i) y[i] += x[piece * n + i];
  }
}

void cast(const KernelCall& call) {
  call.expect_operands(2);
  const std::int64_t n = call.dim(0);
  const float* x = call.in(0, n);
  float* y = call.out(1, n);
  std::memmove(y, x, static_cast<std::size_t>(n) * sizeof(float));
}

void fill(const KernelCall& call) {
  call.expect_operands(1);
  std::fill_n(call.out(0, call.dim(0)), call.dim(0), call.scalar(0));
}

void pack(const KernelCall& call) {
  CHECK(call.operands.size() >= 2) << "pack takes at least one input and an output";
  const std::size_t inputs = call.operands.size() - 1;
  float* y = call.out(inputs, call.dim(0));
  std::int64_t at = 0;
  for (std::size_t input = 0; input < inputs; ++input) {
    const std::int64_t count = call.elements(input, call.shape.dtype);
    CHECK(at + count <= call.dim(0)) << "pack: inputs exceed " << call.dim(0) << " elements";
    std::copy_n(call.in(input, count), count, y + at);
    at += count;
  }
  CHECK(at == call.dim(0)) << "pack: inputs have " << at << " elements, the output " << call.dim(0);
}

void unpack(const KernelCall& call) {
  CHECK(call.operands.size() >= 2) << "unpack takes an input and at least one output";
  const float* x = call.in(0, call.dim(0));
  std::int64_t at = 0;
  for (std::size_t output = 1; output < call.operands.size(); ++output) {
    const std::int64_t count = call.elements(output, call.shape.out_dtype);
    CHECK(at + count <= call.dim(0)) << "unpack: outputs exceed " << call.dim(0) << " elements";
    std::copy_n(x + at, count, call.out(output, count));
    at += count;
  }
  CHECK(at == call.dim(0)) << "unpack: outputs have " << at << " elements, the input " << call.dim(0);
}

}  // namespace benchsuite::cpu
