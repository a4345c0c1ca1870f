#include "engine/device/cpu/dropout_mask.h"

#include "engine/device/cpu/kernels.h"
#include "engine/device/op_table.h"

namespace benchsuite::cpu {
namespace {

bool of_attention(const KernelCall& call) { return call.dim(5) == kAttentionDropout; }

/// Attention probabilities are [b, a, s, s] with dims {s, b, a, 0, first_head, site}, everything else is [s_, b, cols].
std::int64_t element_count(const KernelCall& call) {
  const std::int64_t outer = call.dim(0) * call.dim(1) * call.dim(2);
  return of_attention(call) ? outer * call.dim(0) : outer;
}

/// body(offset, count, factors) for each run of consecutive channels at one position.
template <class Body>
void for_each_row(const KernelCall& call, const DropoutMask& mask, Body body) {
  const auto [s, b, cols, first_position, first_channel, site] = call.shape.dims;
  if (of_attention(call)) {
    float* factors = call.staging.scratch(s);
    std::int64_t offset = 0;
    for (std::int64_t sample = 0; sample < b; ++sample) {
      for (std::int64_t head = 0; head < cols; ++head) {
        for (std::int64_t query = 0; query < s; ++query, offset += s) {
          mask.factors(sample, query, (first_channel + head) * s, s, factors);
          body(offset, s, factors);
        }
      }
    }
    return;
  }
  float* factors = call.staging.scratch(cols);
  std::int64_t offset = 0;
  for (std::int64_t position = 0; position < s; ++position) {
    for (std::int64_t sample = 0; sample < b; ++sample, offset += cols) {
      mask.factors(sample, first_position + position, first_channel, cols, factors);
      body(offset, cols, factors);
    }
  }
}

DropoutMask mask_of(const KernelCall& call, std::size_t samples_operand) {
  const std::int64_t b = call.dim(1);
  return DropoutMask(call.i32(samples_operand, b + 2), b, call.layer, call.dim(5), call.scalar(0));
}

}  // namespace

void dropout(const KernelCall& call) {
  call.expect_operands(call.shape.stores_mask ? 4 : 3);
  const std::int64_t n = element_count(call);
  const float* x = call.in(0, n);
  float* y = call.out(2, n);
  std::uint8_t* stored = call.shape.stores_mask ? call.operand<std::uint8_t>(3, n) : nullptr;
  for_each_row(call, mask_of(call, 1), [&](std::int64_t offset, std::int64_t count, const float* factors) {
    for (std::int64_t i = 0; i < count; ++i) {
      // A dropped element is zero whatever it was.
      y[offset + i] = factors[i] == 0 ? 0.0f : x[offset + i] * factors[i];
      if (stored) stored[offset + i] = factors[i] != 0;
    }
  });
}

void dropout_backward(const KernelCall& call) {
  call.expect_operands(3);
  const std::int64_t n = element_count(call);
  const float* dy = call.in(0, n);
  float* dx = call.out(2, n);
  if (call.shape.stores_mask) {
    const std::uint8_t* mask = call.operand<const std::uint8_t>(1, n);
    const float scale = 1.0f / (1.0f - call.scalar(0));
    for (std::int64_t i = 0; i < n; ++i) dx[i] = mask[i] == 0 ? 0.0f : dy[i] * scale;
    return;
  }
  for_each_row(call, mask_of(call, 1), [&](std::int64_t offset, std::int64_t count, const float* factors) {
    for (std::int64_t i = 0; i < count; ++i) dx[offset + i] = factors[i] == 0 ? 0.0f : dy[offset + i] * factors[i];
  });
}

void bias_dropout_add(const KernelCall& call) {
  call.expect_operands(call.shape.stores_mask ? 6 : 5);
  CHECK(!of_attention(call)) << "attention probabilities have neither bias nor residual";
  const std::int64_t n = element_count(call);
  const float* x = call.in(0, n);                 // [s_, b, cols]
  const float* bias = call.in(1, call.dim(2));    // [cols]
  const float* residual = call.in(2, n);          // [s_, b, cols]
  float* y = call.out(4, n);                       // [s_, b, cols]
  std::uint8_t* stored = call.shape.stores_mask ? call.operand<std::uint8_t>(5, n) : nullptr;
  if (call.scalar(0) == 0 && !stored) {  // nothing to draw
    for (std::int64_t i = 0; i < n; ++i) y[i] = residual[i] + (x[i] + bias[i % call.dim(2)]);
    return;
  }
  for_each_row(call, mask_of(call, 3), [&](std::int64_t offset, std::int64_t count, const float* factors) {
    for (std::int64_t i = 0; i < count; ++i) {
      const float kept = factors[i] == 0 ? 0.0f : (x[offset + i] + bias[i]) * factors[i];
      y[offset + i] = residual[offset + i] + kept;
      if (stored) stored[offset + i] = factors[i] != 0;
    }
  });
}

}  // namespace benchsuite::cpu
