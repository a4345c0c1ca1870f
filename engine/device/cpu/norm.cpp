// LayerNorm (Ba et al. 2016), RMSNorm (Zhang and Sennrich 2019) and the softmax of attention scores, each forward beside backward.
#include <algorithm>
#include <cmath>

#include "engine/device/cpu/kernels.h"

namespace benchsuite::cpu {

void layernorm(const KernelCall& call) {
  call.expect_operands(5);
  const std::int64_t rows = call.dim(0), cols = call.dim(1);
  const float* x = call.in(0, rows * cols);
  const float* gamma = call.in(1, cols);
  const float* beta = call.in(2, cols);
  float* y = call.out(3, rows * cols);
  float* stats = call.f32(4, rows * 2);  // mean, 1/sigma
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* in = x + row * cols;
    double sum = 0, squares = 0;
    for (std::int64_t i = 0; i < cols; ++i) sum += in[i];
    const double mean = sum / static_cast<double>(cols);
    for (std::int64_t i = 0; i < cols; ++i) squares += (in[i] - mean) * (in[i] - mean);
    const double variance = squares / static_cast<double>(cols);
    const auto center = static_cast<float>(mean);
    const auto inverse = static_cast<float>(1.0 / std::sqrt(variance + static_cast<double>(call.scalar(0))));
    stats[2 * row] = center;
    stats[2 * row + 1] = inverse;
    for (std::int64_t i = 0; i < cols; ++i) y[row * cols + i] = (in[i] - center) * inverse * gamma[i] + beta[i];
  }
}

// With n = (x - mean) / sigma and g = dy gamma: dx = (g - mean(g) - n mean(g n)) / sigma.
void layernorm_backward(const KernelCall& call) {
  call.expect_operands(7);
  const std::int64_t rows = call.dim(0), cols = call.dim(1);
  const float* dy = call.in(0, rows * cols);
  const float* x = call.in(1, rows * cols);
  const float* gamma = call.in(2, cols);
  const float* stats = call.f32(3, rows * 2);
  float* dx = call.out(4, rows * cols);
  float* dgamma = call.accumulator(5, cols);
  float* dbeta = call.accumulator(6, cols);
  double* gamma_sum = call.staging.sums(cols);
  double* beta_sum = call.staging.sums(cols);
  for (std::int64_t row = 0; row < rows; ++row) {
    const float mean = stats[2 * row], inverse = stats[2 * row + 1];
    const float* in = x + row * cols;
    const float* gradient = dy + row * cols;
    double sum = 0, dot = 0;
    for (std::int64_t i = 0; i < cols; ++i) {
      const double normal = static_cast<double>(in[i] - mean) * inverse;
      const double g = static_cast<double>(gradient[i]) * gamma[i];
      sum += g;
      dot += g * normal;
      gamma_sum[i] += gradient[i] * normal;
      beta_sum[i] += gradient[i];
    }
    const auto mean_g = static_cast<float>(sum / static_cast<double>(cols));
    const auto mean_gn = static_cast<float>(dot / static_cast<double>(cols));
    for (std::int64_t i = 0; i < cols; ++i) {
      const float normal = (in[i] - mean) * inverse;
      dx[row * cols + i] = (gradient[i] * gamma[i] - mean_g - normal * mean_gn) * inverse;
    }
  }
  for (std::int64_t i = 0; i < cols; ++i) {
    dgamma[i] += static_cast<float>(gamma_sum[i]);
    dbeta[i] += static_cast<float>(beta_sum[i]);
  }
}

void rmsnorm(const KernelCall& call) {
  call.expect_operands(4);
  const std::int64_t rows = call.dim(0), cols = call.dim(1);
  const float* x = call.in(0, rows * cols);
  const float* gamma = call.in(1, cols);
  float* y = call.out(2, rows * cols);
  float* stats = call.f32(3, rows);  // 1/rms
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* in = x + row * cols;
    double squares = 0;
    for (std::int64_t i = 0; i < cols; ++i) squares += static_cast<double>(in[i]) * in[i];
    const double mean = squares / static_cast<double>(cols);
    const auto inverse = static_cast<float>(1.0 / std::sqrt(mean + static_cast<double>(call.scalar(0))));
    stats[row] = inverse;
    for (std::int64_t i = 0; i < cols; ++i) y[row * cols + i] = in[i] * inverse * gamma[i];
  }
}

// With n = x / rms and g = dy gamma: dx = (g - n mean(g n)) / rms.
void rmsnorm_backward(const KernelCall& call) {
  call.expect_operands(6);
  const std::int64_t rows = call.dim(0), cols = call.dim(1);
  const float* dy = call.in(0, rows * cols);
  const float* x = call.in(1, rows * cols);
  const float* gamma = call.in(2, cols);
  const float* stats = call.f32(3, rows);
  float* dx = call.out(4, rows * cols);
  float* dgamma = call.accumulator(5, cols);
  double* gamma_sum = call.staging.sums(cols);
  for (std::int64_t row = 0; row < rows; ++row) {
    const float inverse = stats[row];
    const float* in = x + row * cols;
    const float* gradient = dy + row * cols;
    double dot = 0;
    for (std::int64_t i = 0; i < cols; ++i) {
      const double normal = static_cast<double>(in[i]) * inverse;
      dot += static_cast<double>(gradient[i]) * gamma[i] * normal;
      gamma_sum[i] += gradient[i] * normal;
    }
    const auto mean_gn = static_cast<float>(dot / static_cast<double>(cols));
    for (std::int64_t i = 0; i < cols; ++i) {
      const float normal = in[i] * inverse;
      dx[row * cols + i] = (gradient[i] * gamma[i] - normal * mean_gn) * inverse;
    }
  }
  for (std::int64_t i = 0; i < cols; ++i) dgamma[i] += static_cast<float>(gamma_sum[i]);
}

void softmax(const KernelCall& call) {
  call.expect_operands(2);
  const std::int64_t rows = call.dim(0), cols = call.dim(1);
  const float* scores = call.in(0, rows * cols);
  float* p = call.out(1, rows * cols);
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t kept = call.shape.causal ? row % cols + 1 : cols;
    const float* in = scores + row * cols;
    float* out = p + row * cols;
    const float maximum = *std::max_element(in, in + kept);
    double sum = 0;
    for (std::int64_t i = 0; i < kept; ++i) {
      out[i] = std::exp(in[i] - maximum);
      sum += out[i];
    }
    const auto inverse = static_cast<float>(1.0 / sum);
    for (std::int64_t i = 0; i < kept; ++i) out[i] *= inverse;
    std::fill(out + kept, out + cols, 0.0f);
  }
}

// dS = P (dP - rowsum(P dP))
void softmax_backward(const KernelCall& call) {
  call.expect_operands(3);
  const std::int64_t rows = call.dim(0), cols = call.dim(1);
  const float* dp = call.in(0, rows * cols);
  const float* p = call.in(1, rows * cols);
  float* ds = call.out(2, rows * cols);
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t kept = call.shape.causal ? row % cols + 1 : cols;
    const std::int64_t at = row * cols;
    double dot = 0;
    for (std::int64_t i = 0; i < kept; ++i) dot += static_cast<double>(p[at + i]) * dp[at + i];
    const auto row_dot = static_cast<float>(dot);
    for (std::int64_t i = 0; i < kept; ++i) ds[at + i] = p[at + i] * (dp[at + i] - row_dot);
    std::fill(ds + at + kept, ds + at + cols, 0.0f);
  }
}

}  // namespace benchsuite::cpu
