// Memory-bound kernels of a training step, bf16 in and out, fp32 inside. 16-byte accesses; columns are multiples of 8.
// Rows x cols matrices are row-major; what each op computes stands in engine/device/op_table.h under the same name.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

namespace gpu_check {

using Bf16 = __nv_bfloat16;

/// Eight bf16 as one 16-byte word.
struct Eight {
  float v[8];
};

__device__ inline Eight load8(const Bf16* p) {
  const uint4 raw = *reinterpret_cast<const uint4*>(p);
  const __nv_bfloat162* pair = reinterpret_cast<const __nv_bfloat162*>(&raw);
  Eight out;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 f = __bfloat1622float2(pair[i]);
    out.v[2 * i] = f.x;
    out.v[2 * i + 1] = f.y;
  }
  return out;
}

__device__ inline void store8(Bf16* p, const Eight& x) {
  uint4 raw;
  __nv_bfloat162* pair = reinterpret_cast<__nv_bfloat162*>(&raw);
#pragma unroll
  for (int i = 0; i < 4; ++i) pair[i] = __floats2bfloat162_rn(x.v[2 * i], x.v[2 * i + 1]);
  *reinterpret_cast<uint4*>(p) = raw;
}

__device__ inline float gelu(float x) { return 0.5f * x * (1.0f + tanhf(0.7978845608f * (x + 0.044715f * x * x * x))); }
__device__ inline float gelu_slope(float x) {
  const float t = tanhf(0.7978845608f * (x + 0.044715f * x * x * x));
  return 0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * 0.7978845608f * (1.0f + 3.0f * 0.044715f * x * x);
}

/// Counter-based random bits (Wang's hash), the same on host and device.
__host__ __device__ inline std::uint32_t random_bits(std::uint64_t counter, std::uint32_t seed) {
  std::uint32_t x =
      static_cast<std::uint32_t>(counter) * 2654435761u + static_cast<std::uint32_t>(counter >> 32) + seed;
  x = (x ^ 61u) ^ (x >> 16);
  x *= 9u;
  x ^= x >> 4;
  x *= 0x27d4eb2du;
  return x ^ (x >> 15);
}

enum class Pointwise : int {
  add,
  gelu,
  bias_gelu,
  gelu_backward,
  bias_gelu_backward,
  dropout,
  dropout_backward,
  bias_dropout_add
};

struct PointwiseArgs {
  const Bf16 *a = nullptr, *b = nullptr, *bias = nullptr;  ///< a: x or dy; b: second operand (x, residual)
  std::uint8_t* mask = nullptr;
  Bf16* y = nullptr;
  std::size_t count = 0;
  int cols = 1;
  float keep = 0.9f;
  std::uint32_t seed = 7;
};

template <Pointwise op>
__global__ void pointwise(PointwiseArgs p) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x * 8;
  for (std::size_t at = (static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x) * 8; at < p.count;
       at += step) {
    Eight x = load8(p.a + at), second{}, bias{};
    if constexpr (op == Pointwise::add || op == Pointwise::gelu_backward || op == Pointwise::bias_gelu_backward ||
                  op == Pointwise::bias_dropout_add)
      second = load8(p.b + at);
    if constexpr (op == Pointwise::bias_gelu || op == Pointwise::bias_gelu_backward ||
                  op == Pointwise::bias_dropout_add)
      bias = load8(p.bias + at % p.cols);
    std::uint64_t kept = 0;
    if constexpr (op == Pointwise::dropout_backward) kept = *reinterpret_cast<const std::uint64_t*>(p.mask + at);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if constexpr (op == Pointwise::add) x.v[i] += second.v[i];
      if constexpr (op == Pointwise::gelu) x.v[i] = gelu(x.v[i]);
      if constexpr (op == Pointwise::bias_gelu) x.v[i] = gelu(x.v[i] + bias.v[i]);
      if constexpr (op == Pointwise::gelu_backward) x.v[i] *= gelu_slope(second.v[i]);
      if constexpr (op == Pointwise::bias_gelu_backward) x.v[i] *= gelu_slope(second.v[i] + bias.v[i]);
      if constexpr (op == Pointwise::dropout || op == Pointwise::bias_dropout_add) {
        const bool keep = static_cast<float>(random_bits(at + i, p.seed) >> 8) * (1.0f / 16777216.0f) < p.keep;
        kept |= static_cast<std::uint64_t>(keep) << (8 * i);
        const float value = op == Pointwise::dropout ? x.v[i] : x.v[i] + bias.v[i];
        x.v[i] = (keep ? value / p.keep : 0.0f) + second.v[i];
      }
      if constexpr (op == Pointwise::dropout_backward) x.v[i] = (kept >> (8 * i)) & 1 ? x.v[i] / p.keep : 0.0f;
    }
    if constexpr (op == Pointwise::dropout || op == Pointwise::bias_dropout_add)
      *reinterpret_cast<std::uint64_t*>(p.mask + at) = kept;
    store8(p.y + at, x);
  }
}

template <bool maximum>
__device__ inline float block_reduce(float value, float* shared) {
  for (int offset = 16; offset > 0; offset /= 2) {
    const float other = __shfl_xor_sync(0xffffffffu, value, offset);
    value = maximum ? fmaxf(value, other) : value + other;
  }
  const int warp = threadIdx.x / 32, warps = blockDim.x / 32;
  __syncthreads();  // shared may still be read from the reduction before
  if (threadIdx.x % 32 == 0) shared[warp] = value;
  __syncthreads();
  value = shared[0];
  for (int i = 1; i < warps; ++i) value = maximum ? fmaxf(value, shared[i]) : value + shared[i];
  return value;
}

/// Rows of up to 8 * kChunks * blockDim.x columns stay in registers.
constexpr int kChunks = 4;

static __global__ void softmax_rows(const Bf16* x, Bf16* y, int cols) {
  __shared__ float shared[32];
  const std::size_t row = static_cast<std::size_t>(blockIdx.x) * cols;
  Eight part[kChunks];
  float most = -INFINITY;
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    const int at = (c * blockDim.x + threadIdx.x) * 8;
    if (at >= cols) continue;
    part[c] = load8(x + row + at);
    for (const float v : part[c].v) most = fmaxf(most, v);
  }
  most = block_reduce<true>(most, shared);
  float sum = 0;
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    const int at = (c * blockDim.x + threadIdx.x) * 8;
    if (at >= cols) continue;
    for (float& v : part[c].v) sum += v = __expf(v - most);
  }
  sum = block_reduce<false>(sum, shared);
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    const int at = (c * blockDim.x + threadIdx.x) * 8;
    if (at >= cols) continue;
    for (float& v : part[c].v) v /= sum;
    store8(y + row + at, part[c]);
  }
}

static __global__ void softmax_backward_rows(const Bf16* dp, const Bf16* p, Bf16* ds, int cols) {
  __shared__ float shared[32];
  const std::size_t row = static_cast<std::size_t>(blockIdx.x) * cols;
  Eight grad[kChunks], prob[kChunks];
  float dot = 0;
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    const int at = (c * blockDim.x + threadIdx.x) * 8;
    if (at >= cols) continue;
    grad[c] = load8(dp + row + at);
    prob[c] = load8(p + row + at);
    for (int i = 0; i < 8; ++i) dot += grad[c].v[i] * prob[c].v[i];
  }
  dot = block_reduce<false>(dot, shared);
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    const int at = (c * blockDim.x + threadIdx.x) * 8;
    if (at >= cols) continue;
    for (int i = 0; i < 8; ++i) grad[c].v[i] = (grad[c].v[i] - dot) * prob[c].v[i];
    store8(ds + row + at, grad[c]);
  }
}

static __global__ void layernorm_rows(const Bf16* x, const Bf16* gamma, const Bf16* beta, Bf16* y, float* stats,
                                      int cols, float epsilon) {
  __shared__ float shared[32];
  const std::size_t row = static_cast<std::size_t>(blockIdx.x) * cols;
  Eight part[kChunks];
  float sum = 0;
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    const int at = (c * blockDim.x + threadIdx.x) * 8;
    if (at >= cols) continue;
    part[c] = load8(x + row + at);
    for (const float v : part[c].v) sum += v;
  }
  const float mean = block_reduce<false>(sum, shared) / cols;
  float square = 0;
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    const int at = (c * blockDim.x + threadIdx.x) * 8;
    if (at >= cols) continue;
    for (const float v : part[c].v) square += (v - mean) * (v - mean);
  }
  const float scale = rsqrtf(block_reduce<false>(square, shared) / cols + epsilon);
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    const int at = (c * blockDim.x + threadIdx.x) * 8;
    if (at >= cols) continue;
    const Eight g = load8(gamma + at), b = load8(beta + at);
    for (int i = 0; i < 8; ++i) part[c].v[i] = (part[c].v[i] - mean) * scale * g.v[i] + b.v[i];
    store8(y + row + at, part[c]);
  }
  if (threadIdx.x == 0) {
    stats[2 * blockIdx.x] = mean;
    stats[2 * blockIdx.x + 1] = scale;
  }
}

/// dx, and dgamma and dbeta added to fp32: each block takes rows blockIdx.x, blockIdx.x + gridDim.x, ... and adds its
/// column sums once at the end.
static __global__ void layernorm_backward_rows(const Bf16* dy, const Bf16* x, const Bf16* gamma, const float* stats,
                                               Bf16* dx, float* dgamma, float* dbeta, int rows, int cols) {
  __shared__ float shared[32];
  Eight g[kChunks], sum_gamma[kChunks] = {}, sum_beta[kChunks] = {};
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    const int at = (c * blockDim.x + threadIdx.x) * 8;
    if (at < cols) g[c] = load8(gamma + at);
  }
  for (int r = blockIdx.x; r < rows; r += gridDim.x) {
    const std::size_t row = static_cast<std::size_t>(r) * cols;
    const float mean = stats[2 * r], scale = stats[2 * r + 1];
    Eight grad[kChunks], hat[kChunks];
    float first = 0, second = 0;
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      const int at = (c * blockDim.x + threadIdx.x) * 8;
      if (at >= cols) continue;
      grad[c] = load8(dy + row + at);
      hat[c] = load8(x + row + at);
      for (int i = 0; i < 8; ++i) {
        hat[c].v[i] = (hat[c].v[i] - mean) * scale;
        sum_beta[c].v[i] += grad[c].v[i];
        sum_gamma[c].v[i] += grad[c].v[i] * hat[c].v[i];
        grad[c].v[i] *= g[c].v[i];
        first += grad[c].v[i];
        second += grad[c].v[i] * hat[c].v[i];
      }
    }
    first = block_reduce<false>(first, shared) / cols;
    second = block_reduce<false>(second, shared) / cols;
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      const int at = (c * blockDim.x + threadIdx.x) * 8;
      if (at >= cols) continue;
      for (int i = 0; i < 8; ++i) grad[c].v[i] = (grad[c].v[i] - first - hat[c].v[i] * second) * scale;
      store8(dx + row + at, grad[c]);
    }
  }
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    const int at = (c * blockDim.x + threadIdx.x) * 8;
    if (at >= cols) continue;
    for (int i = 0; i < 8; ++i) {
      atomicAdd(dgamma + at + i, sum_gamma[c].v[i]);
      atomicAdd(dbeta + at + i, sum_beta[c].v[i]);
    }
  }
}

/// Loshchilov and Hutter 2019: fp32 gradient and master state, bf16 parameter out.
static __global__ void adamw(const float* grad, float* master, float* m, float* v, Bf16* parameter, std::size_t count,
                             float rate, float beta1, float beta2, float epsilon, float decay, float correct1,
                             float correct2) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x * 4;
  for (std::size_t at = (static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x) * 4; at < count; at += step) {
    const float4 g4 = *reinterpret_cast<const float4*>(grad + at);
    float4 w4 = *reinterpret_cast<float4*>(master + at), m4 = *reinterpret_cast<float4*>(m + at),
           v4 = *reinterpret_cast<float4*>(v + at);
    const float* g = &g4.x;
    float *w = &w4.x, *first = &m4.x, *second = &v4.x;
    Bf16 out[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      first[i] = beta1 * first[i] + (1 - beta1) * g[i];
      second[i] = beta2 * second[i] + (1 - beta2) * g[i] * g[i];
      w[i] -= rate * (first[i] / correct1 / (sqrtf(second[i] / correct2) + epsilon) + decay * w[i]);
      out[i] = __float2bfloat16(w[i]);
    }
    *reinterpret_cast<float4*>(master + at) = w4;
    *reinterpret_cast<float4*>(m + at) = m4;
    *reinterpret_cast<float4*>(v + at) = v4;
    *reinterpret_cast<uint2*>(parameter + at) = *reinterpret_cast<const uint2*>(out);
  }
}

/// out += sum of squares, for the gradient norm.
static __global__ void sum_squares(const float* x, std::size_t count, float* out) {
  __shared__ float shared[32];
  float sum = 0;
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x * 4;
  for (std::size_t at = (static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x) * 4; at < count; at += step) {
    const float4 v = *reinterpret_cast<const float4*>(x + at);
    sum += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
  }
  sum = block_reduce<false>(sum, shared);
  if (threadIdx.x == 0) atomicAdd(out, sum);
}

}  // namespace gpu_check
