// Vocabulary-parallel cross-entropy (Shoeybi et al. 2019, section 3): between these ops stand all-reduces of the row
// maximum (max), of the label's logit and of the sum of exponentials (sum); only [tokens] values are communicated.
#include <algorithm>
#include <cmath>

#include "engine/device/cpu/kernels.h"

namespace benchsuite::cpu {

void ce_max(const KernelCall& call) {
  call.expect_operands(2);
  const std::int64_t tokens = call.dim(0), cols = call.dim(1);
  const float* logits = call.f32(0, tokens * cols);
  float* row_max = call.f32(1, tokens);
  for (std::int64_t t = 0; t < tokens; ++t) row_max[t] = *std::max_element(logits + t * cols, logits + (t + 1) * cols);
}

void ce_sum(const KernelCall& call) {
  call.expect_operands(5);
  const std::int64_t tokens = call.dim(0), cols = call.dim(1), first_col = call.dim(2);
  float* logits = call.f32(0, tokens * cols);
  const float* row_max = call.f32(1, tokens);
  const std::int32_t* labels = call.i32(2, tokens);
  float* predicted = call.f32(3, tokens);
  float* sum_exp = call.f32(4, tokens);
  for (std::int64_t t = 0; t < tokens; ++t) {
    float* row = logits + t * cols;
    const std::int64_t label = labels[t] - first_col;
    predicted[t] = label >= 0 && label < cols ? row[label] - row_max[t] : 0.0f;
    double sum = 0;
    for (std::int64_t i = 0; i < cols; ++i) {
      row[i] = std::exp(row[i] - row_max[t]);
      sum += row[i];
    }
    sum_exp[t] = static_cast<float>(sum);
  }
}

void ce_loss(const KernelCall& call) {
  call.expect_operands(4);
  const std::int64_t tokens = call.dim(0), cols = call.dim(1);
  float* logits = call.f32(0, tokens * cols);
  const float* predicted = call.f32(1, tokens);
  const float* sum_exp = call.f32(2, tokens);
  float* loss = call.f32(3, 1);
  double total = 0;
  for (std::int64_t t = 0; t < tokens; ++t) {
    for (std::int64_t i = 0; i < cols; ++i) logits[t * cols + i] /= sum_exp[t];
    total += std::log(static_cast<double>(sum_exp[t])) - predicted[t];
  }
  loss[0] += static_cast<float>(call.scalar(0) * total);
}

void ce_backward(const KernelCall& call) {
  call.expect_operands(2);
  const std::int64_t tokens = call.dim(0), cols = call.dim(1), first_col = call.dim(2);
  float* softmax = call.f32(0, tokens * cols);
  const std::int32_t* labels = call.i32(1, tokens);
  const float scale = call.scalar(0);
  for (std::int64_t t = 0; t < tokens; ++t) {
    float* row = softmax + t * cols;
    const std::int64_t label = labels[t] - first_col;
    if (label >= 0 && label < cols) row[label] -= 1.0f;
    for (std::int64_t i = 0; i < cols; ++i) row[i] *= scale;
  }
}

}  // namespace benchsuite::cpu
