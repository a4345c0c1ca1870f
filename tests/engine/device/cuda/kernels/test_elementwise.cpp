// Elementwise ops against their formulas in double.
#include <cmath>
#include <numbers>
#include <numeric>

#include "tests/engine/device/cuda/kernels/kernel_case.h"

namespace benchsuite::testing_cuda {
namespace {

struct Size {
  std::int64_t rows, cols;
};
// One element, less than a pack, whole packs, packs and a rest, several blocks.
constexpr Size kSizes[] = {{1, 1}, {3, 5}, {4, 24}, {7, 72}, {3, 1031}};

class Elementwise : public ::testing::TestWithParam<DType> {
 protected:
  DType type() const { return GetParam(); }
  Numbers numbers_;
};
INSTANTIATE_TEST_SUITE_P(Types, Elementwise, ::testing::Values(DType::fp32, DType::bf16),
                         [](const auto& instance) { return std::string(name_of(instance.param)); });

double gelu_of(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}
/// Derivative of the above, and the sum of the absolute values of its terms before they cancel.
std::pair<double, double> gelu_slope(double x) {
  const double k = std::sqrt(2 / std::numbers::pi), t = std::tanh(k * (x + 0.044715 * x * x * x));
  const double inner = 0.5 * x * k * (1 + 3 * 0.044715 * x * x);
  return {inner * (1 - t * t) + 0.5 * (1 + t), std::abs(inner) + 1};
}

// tanh to 2 ulp; its argument, four roundings off, changes it by less than half of that relative error.
constexpr double kGeluUlps = 8;
// The same tanh squared, then five products and sums.
constexpr double kGeluSlopeUlps = 12;
// exp to 2 ulp, a sum, a division, two products.
constexpr double kSigmoidUlps = 8;

TEST_P(Elementwise, BiasAdd) {
  for (const auto [rows, cols] : kSizes) {
    const auto x = numbers_.normal(rows * cols, type()), bias = numbers_.normal(cols, type());
    Expected y{.type = type(), .values = x};
    for (std::size_t i = 0; i < x.size(); ++i) y.values[i] += bias[i % bias.size()];
    Case(shape_of(OpKind::bias_add, {rows, cols}, type()))
        .reads(type(), x)
        .reads(type(), bias)
        .writes(y)
        .may_alias(2, 0)
        .check();
  }
}

TEST_P(Elementwise, Gelu) {
  for (const auto [rows, cols] : kSizes) {
    const auto x = numbers_.normal(rows * cols, type(), 3);
    Expected y{.type = type(), .values = x, .ulps = kGeluUlps, .magnitudes = x};
    for (std::size_t i = 0; i < x.size(); ++i) y.values[i] = gelu_of(x[i]), y.magnitudes[i] = std::abs(x[i]);
    Case(shape_of(OpKind::gelu, {rows, cols}, type())).reads(type(), x).writes(y).may_alias(1, 0).check();
  }
}

TEST_P(Elementwise, GeluBackward) {
  for (const auto [rows, cols] : kSizes) {
    const auto dy = numbers_.normal(rows * cols, type()), x = numbers_.normal(rows * cols, type(), 3);
    Expected dx{.type = type(), .values = x, .ulps = kGeluSlopeUlps, .magnitudes = x};
    for (std::size_t i = 0; i < x.size(); ++i) {
      const auto [slope, magnitude] = gelu_slope(x[i]);
      dx.values[i] = dy[i] * slope;
      dx.magnitudes[i] = std::abs(dy[i]) * magnitude;
    }
    Case(shape_of(OpKind::gelu_backward, {rows, cols}, type()))
        .reads(type(), dy)
        .reads(type(), x)
        .writes(dx)
        .may_alias(2, 1)
        .check();
  }
}

TEST_P(Elementwise, BiasGelu) {
  for (const auto [rows, cols] : kSizes) {
    const auto x = numbers_.normal(rows * cols, type(), 2), bias = numbers_.normal(cols, type());
    Expected y{.type = type(), .values = x, .ulps = kGeluUlps, .magnitudes = x};
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double biased = x[i] + bias[i % bias.size()];
      y.values[i] = gelu_of(biased);
      y.magnitudes[i] = std::abs(biased);
    }
    Case(shape_of(OpKind::bias_gelu, {rows, cols}, type()))
        .reads(type(), x)
        .reads(type(), bias)
        .writes(y)
        .may_alias(2, 0)
        .check();
  }
}

TEST_P(Elementwise, BiasGeluBackward) {
  for (const auto [rows, cols] : kSizes) {
    const auto dy = numbers_.normal(rows * cols, type()), x = numbers_.normal(rows * cols, type(), 2);
    const auto bias = numbers_.normal(cols, type());
    Expected dx{.type = type(), .values = x, .ulps = kGeluSlopeUlps, .magnitudes = x};
    for (std::size_t i = 0; i < x.size(); ++i) {
      const auto [slope, magnitude] = gelu_slope(x[i] + bias[i % bias.size()]);
      dx.values[i] = dy[i] * slope;
      dx.magnitudes[i] = std::abs(dy[i]) * magnitude;
    }
    Case(shape_of(OpKind::bias_gelu_backward, {rows, cols}, type()))
        .reads(type(), dy)
        .reads(type(), x)
        .reads(type(), bias)
        .writes(dx)
        .may_alias(3, 0)
        .check();
  }
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

TEST_P(Elementwise, SwiGlu) {
  for (const auto [rows, cols] : kSizes) {
    const auto x = numbers_.normal(2 * rows * cols, type(), 3);
    Expected y{.type = type(), .values = std::vector<double>(x.size() / 2), .ulps = kSigmoidUlps};
    for (std::size_t i = 0; i < y.values.size(); ++i) y.values[i] = x[2 * i] * sigmoid(x[2 * i]) * x[2 * i + 1];
    Case(shape_of(OpKind::swiglu, {rows, cols}, type())).reads(type(), x).writes(y).check();
  }
}

TEST_P(Elementwise, SwiGluBackward) {
  for (const auto [rows, cols] : kSizes) {
    const auto dy = numbers_.normal(rows * cols, type()), x = numbers_.normal(2 * rows * cols, type(), 3);
    Expected dx{.type = type(), .values = x, .ulps = kSigmoidUlps, .magnitudes = x};
    for (std::size_t i = 0; i < dy.size(); ++i) {
      const double gate = x[2 * i], up = x[2 * i + 1], s = sigmoid(gate);
      dx.values[2 * i] = dy[i] * up * s * (1 + gate * (1 - s));
      dx.magnitudes[2 * i] = std::abs(dy[i] * up * s) * (1 + std::abs(gate));  // 1 - s cancels
      dx.values[2 * i + 1] = dy[i] * gate * s;
      dx.magnitudes[2 * i + 1] = std::abs(dx.values[2 * i + 1]);
    }
    Case(shape_of(OpKind::swiglu_backward, {rows, cols}, type()))
        .reads(type(), dy)
        .reads(type(), x)
        .writes(dx)
        .may_alias(2, 1)
        .check();
  }
}

TEST_P(Elementwise, Add) {
  for (const std::int64_t n : {1, 8, 15, 4096, 4099}) {
    const auto a = numbers_.normal(n, type()), b = numbers_.normal(n, type());
    Expected y{.type = type(), .values = a};
    for (std::size_t i = 0; i < a.size(); ++i) y.values[i] += b[i];
    Case(shape_of(OpKind::add, {n}, type())).reads(type(), a).reads(type(), b).writes(y).may_alias(2, 1).check();
  }
}

TEST_P(Elementwise, AccumulateIntoBoth) {
  for (const DType out : {DType::fp32, DType::bf16}) {
    for (const std::int64_t n : {1, 8, 15, 4099}) {
      OpShape shape = shape_of(OpKind::accumulate, {n}, type());
      shape.out_dtype = out;
      const auto x = numbers_.normal(n, type()), before = numbers_.normal(n, out);
      Expected after{.type = out, .values = before};
      for (std::size_t i = 0; i < x.size(); ++i) after.values[i] += x[i];
      Case(shape).reads(type(), x).updates(before, after).check();
    }
  }
}

TEST_P(Elementwise, SumOfPieces) {
  constexpr std::int64_t kPieces = 3;
  for (const std::int64_t n : {1, 8, 15, 4096, 4099}) {
    const auto x = numbers_.normal(n * kPieces, type());
    const auto count = static_cast<std::size_t>(n);
    Expected y{.type = type(), .values = std::vector<double>(count), .ulps = 2, .magnitudes = std::vector<double>(count)};
    for (std::size_t i = 0; i < x.size(); ++i) {
      y.values[i % count] += x[i];
      y.magnitudes[i % count] += std::abs(x[i]);  // two additions of numbers no larger than this
    }
    Case(shape_of(OpKind::sum_pieces, {n, kPieces}, type())).reads(type(), x).writes(y).check();
  }
}

TEST_P(Elementwise, CastToBoth) {
  for (const DType out : {DType::fp32, DType::bf16}) {
    for (const std::int64_t n : {1, 8, 2063}) {
      OpShape shape = shape_of(OpKind::cast, {n}, type());
      shape.out_dtype = out;
      const auto x = numbers_.normal(n, type());
      Case(shape).reads(type(), x).writes({.type = out, .values = x}).check();
    }
  }
}

TEST(Cast, RoundsToTheNearestEvenAndKeepsTheSpecialNumbers) {
  OpShape shape = shape_of(OpKind::cast, {8}, DType::fp32);
  shape.out_dtype = DType::bf16;
  // Half way between two bf16, below and above an even one; just above the half; past the largest finite; the rest
  // stay.
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> x{1 + 0x1p-8, 1 + 3 * 0x1p-8, 1 + 0x1p-8 + 0x1p-20, 0x1.ffffp127, -inf, nan, 0, -2};
  Case(shape)
      .reads(DType::fp32, x)
      .writes({.type = DType::bf16, .values = {1, 1 + 0x1p-6, 1 + 0x1p-7, inf, -inf, nan, 0, -2}})
      .check();
}

TEST_P(Elementwise, Fill) {
  for (const std::int64_t n : {1, 12, 257, 5000}) {
    Case(shape_of(OpKind::fill, {n}, type(), {-1.5f}))
        .writes({.type = type(), .values = std::vector<double>(static_cast<std::size_t>(n), -1.5)})
        .check();
  }
}

/// Parts of uneven sizes; more of them than one launch takes, and one longer than a chunk.
std::vector<std::int64_t> part_sizes() {
  std::vector<std::int64_t> sizes{3, 8, 0, 9001, 1};
  for (std::int64_t i = 0; i < 30; ++i) sizes.push_back(7 * i % 23 + 1);
  return sizes;
}

TEST_P(Elementwise, PackAndUnpackAreEachOthersInverse) {
  const auto sizes = part_sizes();
  const std::int64_t total = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  const auto whole = numbers_.normal(total, type());
  Case pack(shape_of(OpKind::pack, {total}, type())), unpack(shape_of(OpKind::unpack, {total}, type()));
  unpack.reads(type(), whole);
  auto at = whole.begin();
  for (const std::int64_t size : sizes) {
    const std::vector<double> part(at, at + size);
    at += size;
    pack.reads(type(), part);
    unpack.writes({.type = type(), .values = part});
  }
  pack.writes({.type = type(), .values = whole});
  pack.check();
  unpack.check();
}

TEST_P(Elementwise, OpsOfNoElementsDoNothing) {
  const Expected none{.type = type()};
  Case(shape_of(OpKind::fill, {0}, type())).writes(none).check();
  Case(shape_of(OpKind::add, {0}, type())).reads(type(), {}).reads(type(), {}).writes(none).check();
  Case(shape_of(OpKind::gelu, {0, 5}, type())).reads(type(), {}).writes(none).check();
}

}  // namespace
}  // namespace benchsuite::testing_cuda
