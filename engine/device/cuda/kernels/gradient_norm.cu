// The gradient norm as an exact sum (engine/core/exact_sum.h): integers, so that neither the order of the terms nor the
// number of blocks or ranks shows in the bits.
#include <algorithm>
#include <limits>

#include "engine/core/exact_sum.h"
#include "engine/device/cuda/kernels/chunks.h"
#include "engine/device/cuda/kernels/dtypes.h"
#include "engine/device/cuda/kernels/kernels.h"
#include "engine/device/cuda/kernels/rows.h"
#include "engine/device/cuda/launch.h"

namespace benchsuite::cuda {
namespace {

constexpr int kDigitBits = 10;
constexpr std::int64_t kMaxBlocks = 1024;

/// A sum of multiples of 2^-84 below 2^36, or `broken`.
struct ExactPart {
  unsigned long long low, high, broken;

  __device__ void add(const ExactPart& other) {
    low += other.low;
    high += other.high + (low < other.low ? 1 : 0);
    broken |= other.broken | (high >> (kDigitBits * kExactSumDigits - 64) != 0 ? 1 : 0);
  }
  __device__ void add(double term) {
    if (!(term >= 0 && term < 0x1p36)) {
      broken = 1;
      return;
    }
    // Exact: rint takes a multiple of 2^-84, and both halves of a double of 53 bits are doubles.
    const double scaled = rint(term * 0x1p84);
    const double upper = floor(scaled * 0x1p-64);
    add(ExactPart{static_cast<unsigned long long>(scaled - upper * 0x1p64), static_cast<unsigned long long>(upper), 0});
  }
};

/// Over the block; thread 0 gets the sum.
__device__ inline ExactPart block_sum(ExactPart part, ExactPart (&shared)[kMaxWarps]) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    ExactPart other{};
    other.low = __shfl_xor_sync(kAllLanes, part.low, offset);
    other.high = __shfl_xor_sync(kAllLanes, part.high, offset);
    other.broken = __shfl_xor_sync(kAllLanes, part.broken, offset);
    part.add(other);
  }
  if (threadIdx.x % kWarp == 0) shared[threadIdx.x / kWarp] = part;
  __syncthreads();
  for (unsigned warp = 1; threadIdx.x == 0 && warp < blockDim.x / kWarp; ++warp) part.add(shared[warp]);
  return part;
}

template <class T>
struct SquaresItem {
  const T* x = nullptr;
  std::int64_t count = 0;
  bool wide = false;
};

/// parts[block] = (first ? 0 : itself) + the squares of the chunks block, block + gridDim.x, ...
template <class T>
__global__ void sum_chunks(const ChunkTable<SquaresItem<T>> table, unsigned chunks, double weight, bool first,
                           ExactPart* parts) {
  __shared__ ExactPart shared[kMaxWarps];
  ExactPart sum{};
  for (unsigned chunk = blockIdx.x; chunk < chunks; chunk += gridDim.x) {
    const ChunkPlace at = table.place(chunk);
    const SquaresItem<T>& item = table.items[at.item];
    for_each_pack_of_chunk(at.first, item.count, [&](std::int64_t offset, std::int64_t left) {
      const Eight x = load8(item.x + offset, left, item.wide);
      for (const float value : x.v) sum.add(weight * static_cast<double>(value) * static_cast<double>(value));
    });
  }
  sum = block_sum(sum, shared);
  if (threadIdx.x != 0) return;
  if (!first) sum.add(parts[blockIdx.x]);
  parts[blockIdx.x] = sum;
}

/// One block: adds the parts' sum to the digits.
__global__ void add_to_digits(const ExactPart* parts, unsigned count, float* digits) {
  __shared__ ExactPart shared[kMaxWarps];
  ExactPart sum{};
  for (unsigned i = threadIdx.x; i < count; i += blockDim.x) sum.add(parts[i]);
  sum = block_sum(sum, shared);
  if (threadIdx.x != 0) return;
  for (int i = 0; i < kExactSumDigits; ++i) {
    const auto digit = static_cast<unsigned>(sum.low & ((1u << kDigitBits) - 1));
    digits[i] += sum.broken != 0 ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(digit);
    sum.low = sum.low >> kDigitBits | sum.high << (64 - kDigitBits);
    sum.high >>= kDigitBits;
  }
}

/// As many blocks as the inputs' elements fill chunks.
std::int64_t blocks_of(std::int64_t n) { return std::clamp<std::int64_t>(div_ceil(n, kChunk), 1, kMaxBlocks); }

__global__ void clip(const float* digits, float limit, float* out) {
  double value = 0, digit_scale = 0x1p-84;
  for (int i = 0; i < kExactSumDigits; ++i) {
    value += static_cast<double>(digits[i]) * digit_scale;
    digit_scale *= 1 << kDigitBits;
  }
  const auto norm = static_cast<float>(sqrt(value));
  out[0] = norm;
  // Compared so that a norm that is not a number gives a coefficient that is not: it must show.
  const float coefficient = limit / (norm + 1e-6f);
  out[1] = limit == 0 || coefficient > 1.0f ? 1.0f : coefficient;
}

}  // namespace

std::uint64_t sum_squares_workspace(const OpShape& shape) {
  return static_cast<std::uint64_t>(blocks_of(shape.dims[0])) * sizeof(ExactPart);
}

void sum_squares(const KernelCall& call) {
  CHECK(call.operands.size() >= 2) << "sum_squares takes at least one input and the sum";
  const std::size_t inputs = call.operands.size() - 1;
  const auto blocks = static_cast<unsigned>(blocks_of(call.dim(0)));
  auto* parts = call.scratch<ExactPart>(blocks);
  auto* digits = call.operand<float>(inputs, kExactSumDigits);
  with_type(call.shape.dtype, [&](auto type) {
    using T = decltype(type);
    bool first = true;
    ChunkLauncher<SquaresItem<T>> launcher([&](const ChunkTable<SquaresItem<T>>& table, unsigned chunks) {
      launch(sum_chunks<T>, blocks, kChunkThreads, call.stream, table, chunks, static_cast<double>(call.scalar(0)),
             first, parts);
      first = false;
    });
    std::int64_t elements = 0;
    for (std::size_t input = 0; input < inputs; ++input) {
      const std::int64_t count = call.elements(input, call.shape.dtype);
      const T* x = call.operand<const T>(input, count);
      launcher.add({x, count, wide_access(1, count, {x})}, count);
      elements += count;
    }
    CHECK(elements == call.dim(0)) << "sum_squares: inputs have " << elements << " elements, not " << call.dim(0);
    launcher.finish();
    if (first) return;  // nothing to add
    launch(add_to_digits, 1, kChunkThreads, call.stream, parts, blocks, digits);
  });
}

void clip_coefficient(const KernelCall& call) {
  call.expect_operands(2);
  const auto* digits = call.operand<const float>(0, kExactSumDigits);
  auto* out = call.operand<float>(1, 2);
  launch(clip, 1, 1, call.stream, digits, call.scalar(0), out);
}

}  // namespace benchsuite::cuda
