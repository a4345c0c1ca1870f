// Unfused attention: the six matrix products of a head. Softmax and dropout are ops of their own, and so is the rotation of
// queries and keys (RoPE).
#include <cmath>

#include "engine/device/cpu/attention_view.h"
#include "engine/device/cpu/kernels.h"
#include "engine/device/cpu/matmul.h"

namespace benchsuite::cpu {
namespace {

template <class Body>
void for_each_head(const AttentionView& view, Body body) {
  for (std::int64_t sample = 0; sample < view.b; ++sample) {
    for (std::int64_t head = 0; head < view.a; ++head) body(sample, head);
  }
}

/// Turns q and k of every head: channels i and i + d/2 by direction * position * base^(-2i/d).
void rotate(const KernelCall& call, double direction) {
  call.expect_operands(1);
  const AttentionView view(call);
  const std::int64_t half = div_exact<std::int64_t>(view.d, 2), first_position = call.dim(5);
  const double base = call.scalar(0);
  float* qkv = call.inout(0, view.qkv_elements());
  double* frequency = call.staging.sums(half);
  for (std::int64_t i = 0; i < half; ++i) {
    frequency[i] = std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(view.d));
  }
  float* cosine = call.staging.scratch(half);
  float* sine = call.staging.scratch(half);
  for (std::int64_t position = 0; position < view.s; ++position) {
    for (std::int64_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(first_position + position) * frequency[i];
      cosine[i] = static_cast<float>(std::cos(angle));
      sine[i] = static_cast<float>(direction * std::sin(angle));
    }
    const auto turn = [&](float* head) {
      for (std::int64_t i = 0; i < half; ++i) {
        const float x = head[i], y = head[i + half];
        const float c = cosine[i], s = sine[i];
        head[i] = x * c - y * s;
        head[i + half] = y * c + x * s;
      }
    };
    float* at = qkv + position * view.qkv_stride();
    for_each_head(view, [&](std::int64_t sample, std::int64_t head) {
      turn(at + view.q(sample, head));
      if (view.first_of_group(head)) turn(at + view.k(sample, head));
    });
  }
}

}  // namespace

void rope(const KernelCall& call) { rotate(call, 1); }
void rope_backward(const KernelCall& call) { rotate(call, -1); }

void attention_scores(const KernelCall& call) {
  call.expect_operands(2);
  const AttentionView view(call);
  const float* qkv = call.in(0, view.qkv_elements());
  float* scores = call.out(1, view.score_elements());  // [b, a, s, s]
  for_each_head(view, [&](std::int64_t i, std::int64_t j) {
    matmul({view.s, view.s, view.d, view.scale, 0}, {qkv + view.q(i, j), view.qkv_stride(), false},
           {qkv + view.k(i, j), view.qkv_stride(), true}, scores + view.scores(i, j), view.s);
  });
}

void attention_scores_backward_q(const KernelCall& call) {  // dQ = scale dS K
  call.expect_operands(3);
  const AttentionView view(call);
  const float* dscores = call.in(0, view.score_elements());
  const float* qkv = call.in(1, view.qkv_elements());
  float* dqkv = call.inout(2, view.qkv_elements());
  for_each_head(view, [&](std::int64_t i, std::int64_t j) {
    matmul({view.s, view.d, view.s, view.scale, 0}, {dscores + view.scores(i, j), view.s, false},
           {qkv + view.k(i, j), view.qkv_stride(), false}, dqkv + view.q(i, j), view.qkv_stride());
  });
}

void attention_scores_backward_k(const KernelCall& call) {  // dK = scale dS^T Q
  call.expect_operands(3);
  const AttentionView view(call);
  const float* dscores = call.in(0, view.score_elements());
  const float* qkv = call.in(1, view.qkv_elements());
  float* dqkv = call.inout(2, view.qkv_elements());
  for_each_head(view, [&](std::int64_t i, std::int64_t j) {
    const float before = view.first_of_group(j) ? 0.0f : 1.0f;
    matmul({view.s, view.d, view.s, view.scale, before}, {dscores + view.scores(i, j), view.s, true},
           {qkv + view.q(i, j), view.qkv_stride(), false}, dqkv + view.k(i, j), view.qkv_stride());
  });
}

void attention_context(const KernelCall& call) {  // ctx = P V
  call.expect_operands(3);
  const AttentionView view(call);
  const float* probabilities = call.in(0, view.score_elements());
  const float* qkv = call.in(1, view.qkv_elements());
  float* context = call.out(2, view.context_elements());  // [s, b, a d]
  for_each_head(view, [&](std::int64_t i, std::int64_t j) {
    matmul({view.s, view.d, view.s, 1, 0}, {probabilities + view.scores(i, j), view.s, false},
           {qkv + view.v(i, j), view.qkv_stride(), false}, context + view.context(i, j), view.context_stride());
  });
}

void attention_context_backward_p(const KernelCall& call) {  // dP = dctx V^T
  call.expect_operands(3);
  const AttentionView view(call);
  const float* dcontext = call.in(0, view.context_elements());
  const float* qkv = call.in(1, view.qkv_elements());
  float* dprobabilities = call.out(2, view.score_elements());
  for_each_head(view, [&](std::int64_t i, std::int64_t j) {
    matmul({view.s, view.s, view.d, 1, 0}, {dcontext + view.context(i, j), view.context_stride(), false},
           {qkv + view.v(i, j), view.qkv_stride(), true}, dprobabilities + view.scores(i, j), view.s);
  });
}

void attention_context_backward_v(const KernelCall& call) {  // dV = P^T dctx
  call.expect_operands(3);
  const AttentionView view(call);
  const float* probabilities = call.in(0, view.score_elements());
  const float* dcontext = call.in(1, view.context_elements());
  float* dqkv = call.inout(2, view.qkv_elements());
  for_each_head(view, [&](std::int64_t i, std::int64_t j) {
    const float before = view.first_of_group(j) ? 0.0f : 1.0f;
    matmul({view.s, view.d, view.s, 1, before}, {probabilities + view.scores(i, j), view.s, true},
           {dcontext + view.context(i, j), view.context_stride(), false}, dqkv + view.v(i, j), view.qkv_stride());
  });
}

}  // namespace benchsuite::cpu
