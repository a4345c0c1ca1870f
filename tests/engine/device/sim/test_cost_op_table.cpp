// FLOPs and bytes of every op against sums written out operand by operand.
#include <gtest/gtest.h>

#include "engine/device/op_table.h"

namespace benchsuite {
namespace {

OpShape shape_of(OpKind kind, std::array<std::int64_t, 6> dims, DType in = DType::bf16, DType out = DType::bf16) {
  OpShape shape;
  shape.kind = kind;
  shape.dtype = in;
  shape.out_dtype = out;
  shape.dims = dims;
  return shape;
}

TEST(OpTable, Gemm) {
  OpShape gemm = shape_of(OpKind::gemm, {6, 5, 7, 1}, DType::bf16, DType::fp32);
  EXPECT_EQ(flops_of(gemm), 2.0 * 6 * 5 * 7);
  EXPECT_EQ(bytes_of(gemm), (6 * 7 + 7 * 5) * 2 + 6 * 5 * 4);
  gemm.accumulate = true;
  EXPECT_EQ(bytes_of(gemm), (6 * 7 + 7 * 5) * 2 + 2 * 6 * 5 * 4);
  gemm.accumulate = false;
  gemm.dims[3] = 3;
  EXPECT_EQ(flops_of(gemm), 3 * 2.0 * 6 * 5 * 7);
  EXPECT_EQ(bytes_of(gemm), 3 * ((6 * 7 + 7 * 5) * 2 + 6 * 5 * 4));
  gemm.dims[3] = 0;
  EXPECT_EQ(matrix_product_of(gemm).batch, 1);
}

TEST(OpTable, AProductIsAsAlignedAsItsLeastAlignedRows) {
  OpShape gemm = shape_of(OpKind::gemm, {6, 64, 32, 1});  // m counts rows, which is no pitch
  EXPECT_EQ(row_alignment_of(gemm), 16);
  gemm.transpose_a = true;  // A is stored [k, m]: rows of 6 elements
  EXPECT_EQ(row_alignment_of(gemm), 4);
  EXPECT_EQ(row_alignment_of(shape_of(OpKind::gemm, {8, 64, 12, 1})), 8) << "rows of A";
  EXPECT_EQ(row_alignment_of(shape_of(OpKind::gemm, {8, 63, 32, 1})), 2) << "rows of B and C";
  OpShape transposed = shape_of(OpKind::gemm, {8, 64, 63, 1});
  transposed.transpose_b = true;  // B is stored [n, k]
  EXPECT_EQ(row_alignment_of(transposed), 2);
  transposed.dims = {8, 60, 64, 1};
  EXPECT_EQ(row_alignment_of(transposed), 8) << "rows of C alone";
  transposed.transpose_a = true;
  transposed.dims = {8, 64, 12, 1};
  EXPECT_EQ(row_alignment_of(transposed), 8) << "rows of B alone";
  EXPECT_EQ(row_alignment_of(shape_of(OpKind::gemm, {8, 12, 32, 1}, DType::bf16, DType::fp32)), 8) << "rows of B";
  EXPECT_EQ(row_alignment_of(shape_of(OpKind::gemm, {8, 12, 32, 1}, DType::fp32, DType::fp32)), 16);
  // Heads lie side by side: their size decides, and the length, which is the pitch of scores.
  for (const OpKind kind : {OpKind::attention_scores, OpKind::attention_context, OpKind::attention_context_backward_p,
                            OpKind::attention_context_backward_v, OpKind::attention_scores_backward_q,
                            OpKind::attention_scores_backward_k}) {
    EXPECT_EQ(row_alignment_of(shape_of(kind, {2048, 2, 3, 128, 0, 0})), 16) << name_of(kind);
    EXPECT_EQ(row_alignment_of(shape_of(kind, {2048, 2, 3, 108, 0, 0})), 8) << name_of(kind);
    EXPECT_EQ(row_alignment_of(shape_of(kind, {2048, 2, 3, 150, 0, 0})), 4) << name_of(kind);
    EXPECT_EQ(row_alignment_of(shape_of(kind, {2047, 2, 3, 128, 0, 0})), 2) << name_of(kind);
  }
  EXPECT_EQ(row_alignment_of(shape_of(OpKind::flash_attention, {2047, 2, 3, 150, 0, 0})), 16) << "no product";
}

// s 8, b 2, a 3, d 4: part = 192 elements, matrix = 384.
TEST(OpTable, UnfusedAttentionIsSixProductsOfEqualWork) {
  const std::array<std::int64_t, 6> dims{8, 2, 3, 4, 0, 0};
  for (const OpKind kind : {OpKind::attention_scores, OpKind::attention_context, OpKind::attention_context_backward_p,
                            OpKind::attention_context_backward_v, OpKind::attention_scores_backward_q,
                            OpKind::attention_scores_backward_k}) {
    EXPECT_EQ(flops_of(shape_of(kind, dims)), 2.0 * 2 * 3 * 8 * 8 * 4) << name_of(kind);
    EXPECT_EQ(bytes_of(shape_of(kind, dims)), (384 + 2 * 192) * 2) << name_of(kind);
  }
  const MatrixProduct scores = matrix_product_of(shape_of(OpKind::attention_scores, dims));
  EXPECT_EQ(scores.m, 8);
  EXPECT_EQ(scores.n, 8);
  EXPECT_EQ(scores.k, 4);
  EXPECT_EQ(scores.batch, 6);
  const MatrixProduct context = matrix_product_of(shape_of(OpKind::attention_context, dims));
  EXPECT_EQ(context.n, 4);
  EXPECT_EQ(context.k, 8);
}

TEST(OpTable, FlashAttention) {
  const OpShape forward = shape_of(OpKind::flash_attention, {8, 2, 3, 4, 0, 1});
  const OpShape backward = shape_of(OpKind::flash_attention_backward, {8, 2, 3, 4, 0, 1});
  EXPECT_EQ(flops_of(forward), 4.0 * 2 * 3 * 8 * 8 * 4);
  EXPECT_EQ(flops_of(backward), 2.5 * flops_of(forward));
  EXPECT_EQ(matrix_product_of(forward).batch, 0);
  // qkv 3, ctx 1; lse fp32 [2, 3, 8]; samples int32 [4]
  EXPECT_EQ(bytes_of(forward), 4 * 192 * 2 + 48 * 4 + 16);
  // dctx, ctx, qkv 3 read, dqkv 3 written
  EXPECT_EQ(bytes_of(backward), 8 * 192 * 2 + 48 * 4 + 16);
}

// s 8, b 2, a 6, d 4, u 2: q and ctx 384 elements, k and v 128 each, matrix 768.
TEST(OpTable, GroupedQueryAttentionReadsFewerKeysAndValues) {
  const std::array<std::int64_t, 6> dims{8, 2, 6, 4, 2, 0};
  const auto bytes = [&](OpKind kind) { return bytes_of(shape_of(kind, dims)); };
  EXPECT_EQ(bytes(OpKind::attention_scores), (384 + 128 + 768) * 2);             // q, k, S
  EXPECT_EQ(bytes(OpKind::attention_context), (768 + 128 + 384) * 2);            // P, v, ctx
  EXPECT_EQ(bytes(OpKind::attention_context_backward_p), (384 + 128 + 768) * 2); // dctx, v, dP
  EXPECT_EQ(bytes(OpKind::attention_context_backward_v), (768 + 384 + 128) * 2); // P, dctx, dv
  EXPECT_EQ(bytes(OpKind::attention_scores_backward_q), (768 + 128 + 384) * 2);  // dS, k, dq
  EXPECT_EQ(bytes(OpKind::attention_scores_backward_k), (768 + 384 + 128) * 2);  // dS, q, dk
  EXPECT_EQ(bytes(OpKind::flash_attention), (384 + 2 * 128 + 384) * 2 + 96 * 4 + 16);
  EXPECT_EQ(bytes(OpKind::flash_attention_backward), (3 * 384 + 2 * 128 + 384 + 2 * 128) * 2 + 96 * 4 + 16);
  EXPECT_EQ(flops_of(shape_of(OpKind::flash_attention, dims)), 4.0 * 2 * 6 * 8 * 8 * 4) << "products are by query head";
}

struct Expectation {
  OpShape shape;
  double bytes;
};

TEST(OpTable, BytesOfMemoryOps) {
  OpShape masked = shape_of(OpKind::dropout, {8, 2, 5, 0, 0, kMlpOutputDropout});
  masked.stores_mask = true;
  OpShape masked_backward = masked;
  masked_backward.kind = OpKind::dropout_backward;
  OpShape masked_add = masked;
  masked_add.kind = OpKind::bias_dropout_add;
  const std::vector<Expectation> table{
      {shape_of(OpKind::embedding, {10, 4, 100, 0}), 10 * 4 + 40 * 2 + 40 * 2},
      {shape_of(OpKind::embedding, {10, 4, 3, 0}), 10 * 4 + 12 * 2 + 40 * 2},
      {shape_of(OpKind::embedding_backward, {10, 4, 100, 0}, DType::bf16, DType::fp32), 10 * 4 + 40 * 2 + 2 * 40 * 4},
      {shape_of(OpKind::position, {8, 2, 5, 0}), 2 * 80 * 2 + 40 * 2},
      {shape_of(OpKind::position_backward, {8, 2, 5, 0}, DType::bf16, DType::fp32), 80 * 2 + 2 * 40 * 4},
      {shape_of(OpKind::layernorm, {6, 5}), 30 * 4 + 10 * 2 + 12 * 4},
      {shape_of(OpKind::layernorm_backward, {6, 5}), 30 * 6 + 5 * 2 + 12 * 4 + 2 * (5 + 5) * 4},
      {shape_of(OpKind::rmsnorm, {6, 5}), 30 * 4 + 5 * 2 + 6 * 4},
      {shape_of(OpKind::rmsnorm_backward, {6, 5}), 30 * 6 + 5 * 2 + 6 * 4 + 2 * 5 * 4},
      {shape_of(OpKind::swiglu, {6, 5}), 60 * 2 + 30 * 2},
      {shape_of(OpKind::swiglu_backward, {6, 5}), 30 * 2 + 60 * 2 + 60 * 2},
      // s 8, b 2, a 6, d 4, u 2: q and k, read and written; v stays
      {shape_of(OpKind::rope, {8, 2, 6, 4, 2, 0}), (8 * 2 * (6 + 2) * 4) * 4},
      {shape_of(OpKind::rope_backward, {8, 2, 6, 4, 2, 0}), (8 * 2 * (6 + 2) * 4) * 4},
      {shape_of(OpKind::softmax, {6, 5}), 30 * 4},
      {shape_of(OpKind::softmax_backward, {6, 5}), 30 * 6},
      {shape_of(OpKind::bias_add, {6, 5}), 30 * 4 + 10},
      {shape_of(OpKind::gelu, {6, 5}), 30 * 4},
      {shape_of(OpKind::gelu_backward, {6, 5}), 30 * 6},
      {shape_of(OpKind::bias_gelu, {6, 5}), 30 * 4 + 10},
      {shape_of(OpKind::bias_gelu_backward, {6, 5}), 30 * 6 + 10},
      {shape_of(OpKind::dropout, {8, 2, 5, 0, 0, kMlpOutputDropout}), 80 * 4 + 16},
      {shape_of(OpKind::dropout, {8, 2, 3, 0, 0, kAttentionDropout}), 384 * 4 + 16},
      {masked, 80 * 5 + 16},
      {masked_backward, 80 * 5},
      {shape_of(OpKind::dropout_backward, {8, 2, 5, 0, 0, kMlpOutputDropout}), 80 * 4 + 16},
      {masked_add, 80 * 7 + 10 + 16},
      {shape_of(OpKind::bias_gradient, {6, 5}, DType::bf16, DType::fp32), 30 * 2 + 2 * 5 * 4},
      {shape_of(OpKind::add, {9}), 9 * 6},
      {shape_of(OpKind::accumulate, {9}, DType::bf16, DType::fp32), 9 * (2 + 4 + 4)},
      {shape_of(OpKind::sum_pieces, {9, 3}), 9 * (3 * 2 + 2)},
      {shape_of(OpKind::cast, {9}, DType::bf16, DType::fp32), 9 * 6},
      {shape_of(OpKind::fill, {9}, DType::fp32, DType::fp32), 9 * 4},
      {shape_of(OpKind::pack, {9}), 9 * 4},
      {shape_of(OpKind::unpack, {9}), 9 * 4},
      {shape_of(OpKind::ce_max, {6, 5}, DType::fp32, DType::fp32), 30 * 4 + 6 * 4},
      {shape_of(OpKind::ce_sum, {6, 5, 0}, DType::fp32, DType::fp32), 60 * 4 + 6 * 16},
      {shape_of(OpKind::ce_loss, {6, 5}, DType::fp32, DType::fp32), 60 * 4 + 6 * 8 + 8},
      {shape_of(OpKind::ce_backward, {6, 5, 0}, DType::fp32, DType::fp32), 60 * 4 + 6 * 4},
      {shape_of(OpKind::sum_squares, {9}, DType::fp32, DType::fp32), 9 * 4 + 2 * 12 * 4},
      {shape_of(OpKind::clip_coefficient, {}, DType::fp32, DType::fp32), 12 * 4 + 8},
      // 4 grad + 12 read + 12 written + 2 parameter
      {shape_of(OpKind::adamw, {9}, DType::fp32, DType::bf16), 9 * 30 + 28},
      {shape_of(OpKind::adamw, {9}, DType::fp32, DType::fp32), 9 * 28 + 28},
      {shape_of(OpKind::all_reduce, {9}), 0},
  };
  std::array<bool, kOpKinds> seen{};
  for (const auto& [shape, bytes] : table) {
    EXPECT_EQ(bytes_of(shape), bytes) << name_of(shape.kind);
    EXPECT_EQ(flops_of(shape), 0) << name_of(shape.kind);
    seen[static_cast<std::size_t>(shape.kind)] = true;
  }
  for (int kind = static_cast<int>(OpKind::embedding); kind < static_cast<int>(OpKind::all_gather); ++kind)
    EXPECT_TRUE(seen[static_cast<std::size_t>(kind)]) << name_of(static_cast<OpKind>(kind)) << " has no expectation";
}

}  // namespace
}  // namespace benchsuite
