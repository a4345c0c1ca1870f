// Where one head lies in packed attention tensors: qkv is [s, b, u, a/u + 2, d], the context is [s, b, a d].
#pragma once

#include "engine/device/cpu/kernel_call.h"

namespace benchsuite::cpu {

struct AttentionView {
  std::int64_t s, b, a, d;
  std::int64_t u;  ///< key-value heads
  std::int64_t served;  ///< query heads of each
  float scale;

  explicit AttentionView(const KernelCall& call)
      : s(call.dim(0)), b(call.dim(1)), a(call.dim(2)), d(call.dim(3)), u(call.dim(4) == 0 ? a : call.dim(4)),
        served(div_exact(a, u)), scale(call.scalar(0)) {}

  std::int64_t qkv_elements() const { return s * qkv_stride(); }
  std::int64_t context_elements() const { return s * b * a * d; }
  std::int64_t score_elements() const { return b * a * s * s; }
  std::int64_t lse_elements() const { return b * a * s; }

  // From position to position.
  std::int64_t qkv_stride() const { return b * u * (served + 2) * d; }
  std::int64_t context_stride() const { return b * a * d; }

  // First element of (sample, head) at position 0.
  std::int64_t q(std::int64_t sample, std::int64_t head) const { return group(sample, head) + head % served * d; }
  std::int64_t k(std::int64_t sample, std::int64_t head) const { return group(sample, head) + served * d; }
  std::int64_t v(std::int64_t sample, std::int64_t head) const { return k(sample, head) + d; }
  std::int64_t context(std::int64_t sample, std::int64_t head) const { return (sample * a + head) * d; }
  std::int64_t scores(std::int64_t sample, std::int64_t head) const { return (sample * a + head) * s * s; }
  std::int64_t lse(std::int64_t sample, std::int64_t head) const { return (sample * a + head) * s; }
  /// Whether the head is the first of those that share its k and v.
  bool first_of_group(std::int64_t head) const { return head % served == 0; }

 private:
  std::int64_t group(std::int64_t sample, std::int64_t head) const { return (sample * u + head / served) * (served + 2) * d; }
};

}  // namespace benchsuite::cpu
