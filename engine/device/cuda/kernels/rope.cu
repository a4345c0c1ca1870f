// Rotary positions (Su et al. 2021, in halves): channels i and i + d/2 of every query and key turn by
// position base^(-2i/d). A block takes one position of one sample, so that its angles are worked out once for all
// heads.
#include <numbers>

#include "engine/device/cuda/kernels/dtypes.h"
#include "engine/device/cuda/kernels/kernels.h"
#include "engine/device/cuda/kernels/vectors.h"
#include "engine/device/cuda/launch.h"

namespace benchsuite::cuda {
namespace {

constexpr unsigned kThreads = 128;
constexpr int kTable = 256;  // angles at once

/// Sine and cosine of any angle below 2^20 to 1e-14. The library's own keep a table in local memory for huge angles.
__device__ inline void sine_and_cosine(double angle, double* sine, double* cosine) {
  // pi/2 in two parts; the first has 33 bits, so that its products with the number of quarters are exact.
  constexpr double kHigh = 1.57079632673412561417e+00, kLow = 6.07710050650619224932e-11;
  const double quarters = rint(angle * (2 / std::numbers::pi));
  const double r = (angle - quarters * kHigh) - quarters * kLow, square = r * r;
  // Taylor series on [-pi/4, pi/4]; the terms left out are below 1e-16.
  double s = 0, c = 0;
#pragma unroll
  for (int n = 17; n >= 3; n -= 2) s = (1 - s) * square * (1.0 / (n * (n - 1)));
#pragma unroll
  for (int n = 16; n >= 2; n -= 2) c = (1 - c) * square * (1.0 / (n * (n - 1)));
  s = r * (1 - s);
  c = 1 - c;
  const int quadrant = static_cast<int>(static_cast<std::int64_t>(quarters) & 3);
  const double first = quadrant % 2 == 0 ? s : c, second = quadrant % 2 == 0 ? c : s;
  *sine = quadrant >= 2 ? -first : first;
  *cosine = quadrant == 1 || quadrant == 2 ? -second : second;
}

/// qkv is [s, b, u, served + 2, d]: of each of u groups the queries, the key, the value.
struct RopeShape {
  std::int64_t stride;  ///< from position to position
  int b, groups, served, d;
  std::int64_t first_position;
  double base, direction;
  bool wide;
};

template <class T>
__global__ void turn(RopeShape p, T* qkv) {
  __shared__ float cosine[kTable], sine[kTable];
  const int half = p.d / 2;
  const auto position = static_cast<double>(p.first_position + blockIdx.x);
  T* const sample =
      qkv + blockIdx.x * p.stride + static_cast<std::int64_t>(blockIdx.y) * p.groups * (p.served + 2) * p.d;
  for (int first = 0; first < half; first += kTable) {
    const int count = half - first < kTable ? half - first : kTable;
    __syncthreads();  // the table's last readers are done
    for (int i = static_cast<int>(threadIdx.x); i < count; i += kThreads) {
      const double frequency = pow(p.base, -2.0 * static_cast<double>(first + i) / static_cast<double>(p.d));
      double s = 0, c = 0;
      sine_and_cosine(position * frequency, &s, &c);
      cosine[i] = static_cast<float>(c);
      sine[i] = static_cast<float>(p.direction * s);
    }
    __syncthreads();
    const int packs = (count + kPack - 1) / kPack, heads = p.groups * (p.served + 1);
    for (int index = static_cast<int>(threadIdx.x); index < heads * packs; index += kThreads) {
      const int turned = index / packs, i = (index - turned * packs) * kPack;
      const int group = turned / (p.served + 1), slot = turned - group * (p.served + 1);
      T* const low = sample + static_cast<std::int64_t>(group * (p.served + 2) + slot) * p.d + first + i;
      T* const high = low + half;
      const Eight x = load8(low, count - i, p.wide), y = load8(high, count - i, p.wide);
      Eight turned_x, turned_y;
#pragma unroll
      for (int j = 0; j < kPack; ++j) {
        const float c = i + j < count ? cosine[i + j] : 0.0f, s = i + j < count ? sine[i + j] : 0.0f;
        turned_x.v[j] = x.v[j] * c - y.v[j] * s;
        turned_y.v[j] = y.v[j] * c + x.v[j] * s;
      }
      store8(low, turned_x, count - i, p.wide);
      store8(high, turned_y, count - i, p.wide);
    }
  }
}

void rotate(const KernelCall& call, double direction) {
  call.expect_operands(1);
  const std::int64_t s = call.dim(0), b = call.dim(1), a = call.dim(2), d = call.dim(3);
  const std::int64_t groups = call.dim(4) == 0 ? a : call.dim(4), served = div_exact(a, groups);
  CHECK(d % 2 == 0) << "rope turns pairs of channels, and " << d << " is odd";
  CHECK(call.dim(5) + s < 1 << 20) << "rope positions end at " << call.dim(5) + s << ", beyond 2^20";
  with_one_type(call, [&](auto type) {
    using T = decltype(type);
    T* qkv = call.operand<T>(0, s * b * groups * (served + 2) * d);
    if (s * b * a * d == 0) return;
    const RopeShape shape{.stride = b * groups * (served + 2) * d,
                          .b = narrow<int>(b),
                          .groups = narrow<int>(groups),
                          .served = narrow<int>(served),
                          .d = narrow<int>(d),
                          .first_position = call.dim(5),
                          .base = call.scalar(0),
                          .direction = direction,
                          .wide = d / 2 % kPack == 0 && wide_access(1, d, {qkv})};
    launch(turn<T>, dim3(narrow<unsigned>(s), narrow<unsigned>(b)), kThreads, call.stream, shape, qkv);
  });
}

}  // namespace

void rope(const KernelCall& call) { rotate(call, 1); }
void rope_backward(const KernelCall& call) { rotate(call, -1); }

}  // namespace benchsuite::cuda
