// The memory-bound part of unfused attention in one pass each way: scale, causal mask, softmax and dropout between the
// two batched products (as Megatron-LM's fused scaled masked softmax, with the dropout beside it). It serves fused
// attention ops where no library kernel computes them.
//
// Matrices are [b, a, queries, s], row-major, rows of keys; dtypes of input and output are {fp32, fp32}, {bf16, bf16}
// or {fp32, bf16}. Where both have one dtype the output may lie in the place of its input. The dropout mask is that of
// op `dropout` at site kAttentionDropout: query as position, channel (first_head + head) s + key.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "engine/core/dtype.h"

namespace benchsuite::cuda {

struct AttentionSoftmax {
  std::int64_t s = 0, b = 0, a = 0;       ///< positions, samples, query heads
  std::int64_t first_head = 0;            ///< global index of the first head
  std::int64_t first_query = 0;           ///< position of a matrix's first row
  std::int64_t queries = 0;               ///< rows of a matrix; 0: all s, so that first_query is 0
  DType in = DType::fp32;                 ///< of scores and of the gradient of the dropped-out probabilities
  DType out = DType::fp32;                ///< of probabilities and of the gradient of the scaled scores
  float scale = 1;                        ///< of the scores
  bool causal = false;                    ///< query q sees keys 0 .. q
  float dropout = 0;                      ///< probability; 0: none
  const std::int32_t* samples = nullptr;  ///< device int32 [b + 2]: sample indices, step, seed; unused without dropout
  std::int32_t layer = -1;                ///< global layer of the mask
};

/// dropped = dropout(softmax(mask(scale scores))); lse [b, a, queries] fp32 = log sum exp of the masked, scaled scores
/// (may be null). `scores` = Q K^T, not yet scaled.
void attention_softmax(const AttentionSoftmax& what, const void* scores, void* dropped, float* lse,
                       cudaStream_t stream);

/// From the scores (made again, not yet scaled), the row's lse and dP, the gradient of the dropped-out probabilities:
/// dropped as above (for dV), and dS = P (dP mask - rowsum(P mask dP)), the gradient of the *scaled* scores: the
/// products that make dQ and dK carry the scale.
void attention_softmax_backward(const AttentionSoftmax& what, const void* scores, const float* lse,
                                const void* dprobabilities, void* dropped, void* dscores, cudaStream_t stream);

}  // namespace benchsuite::cuda
