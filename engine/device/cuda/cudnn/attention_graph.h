// Attention as graphs of cuDNN's operations, in the shape that the library's fused kernels are matched against: forward
// the scores Q K^T, scale, causal mask, softmax with its log-sum-exp, and P V (cuDNN documentation, "Fused Attention
// Fprop" and "Bprop"; the same graphs as cudnn-frontend's scaled_dot_product_flash_attention.h expands to, without
// dropout).
//
// Backward, dQ is the result of a product of whole rows. The graph that needs less workspace adds it up in fp32 memory,
// block of keys by block of keys, in whatever order these come (the library marks no engine as nondeterministic for
// that); here nothing is, so that the same inputs give the same bits, at the price of the gradient of the scores, bf16
// [b, a, s, s], in the library's workspace.
//
// The library wants tensors [batch, heads, s, d] with one stride a dimension. In packed qkv [s, b, u, a/u + 2, d] the
// query heads of a group lie at one distance, and groups of all samples at another: a group is a batch of its own, of
// a/u query heads and one key-value head.
#pragma once

#include <compare>
#include <cstdint>

#include "engine/device/cuda/cudnn/operation_graph.h"
#include "engine/program/op.h"

namespace benchsuite::cuda {

/// All that a plan depends on.
struct AttentionKey {
  bool backward = false, causal = false;
  std::int64_t s = 0, b = 0, a = 0, d = 0,
               u = 0;  ///< positions, samples, query heads, channels of a head, key-value heads

  auto operator<=>(const AttentionKey&) const = default;
  std::int64_t served() const { return a / u; }
};

AttentionKey attention_key(const OpShape& shape);

/// What a run gives addresses of.
enum class AttentionTensor : std::int64_t {
  q = 1,
  k,
  v,
  out,
  lse,
  dout,
  dq,
  dk,
  dv,
  row_sums,  ///< backward, fp32 [b, a, s]: workspace
  scale,
  minus_infinity,
  one,  ///< numbers of the host
};

/// Writes the operations of the forward or the backward pass into an empty graph.
void write_attention(OperationGraph& graph, const AttentionKey& key);

}  // namespace benchsuite::cuda
