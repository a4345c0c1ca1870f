// What every op computes: its operands in order, its dimensions, its scalars, its FLOPs and its least memory traffic.
// Every device implements this table; nothing else says what an op means.
//
// Notation: `x` read, `y*` written, `g+` read and updated. rows x cols matrices are row-major. s_ and h_ are local
// extents. Activations are [s, b, h] with s outermost. `tokens` = s_ b. All of an op's dims not named are 0.
//
// gemm                          A, B, C*|C+      dims m n k batch. C[m,n] (+)= A[m,k] B[k,n]; transpose_a: A stored
//                                                [k,m]; transpose_b: B stored [n,k]; accumulate: C+
// attention_*                   qkv is [s, b, u, a/u + 2, d]: for each of u key-value heads the a/u query heads it serves, then
//                               k, then v ([s, b, a, 3, d] when u = a); P, S are [b, a, s, s]; ctx is [s, b, a d]
//   dims s b a d u first_head; u = 0 stands for u = a; scalars[0] = scale 1/sqrt(d). K and V gradients are sums over the
//   query heads they serve. first_head: global index of the first query head, flash only
//   attention_scores              qkv, S*            S = scale Q K^T   (the mask is the softmax op's business); accumulate, eager:
//                                                    added to a copy of a bias of the positions, whose values no device knows
//   attention_context             P, qkv, ctx*       ctx = P V
//   attention_context_backward_p  dctx, qkv, dP*     dP = dctx V^T
//   attention_context_backward_v  P, dctx, dqkv+     V part of dqkv = P^T dctx  (overwrites the V part only)
//   attention_scores_backward_q   dS, qkv, dqkv+     Q part = scale dS K        (overwrites the Q part only)
//   attention_scores_backward_k   dS, qkv, dqkv+     K part = scale dS^T Q      (overwrites the K part only)
//   flash_attention               qkv, samples, ctx*, lse*        lse fp32 [b, a, s]; scalars[1] = dropout p;
//   flash_attention_backward      dctx, ctx, qkv, lse, samples, dqkv*   dropout site kAttentionDropout
// rope                          qkv+                dims s b a d u first_position; scalars[0] = base. Rotates q and k of the
//                                                   layout above: channels i and i + d/2 turn by position base^(-2i/d)
//                                                   (Su et al. 2021, in halves)
// rope_backward                 dqkv+               same dims; turns back
// embedding                     ids, table, y*      dims tokens h_ rows first_row; ids outside [first_row, first_row +
//                                                   rows) give zero rows (vocabulary parallel)
// embedding_backward            ids, dy, dtable+    same dims
// position                      x, table, y*        dims s_ b h_ first_position; y = x + table[first_position + s]
// position_backward             dy, dtable+         same dims
// layernorm                     x, gamma, beta, y*, stats*   dims rows cols; stats fp32 [rows, 2] = mean, 1/sigma;
//                                                   scalars[0] = epsilon
// layernorm_backward            dy, x, gamma, stats, dx*, dgamma+, dbeta+    same dims; out_dtype is that of dx, the two
//                                                   accumulators are fp32 or bf16 as their size says
// rmsnorm                       x, gamma, y*, stats*         dims rows cols; stats fp32 [rows] = 1/rms; scalars[0] = epsilon
// rmsnorm_backward              dy, x, gamma, stats, dx*, dgamma+            same dims; dtypes as layernorm_backward
// softmax                       S, P*               dims rows cols in_fp32; causal: row r keeps columns 0 .. r mod cols; eager, in_fp32 =
//                                                   1: as Megatron-LM without its kernel, scaled and in fp32
// softmax_backward              dP, P, dS*          same dims
// bias_add                      x, bias, y*         dims rows cols
// gelu                          x, y*               dims rows cols (tanh form)
// gelu_backward                 dy, x, dx*          same
// bias_gelu                     x, bias, y*         gelu(x + bias)
// bias_gelu_backward            dy, x, bias, dx*
// swiglu                        x, y*               dims rows cols; x is [rows, cols, 2]: y = silu(x[., ., 0]) x[., ., 1]
// swiglu_backward               dy, x, dx*          same
// dropout                       x, samples, y* [, mask*]          dims: see "dropout positions"; scalars[0] = p
// dropout_backward              dy, samples, dx* [, ] or dy, mask, dx* when the mask is stored
// bias_dropout_add              x, bias, residual, samples, y* [, mask*]   y = residual + dropout(x + bias)
// bias_gradient                 dy, dbias+          dims rows cols; dbias += column sums
// add                           a, b, y*            dims n
// accumulate                    x, y+               dims n; y += x
// sum_pieces                    x, y*               dims n pieces; x is [pieces, n]: y = sum over pieces, in their order
// cast                          x, y* [, z*]        dims n pieces copies measured; dtype to out_dtype; by so many kernels of equal
//                                                   parts (0: one). Timed only: a second copy z is y transposed; measured
//                                                   = 1 reads x once more, for its largest magnitude; fp8 to fp8 transposes
// fill                          y*                  dims n; scalars[0] = value
// pack                          x0, x1, ..., y*     dims n = total; concatenates
// unpack                        x, y0*, y1*, ...    dims n = total
// ce_max                        logits, rowmax*     dims tokens cols; fp32
// ce_sum                        logits+, rowmax, labels, predicted*, sumexp*   dims tokens cols first_col;
//                                                   logits := exp(logits - rowmax); predicted = (logit - max) of the
//                                                   label if it is local, else 0
// ce_loss                       logits+, predicted, sumexp, loss+     dims tokens cols; logits := logits / sumexp;
//                                                   loss += scalars[0] sum over tokens (log sumexp - predicted)
// ce_backward                   softmax+, labels    dims tokens cols first_col; scalars[0] = scale:
//                                                   softmax := scale (softmax - onehot)
// sum_squares                   x0, x1, ..., digits+   dims n = total; adds scalars[0] times the sum of squares to the
//                                                   fp32 digits of an ExactSum (engine/core/exact_sum.h)
// clip_coefficient              digits, out*        out[0] = norm, out[1] = min(1, scalars[0] / (norm + 1e-6));
//                                                   scalars[0] = 0: no clipping, coefficient 1
// adamw                         grad, scalars_in, clip, master+, m+, v+, param*   dims n; scalars[0] = weight decay
//                                                   (0 for 1-D tensors); scalars_in fp32 = {lr, beta1, beta2, eps,
//                                                   step}; when parameters are fp32 they are the master and
//                                                   `param*` is absent
// all_gather                    x, y*               dims n = elements of y; every member's x in group order
// reduce_scatter                x, y*               dims n = elements of x; member i gets slice i of the sum
// all_reduce                    x+                  dims n; reduction sum or max, in rank order
// shift                         x, y*               dims n distance; member i's x becomes the y of member (i + distance) mod
//                                                   members
// send / receive                x / y*              dims n; the group is the directed channel {source, destination}
//
// Dropout positions: an element's mask is a function of (seed, step, layer, site id, sample, position, channel), so it is
// equal under every layout. dims = {s_, b, cols, first_position, first_channel, site id}: element (s, b, c) has position
// first_position + s, sample samples[b], channel first_channel + c. For the attention probabilities [b, a, s, s] the op
// is `dropout` with dims {s, b, a, 0, first_head, site id} where site id is kAttentionDropout, and an element (b, a, q, k)
// has position q, channel (first_head + a) * s + k. `samples` is int32 [b + 2]: sample indices, then step, then seed.
#pragma once

#include <cstdint>

#include "engine/program/op.h"

namespace benchsuite {

/// Dropout sites: the `site id` in the counter of the mask.
inline constexpr std::int64_t kEmbeddingDropout = 0;
inline constexpr std::int64_t kAttentionDropout = 1;
inline constexpr std::int64_t kAttentionOutputDropout = 2;
inline constexpr std::int64_t kMlpOutputDropout = 3;

/// Multiply-adds counted as two; the causal half is not halved here (see `causal` of the shape). 0 for communication.
double flops_of(const OpShape& shape);

/// The least bytes an implementation must move through device memory: every operand once. 0 for communication.
double bytes_of(const OpShape& shape);

/// The [m, n, k, batch] product an op amounts to; batch 0 when it is none.
struct MatrixProduct {
  std::int64_t m = 0, n = 0, k = 0, batch = 0;
};
MatrixProduct matrix_product_of(const OpShape& shape);

/// Of a matrix product: the most bytes, a power of two up to 16 (the widest load), that divide every operand's row pitch. Heads
/// begin at multiples of d in their rows, so attention's products are aligned as d and s are. 16 when it is no product.
std::int64_t row_alignment_of(const OpShape& shape);

}  // namespace benchsuite
