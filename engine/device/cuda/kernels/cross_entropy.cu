// Vocabulary-parallel cross-entropy (Shoeybi et al. 2019, section 3): between these ops stand all-reduces of the row
// maximum (max), of the label's logit and of the sum of exponentials (sum). All in fp32; a row of logits a block.
#include "engine/device/cuda/kernels/kernels.h"
#include "engine/device/cuda/kernels/pack_grid.h"
#include "engine/device/cuda/kernels/rows.h"
#include "engine/device/cuda/launch.h"

namespace benchsuite::cuda {
namespace {

struct Logits {
  int cols;
  std::int64_t first_col;  ///< of this vocabulary shard
  bool wide;
};

// Rows are as long as the vocabulary's shard: read from memory, once.
__global__ void row_maximum(Logits p, const float* logits, float* row_max) {
  __shared__ float shared[1][kMaxWarps];
  const float* row = logits + static_cast<std::int64_t>(blockIdx.x) * p.cols;
  float most = -INFINITY;
  for_each_pack<0>(p.cols, [&](int, int column) {
    const Eight x = load8(row + column, p.cols - column, p.wide);
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
      if (column + i < p.cols) most = fmaxf(most, x.v[i]);
    }
  });
  most = block_reduce(most, shared, Maximum{});
  if (threadIdx.x == 0) row_max[blockIdx.x] = most;
}

__global__ void exponentials(Logits p, float* logits, const float* row_max, const std::int32_t* labels,
                             float* predicted, float* sum_exp) {
  __shared__ float shared[1][kMaxWarps];
  float* row = logits + static_cast<std::int64_t>(blockIdx.x) * p.cols;
  const float most = row_max[blockIdx.x];
  const std::int64_t label = labels[blockIdx.x] - p.first_col;
  float sum = 0;
  for_each_pack<0>(p.cols, [&](int, int column) {
    Eight x = load8(row + column, p.cols - column, p.wide);
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
      const float above = x.v[i] - most;
      if (column + i == label) predicted[blockIdx.x] = above;  // the one thread that has the label
      x.v[i] = expf(above);
      if (column + i < p.cols) sum += x.v[i];
    }
    store8(row + column, x, p.cols - column, p.wide);
  });
  sum = block_reduce(sum, shared, Sum{});
  if (threadIdx.x != 0) return;
  sum_exp[blockIdx.x] = sum;
  if (label < 0 || label >= p.cols) predicted[blockIdx.x] = 0;
}

/// The first `tokens` blocks divide a row each; one more adds up the loss.
__global__ void probabilities_and_loss(Logits p, int tokens, float scale, float* logits, const float* predicted,
                                       const float* sum_exp, float* loss) {
  __shared__ double shared[1][kMaxWarps];
  if (static_cast<int>(blockIdx.x) < tokens) {
    float* row = logits + static_cast<std::int64_t>(blockIdx.x) * p.cols;
    const float sum = sum_exp[blockIdx.x];
    for_each_pack<0>(p.cols, [&](int, int column) {
      Eight x = load8(row + column, p.cols - column, p.wide);
      for (float& value : x.v) value /= sum;
      store8(row + column, x, p.cols - column, p.wide);
    });
    return;
  }
  double total = 0;
  for (int token = static_cast<int>(threadIdx.x); token < tokens; token += static_cast<int>(blockDim.x)) {
    total += log(static_cast<double>(sum_exp[token])) - static_cast<double>(predicted[token]);
  }
  total = block_reduce(total, shared, Sum{});
  if (threadIdx.x == 0) loss[0] += static_cast<float>(static_cast<double>(scale) * total);
}

__global__ void gradient(PackGrid grid, std::int64_t first_col, float scale, float* softmax,
                         const std::int32_t* labels) {
  const PackPlace at = grid.place();
  if (at.left <= 0) return;
  const std::int64_t label = labels[at.row] - first_col;
  Eight x = load8(softmax + at.offset, at.left, grid.wide);
#pragma unroll
  for (int i = 0; i < kPack; ++i) x.v[i] = (at.column + i == label ? x.v[i] - 1.0f : x.v[i]) * scale;
  store8(softmax + at.offset, x, at.left, grid.wide);
}

Logits logits_of(const KernelCall& call, const float* logits) {
  CHECK(call.shape.dtype == DType::fp32) << name_of(call.shape.kind) << " is fp32, not " << name_of(call.shape.dtype);
  return {narrow<int>(call.dim(1)), call.dim(2), wide_access(call.dim(0), call.dim(1), {logits})};
}

}  // namespace

void ce_max(const KernelCall& call) {
  call.expect_operands(2);
  const std::int64_t tokens = call.dim(0), cols = call.dim(1);
  const auto* logits = call.operand<const float>(0, tokens * cols);
  auto* row_max = call.operand<float>(1, tokens);
  if (tokens == 0) return;
  launch(row_maximum, narrow<unsigned>(tokens), row_threads(cols, 0), call.stream, logits_of(call, logits), logits,
         row_max);
}

void ce_sum(const KernelCall& call) {
  call.expect_operands(5);
  const std::int64_t tokens = call.dim(0), cols = call.dim(1);
  auto* logits = call.operand<float>(0, tokens * cols);
  const auto* row_max = call.operand<const float>(1, tokens);
  const auto* labels = call.operand<const std::int32_t>(2, tokens);
  auto* predicted = call.operand<float>(3, tokens);
  auto* sum_exp = call.operand<float>(4, tokens);
  if (tokens == 0) return;
  launch(exponentials, narrow<unsigned>(tokens), row_threads(cols, 0), call.stream, logits_of(call, logits), logits,
         row_max, labels, predicted, sum_exp);
}

void ce_loss(const KernelCall& call) {
  call.expect_operands(4);
  const std::int64_t tokens = call.dim(0), cols = call.dim(1);
  auto* logits = call.operand<float>(0, tokens * cols);
  const auto* predicted = call.operand<const float>(1, tokens);
  const auto* sum_exp = call.operand<const float>(2, tokens);
  auto* loss = call.operand<float>(3, 1);
  if (tokens == 0) return;
  launch(probabilities_and_loss, narrow<unsigned>(tokens + 1), row_threads(cols, 0), call.stream,
         logits_of(call, logits), narrow<int>(tokens), call.scalar(0), logits, predicted, sum_exp, loss);
}

void ce_backward(const KernelCall& call) {
  call.expect_operands(2);
  const std::int64_t tokens = call.dim(0), cols = call.dim(1);
  auto* softmax = call.operand<float>(0, tokens * cols);
  const auto* labels = call.operand<const std::int32_t>(1, tokens);
  const PackGrid grid(tokens, cols, logits_of(call, softmax).wide);
  if (grid.empty()) return;
  launch(gradient, grid.blocks(), grid.threads(), call.stream, grid, call.dim(2), call.scalar(0), softmax, labels);
}

}  // namespace benchsuite::cuda
