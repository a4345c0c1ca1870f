// Kernels of a framework, counted by hand: bytes an element are 2 of bf16 for every tensor a kernel reads or writes.
#include "engine/device/eager_kernels.h"

#include <gtest/gtest.h>

#include "cost_support.h"
#include "engine/device/op_table.h"

namespace benchsuite {
namespace {

constexpr std::int64_t kRows = 48, kColumns = 80;
constexpr double kElements = kRows * kColumns;

OpShape eager(OpKind kind, std::array<std::int64_t, 6> dims, DType in = DType::bf16, DType out = DType::bf16) {
  OpShape shape = shape_of(kind, dims, in, out);
  shape.eager = true;
  return shape;
}

TEST(EagerKernels, WhatIsNotEagerIsOneKernelThatMovesItsOperandsOnce) {
  const OpShape shape = shape_of(OpKind::rmsnorm, {kRows, kColumns});
  EXPECT_EQ(eager_kernels(shape).kernels, 1);
  EXPECT_EQ(eager_kernels(shape).bytes, bytes_of(shape));
  EXPECT_EQ(launches_of(shape), 1);
}

TEST(EagerKernels, MoveWhatTheirListSays) {
  const auto bytes = [](OpKind kind, std::array<std::int64_t, 6> dims) { return eager_kernels(eager(kind, dims)).bytes; };
  // to fp32, x^2, mean, x r, back, times gamma: 6 + 8 + 4 + 8 + 6 + 4
  EXPECT_EQ(bytes(OpKind::rmsnorm, {kRows, kColumns}), 36 * kElements);
  EXPECT_EQ(bytes(OpKind::softmax, {kRows, kColumns}), (4 + 4 + 4) * kElements);
  EXPECT_EQ(bytes(OpKind::swiglu, {kRows, kColumns}), (4 + 6) * kElements);
  // 16 bit: products with the gradient and its sum 8, times gamma 4; casts 6 + 6; fp32: of x r 8 + 12 + 4, rows spread 4, of x^2
  // 8 + 8 + 12, sum 12
  EXPECT_EQ(bytes(OpKind::rmsnorm_backward, {kRows, kColumns}), 92 * kElements);
  EXPECT_EQ(bytes(OpKind::softmax_backward, {kRows, kColumns}), (6 + 4 + 4) * kElements);
  // cos 4, sin 4, minus 2, two halves into zeros 8, their sum 6, all 6
  EXPECT_EQ(bytes(OpKind::rope_backward, {16, 2, 6, 8, 2, 0}), 30.0 * 16 * 2 * (6 + 2) * 8);
  EXPECT_EQ(bytes(OpKind::swiglu_backward, {kRows, kColumns}), (6 + 6 + 6) * kElements);
  // q and k of 6 + 2 heads: x cos, minus half, cat, x sin, sum: 4 + 2 + 4 + 4 + 6; four gathers by 8-byte indices
  EXPECT_EQ(bytes(OpKind::rope, {16, 2, 6, 8, 2, 0}), 20.0 * 16 * 2 * (6 + 2) * 8 + 4 * 12.0 * 16 * 2 * 8);
  EXPECT_EQ(eager_kernels(eager(OpKind::ce_sum, {kRows, kColumns}, DType::fp32, DType::fp32)).bytes,
            (8 + 8 + 4) * kElements);
  // A dense gradient of 100 rows filled, read and added; 48 rows of ids added into it.
  EXPECT_EQ(bytes(OpKind::embedding_backward, {kRows, kColumns, 100, 0}), 100.0 * kColumns * (2 + 2 + 4) + 4 * kElements);
}

TEST(EagerKernels, MegatronsSoftmaxWithoutItsKernelIsScaledAndInFp32) {
  const OpShape forward = eager(OpKind::softmax, {kRows, kColumns, 1}), backward = eager(OpKind::softmax_backward, {kRows, kColumns, 1});
  // to fp32 6, scaled 8, masked 8, softmax 8, back 6; the gradients: 6, of softmax 12, a copy 8 masked 8, scaled 8, 6
  EXPECT_EQ(eager_kernels(forward).bytes, 36 * kElements);
  EXPECT_EQ(eager_kernels(forward).kernels, 5);
  EXPECT_EQ(eager_kernels(backward).bytes, 48 * kElements);
  EXPECT_EQ(eager_kernels(backward).kernels, 6);
}

TEST(EagerKernels, ScoresAddToACopyOfABias) {
  OpShape scores = eager(OpKind::attention_scores, {16, 2, 4, 8, 4});
  EXPECT_EQ(launches_of(scores), 1);
  scores.accumulate = true;
  const double copied = 2.0 * 2 * 4 * 16 * 16;
  EXPECT_EQ(eager_kernels(scores).bytes - bytes_of(scores), copied);
  EXPECT_EQ(eager_kernels(scores).broadcast, copied);
  EXPECT_EQ(launches_of(scores), 2);
}

TEST(EagerKernels, AddedGradientsAreCastFirst) {
  const OpShape shape = eager(OpKind::accumulate, {1000}, DType::bf16, DType::fp32);
  EXPECT_EQ(eager_kernels(shape).bytes, (2 + 4 + 3 * 4) * 1000.0);
  EXPECT_EQ(launches_of(shape), 2);
}

// A chain's kernels run at the bandwidth of their kind: copies like an addition, softmax like softmax, a mask for all heads slower.
TEST(EagerKernels, StreamAtTheShareOfTheirKind) {
  const HardwareProfile profile = committed("dgx-a100-80g");
  const CostModel costs(profile, nodes_of(1, 8), {});
  const auto share = [&](const char* name) { return profile.memory_ops.at(name).share * profile.memory_bandwidth; };
  const double elements = 81920.0 * 2048;
  const double seconds = 3 * profile.memory_ops.at("add").floor_s + 4 * elements / share("add") +
                         4 * elements / share("broadcast") + 4 * elements / share("softmax");
  EXPECT_NEAR(static_cast<double>(costs.compute(eager(OpKind::softmax, {81920, 2048}), Site::attention)), seconds * 1e12, 2);
  EXPECT_LT(share("broadcast"), share("softmax"));
}

TEST(EagerKernels, AsManyAsTheirListSays) {
  const std::tuple<OpKind, int> kernels[] = {
      {OpKind::rmsnorm, 8},       {OpKind::rmsnorm_backward, 16}, {OpKind::softmax, 3},  {OpKind::softmax_backward, 3},
      {OpKind::rope, 14},         {OpKind::rope_backward, 18},    {OpKind::swiglu, 2},   {OpKind::swiglu_backward, 3},
      {OpKind::ce_sum, 3 + 10},   {OpKind::embedding_backward, 5}};
  for (const auto& [kind, count] : kernels) {
    EXPECT_EQ(eager_kernels(eager(kind, {kRows, kColumns, 8, 8, 8})).kernels, count) << name_of(kind);
  }
}

TEST(EagerKernels, CopiesComeOnTopOfAnAttentionProduct) {
  const std::array<std::int64_t, 6> dims{16, 2, 4, 8, 2, 0};
  const double part = 16 * 2 * 4 * 8, key = 16 * 2 * 2 * 8;
  for (const auto& [kind, copies, kernels] :
       {std::tuple{OpKind::attention_context, 4 * part, 2},
        std::tuple{OpKind::attention_context_backward_p, 4 * part, 2},
        std::tuple{OpKind::attention_scores_backward_q, 4 * part, 2},
        std::tuple{OpKind::attention_scores_backward_k, 4 * (key + part + 2 * key), 3},
        std::tuple{OpKind::flash_attention, 4 * (2 * part + 2 * key), 5}}) {
    EXPECT_EQ(eager_kernels(eager(kind, dims)).bytes - bytes_of(eager(kind, dims)), copies) << name_of(kind);
    EXPECT_EQ(eager_kernels(eager(kind, dims)).kernels, kernels);
  }
}

// Every eager op costs more than its fused kernel on a real profile, in bytes and in launches.
TEST(EagerKernels, CostMoreThanTheFusedOne) {
  const HardwareProfile profile = committed("dgx-a100-80g");
  const CostModel costs(profile, nodes_of(1, 8), {});
  const std::vector<std::pair<OpKind, std::array<std::int64_t, 6>>> ops{
      {OpKind::rmsnorm, {4096, 5120}},        {OpKind::rmsnorm_backward, {4096, 5120}},
      {OpKind::softmax, {81920, 2048}},       {OpKind::softmax_backward, {81920, 2048}},
      {OpKind::rope, {2048, 2, 40, 128, 40}}, {OpKind::rope_backward, {2048, 2, 40, 128, 40}},
      {OpKind::swiglu, {4096, 13824}},        {OpKind::swiglu_backward, {4096, 13824}},
      {OpKind::embedding_backward, {4096, 5120, 51200}}};
  for (const auto& [kind, dims] : ops) {
    EXPECT_GT(costs.compute(eager(kind, dims), Site::mlp), costs.compute(shape_of(kind, dims), Site::mlp)) << name_of(kind);
    EXPECT_GT(launches_of(eager(kind, dims)), 1) << name_of(kind);
  }
}

TEST(EagerKernels, ExtraKernelsAddTheirFloorsAndLaunches) {
  const HardwareProfile profile = committed("dgx-a100-80g");
  const CostModel costs(profile, nodes_of(1, 8), {});
  OpShape shape = shape_of(OpKind::layernorm_backward, {4096, 5120});
  const Picoseconds alone = costs.compute(shape, Site::mlp);
  shape.extra_kernels = 2;
  EXPECT_EQ(launches_of(shape), 3);
  const auto add = profile.memory_ops.find("add");
  const double floor = (add == profile.memory_ops.end() ? profile.memory_ops.at("default") : add->second).floor_s;
  EXPECT_NEAR(static_cast<double>(costs.compute(shape, Site::mlp) - alone),
              2e12 * floor, 2);
}

}  // namespace
}  // namespace benchsuite
