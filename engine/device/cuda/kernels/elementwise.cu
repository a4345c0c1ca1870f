// Ops whose result at a place depends on their inputs at that place and on a bias: one pack of eight elements a thread.
#include "engine/device/cuda/kernels/dtypes.h"
#include "engine/device/cuda/kernels/kernels.h"
#include "engine/device/cuda/kernels/pack_grid.h"
#include "engine/device/cuda/launch.h"

namespace benchsuite::cuda {
namespace {

// GELU in the tanh form with the constants of Megatron-LM's fused_bias_gelu: sqrt(2 / pi) to eight digits.
constexpr float kSlope = 0.79788456f;
constexpr float kCubic = 0.044715f;

__device__ inline float gelu_of(float x) { return 0.5f * x * (1.0f + tanhf(kSlope * x * (1.0f + kCubic * x * x))); }

__device__ inline float gelu_slope(float x) {
  const float t = tanhf(kSlope * x * (1.0f + kCubic * x * x));
  return 0.5f * x * (1.0f - t * t) * kSlope * (1.0f + 3.0f * kCubic * x * x) + 0.5f * (1.0f + t);
}

__device__ inline float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

// What one element of the output is, from the first input, the second and the bias of the column.
struct BiasAdd {
  static constexpr bool kSecond = false, kBias = true;
  __device__ float operator()(float x, float, float bias) const { return x + bias; }
};
struct Gelu {
  static constexpr bool kSecond = false, kBias = false;
  __device__ float operator()(float x, float, float) const { return gelu_of(x); }
};
struct GeluBackward {
  static constexpr bool kSecond = true, kBias = false;
  __device__ float operator()(float dy, float x, float) const { return dy * gelu_slope(x); }
};
struct BiasGelu {
  static constexpr bool kSecond = false, kBias = true;
  __device__ float operator()(float x, float, float bias) const { return gelu_of(x + bias); }
};
struct BiasGeluBackward {
  static constexpr bool kSecond = true, kBias = true;
  __device__ float operator()(float dy, float x, float bias) const { return dy * gelu_slope(x + bias); }
};
struct Add {
  static constexpr bool kSecond = true, kBias = false;
  __device__ float operator()(float a, float b, float) const { return a + b; }
};
struct Same {
  static constexpr bool kSecond = false, kBias = false;
  __device__ float operator()(float x, float, float) const { return x; }
};

template <class In, class Out, class Body>
__global__ void pointwise(Body body, PackGrid grid, const In* first, const In* second, const In* bias, Out* y) {
  const PackPlace at = grid.place();
  if (at.left <= 0) return;
  const Eight x = load8(first + at.offset, at.left, grid.wide);
  Eight other{}, shift{};
  if constexpr (Body::kSecond) other = load8(second + at.offset, at.left, grid.wide);
  if constexpr (Body::kBias) shift = load8(bias + at.column, at.left, grid.wide);
  Eight out;
#pragma unroll
  for (int i = 0; i < kPack; ++i) out.v[i] = body(x.v[i], other.v[i], shift.v[i]);
  store8(y + at.offset, out, at.left, grid.wide);
}

/// Rows x cols with a bias of cols; without a bias it is one row. Operands: first [, second] [, bias], y.
template <class In, class Out, class Body>
void run(const KernelCall& call, Body body, std::int64_t rows, std::int64_t cols) {
  std::size_t next = 0;
  const In* first = call.operand<const In>(next++, rows * cols);
  const In* second = Body::kSecond ? call.operand<const In>(next++, rows * cols) : nullptr;
  const In* bias = Body::kBias ? call.operand<const In>(next++, cols) : nullptr;
  Out* y = call.operand<Out>(next, rows * cols);
  call.expect_operands(next + 1);
  const PackGrid grid(rows, cols, wide_access(rows, cols, {first, second, bias, y}));
  if (grid.empty()) return;
  launch(pointwise<In, Out, Body>, grid.blocks(), grid.threads(), call.stream, body, grid, first, second, bias, y);
}

template <class Body>
void run_in_rows(const KernelCall& call, Body body) {
  with_one_type(call, [&](auto type) {
    using T = decltype(type);
    run<T, T>(call, body, call.dim(0), call.dim(1));
  });
}
template <class Body>
void run_flat(const KernelCall& call, Body body, std::int64_t n) {
  with_one_type(call, [&](auto type) {
    using T = decltype(type);
    run<T, T>(call, body, 1, n);
  });
}

// SwiGLU (Shazeer 2020): silu(gate) up, gate and up side by side.
template <class T>
__global__ void swiglu_forward(PackGrid grid, const T* x, T* y) {
  const PackPlace at = grid.place();
  if (at.left <= 0) return;
  const T* from = x + 2 * at.offset;
  const Eight low = load8(from, 2 * at.left, grid.wide), high = load8(from + kPack, 2 * at.left - kPack, grid.wide);
  Eight out;
#pragma unroll
  for (int i = 0; i < kPack; ++i) {
    const float gate = i < 4 ? low.v[2 * i % kPack] : high.v[2 * i % kPack];
    const float up = i < 4 ? low.v[(2 * i + 1) % kPack] : high.v[(2 * i + 1) % kPack];
    out.v[i] = gate * sigmoid(gate) * up;
  }
  store8(y + at.offset, out, at.left, grid.wide);
}

template <class T>
__global__ void swiglu_gradient(PackGrid grid, const T* dy, const T* x, T* dx) {
  const PackPlace at = grid.place();
  if (at.left <= 0) return;
  const T* from = x + 2 * at.offset;
  const Eight gradients = load8(dy + at.offset, at.left, grid.wide);
  const Eight low = load8(from, 2 * at.left, grid.wide), high = load8(from + kPack, 2 * at.left - kPack, grid.wide);
  Eight out[2];
#pragma unroll
  for (int i = 0; i < kPack; ++i) {
    const float gate = i < 4 ? low.v[2 * i % kPack] : high.v[2 * i % kPack];
    const float up = i < 4 ? low.v[(2 * i + 1) % kPack] : high.v[(2 * i + 1) % kPack];
    const float s = sigmoid(gate), gradient = gradients.v[i];
    out[i / 4].v[2 * i % kPack] = gradient * up * s * (1.0f + gate * (1.0f - s));
    out[i / 4].v[(2 * i + 1) % kPack] = gradient * gate * s;
  }
  T* to = dx + 2 * at.offset;
  store8(to, out[0], 2 * at.left, grid.wide);
  store8(to + kPack, out[1], 2 * at.left - kPack, grid.wide);
}

template <class In, class Out>
__global__ void accumulate_into(PackGrid grid, const In* x, Out* y) {
  const PackPlace at = grid.place();
  if (at.left <= 0) return;
  Eight sum = load8(y + at.offset, at.left, grid.wide);
  const Eight more = load8(x + at.offset, at.left, grid.wide);
#pragma unroll
  for (int i = 0; i < kPack; ++i) sum.v[i] += more.v[i];
  store8(y + at.offset, sum, at.left, grid.wide);
}

/// The pieces lie one after the other, grid.cols apart, and are added in that order.
template <class T>
__global__ void sum_in_order(PackGrid grid, std::int64_t pieces, const T* x, T* y) {
  const PackPlace at = grid.place();
  if (at.left <= 0) return;
  Eight sum = load8(x + at.offset, at.left, grid.wide);
  for (std::int64_t piece = 1; piece < pieces; ++piece) {
    const Eight more = load8(x + piece * grid.cols + at.offset, at.left, grid.wide);
#pragma unroll
    for (int i = 0; i < kPack; ++i) sum.v[i] += more.v[i];
  }
  store8(y + at.offset, sum, at.left, grid.wide);
}

}  // namespace

void bias_add(const KernelCall& call) { run_in_rows(call, BiasAdd{}); }
void gelu(const KernelCall& call) { run_flat(call, Gelu{}, call.dim(0) * call.dim(1)); }
void gelu_backward(const KernelCall& call) { run_flat(call, GeluBackward{}, call.dim(0) * call.dim(1)); }
void bias_gelu(const KernelCall& call) { run_in_rows(call, BiasGelu{}); }
void bias_gelu_backward(const KernelCall& call) { run_in_rows(call, BiasGeluBackward{}); }
void add(const KernelCall& call) { run_flat(call, Add{}, call.dim(0)); }

void accumulate(const KernelCall& call) {
  call.expect_operands(2);
  const std::int64_t n = call.dim(0);
  with_type(call.shape.dtype, [&](auto in) {
    with_type(call.shape.out_dtype, [&](auto out) {
      using In = decltype(in);
      using Out = decltype(out);
      const In* x = call.operand<const In>(0, n);
      Out* y = call.operand<Out>(1, n);
      const PackGrid grid(1, n, wide_access(1, n, {x, y}));
      if (grid.empty()) return;
      launch(accumulate_into<In, Out>, grid.blocks(), grid.threads(), call.stream, grid, x, y);
    });
  });
}

void sum_pieces(const KernelCall& call) {
  call.expect_operands(2);
  const std::int64_t n = call.dim(0), pieces = call.dim(1);
  with_one_type(call, [&](auto type) {
    using T = decltype(type);
    const T* x = call.operand<const T>(0, n * pieces);
    T* y = call.operand<T>(1, n);
    const PackGrid grid(1, n, wide_access(pieces, n, {x, y}));
    if (grid.empty()) return;
    launch(sum_in_order<T>, grid.blocks(), grid.threads(), call.stream, grid, pieces, x, y);
  });
}

void cast(const KernelCall& call) {
  with_type(call.shape.dtype, [&](auto in) {
    with_type(call.shape.out_dtype, [&](auto out) { run<decltype(in), decltype(out)>(call, Same{}, 1, call.dim(0)); });
  });
}

void swiglu(const KernelCall& call) {
  call.expect_operands(2);
  with_one_type(call, [&](auto type) {
    using T = decltype(type);
    const std::int64_t n = call.dim(0) * call.dim(1);
    const T* x = call.operand<const T>(0, 2 * n);
    T* y = call.operand<T>(1, n);
    const PackGrid grid(1, n, wide_access(1, n, {x, y}));
    if (grid.empty()) return;
    launch(swiglu_forward<T>, grid.blocks(), grid.threads(), call.stream, grid, x, y);
  });
}

void swiglu_backward(const KernelCall& call) {
  call.expect_operands(3);
  with_one_type(call, [&](auto type) {
    using T = decltype(type);
    const std::int64_t n = call.dim(0) * call.dim(1);
    const T* dy = call.operand<const T>(0, n);
    const T* x = call.operand<const T>(1, 2 * n);
    T* dx = call.operand<T>(2, 2 * n);
    const PackGrid grid(1, n, wide_access(1, n, {dy, x, dx}));
    if (grid.empty()) return;
    launch(swiglu_gradient<T>, grid.blocks(), grid.threads(), call.stream, grid, dy, x, dx);
  });
}

}  // namespace benchsuite::cuda
