// LayerNorm and RMSNorm, forward and backward, against their formulas in double.
#include <cmath>

#include "tests/engine/device/cuda/kernels/kernel_case.h"

namespace benchsuite::testing_cuda {
namespace {

struct Size {
  std::int64_t rows, cols;
};
// One column, less than a pack, one warp, several warps, a row that ends inside a pack; more rows than four a block.
constexpr Size kSizes[] = {{1, 1}, {5, 6}, {9, 96}, {3, 1048}, {2, 2571}, {1030, 5}};
// Longer than what a block keeps in registers.
constexpr Size kLong[] = {{3, 16392}, {2, 16389}};
constexpr float kEpsilon = 1e-5f;

class Norm : public ::testing::TestWithParam<DType> {
 protected:
  DType type() const { return GetParam(); }
  Numbers numbers_;
};
INSTANTIATE_TEST_SUITE_P(Types, Norm, ::testing::Values(DType::fp32, DType::bf16),
                         [](const auto& instance) { return std::string(name_of(instance.param)); });

double at(const std::vector<double>& values, std::int64_t i) { return values[static_cast<std::size_t>(i)]; }
double& at(std::vector<double>& values, std::int64_t i) { return values[static_cast<std::size_t>(i)]; }

struct Statistics {
  std::vector<double> mean, inverse;
  std::vector<double> spread;  ///< largest |x - mean| / sigma + |mean| / sigma of the row
};
Statistics statistics_of(const std::vector<double>& x, const Size& size, bool centered) {
  Statistics out;
  for (std::int64_t row = 0; row < size.rows; ++row) {
    double mean = 0, square = 0, most = 0;
    for (std::int64_t i = 0; i < size.cols; ++i) mean += at(x, row * size.cols + i) / static_cast<double>(size.cols);
    if (!centered) mean = 0;
    for (std::int64_t i = 0; i < size.cols; ++i) {
      const double off = at(x, row * size.cols + i) - mean;
      square += off * off / static_cast<double>(size.cols);
      most = std::max(most, std::abs(off));
    }
    out.mean.push_back(mean);
    out.inverse.push_back(1 / std::sqrt(square + static_cast<double>(kEpsilon)));
    out.spread.push_back((most + std::abs(mean)) * out.inverse.back());
  }
  return out;
}

/// Adds `rows` x `cols` values of a long sum: at most 32 in a chain for each thread, then 5 + 16 over warps.
double row_sum_ulps(std::int64_t cols) { return std::min<double>(static_cast<double>(cols), 32) + 21; }

void check_forward(Numbers& numbers, DType type, const Size& size, bool centered, double shift) {
  auto x = numbers.normal(size.rows * size.cols, type);
  for (double& value : x) value = rounded(value + shift, type);
  const auto gamma = numbers.normal(size.cols, type), beta = numbers.normal(size.cols, type);
  const Statistics statistics = statistics_of(x, size, centered);
  const double ulps = row_sum_ulps(size.cols);
  Expected y{.type = type, .values = x, .ulps = ulps, .magnitudes = x};
  Expected stats{.type = DType::fp32, .values = {}, .ulps = ulps, .magnitudes = {}};
  for (std::int64_t row = 0; row < size.rows; ++row) {
    const auto r = static_cast<std::size_t>(row);
    for (std::int64_t i = 0; i < size.cols; ++i) {
      const double normal = (at(x, row * size.cols + i) - statistics.mean[r]) * statistics.inverse[r];
      at(y.values, row * size.cols + i) = normal * at(gamma, i) + (centered ? at(beta, i) : 0);
      // The mean is off by a few ulps of the row's values, and so is each difference from it.
      at(y.magnitudes, row * size.cols + i) =
          statistics.spread[r] * std::abs(at(gamma, i)) + (centered ? std::abs(at(beta, i)) : 0);
    }
    if (centered) {
      stats.values.push_back(statistics.mean[r]);
      stats.magnitudes.push_back(std::abs(shift) + 5);  // terms of the mean: normal numbers below 5
    }
    stats.values.push_back(statistics.inverse[r]);
    // Squares around a mean that is off by some ulps of the values themselves.
    stats.magnitudes.push_back(statistics.inverse[r] * (1 + statistics.spread[r]));
  }
  Case test(shape_of(centered ? OpKind::layernorm : OpKind::rmsnorm, {size.rows, size.cols}, type, {kEpsilon}));
  test.reads(type, x).reads(type, gamma);
  if (centered) test.reads(type, beta);
  test.writes(y).writes(stats).may_alias(centered ? 3 : 2, 0).check();
}

TEST_P(Norm, LayerNorm) {
  for (const Size& size : kSizes) check_forward(numbers_, type(), size, true, 0);
}
TEST_P(Norm, LayerNormOfLongRows) {
  for (const Size& size : kLong) check_forward(numbers_, type(), size, true, 0.5);
}
TEST_P(Norm, LayerNormFarFromZeroDoesNotCancel) {
  // E[x^2] - E[x]^2 in fp32 would lose the variance: 1000^2 has ulps of 2^-4.
  check_forward(numbers_, DType::fp32, {4, 1000}, true, 1000);
}
TEST_P(Norm, RmsNorm) {
  for (const Size& size : kSizes) check_forward(numbers_, type(), size, false, 0.25);
}
TEST_P(Norm, RmsNormOfLongRows) {
  for (const Size& size : kLong) check_forward(numbers_, type(), size, false, 0);
}

/// dx = (g - mean(g) - n mean(g n)) / sigma with n = (x - mean) / sigma and g = dy gamma; the means over columns.
void check_backward(Numbers& numbers, DType type, DType accumulator, const Size& size, bool centered) {
  const auto dy = numbers.normal(size.rows * size.cols, type), x = numbers.normal(size.rows * size.cols, type);
  const auto gamma = numbers.normal(size.cols, type);
  const auto dgamma_before = numbers.normal(size.cols, accumulator),
             dbeta_before = numbers.normal(size.cols, accumulator);
  const Statistics exact = statistics_of(x, size, centered);
  std::vector<double> stats;
  for (std::size_t row = 0; row < exact.mean.size(); ++row) {
    if (centered) stats.push_back(rounded(exact.mean[row], DType::fp32));
    stats.push_back(rounded(exact.inverse[row], DType::fp32));
  }
  const double ulps = row_sum_ulps(size.cols) + 8;  // the sums, and what each element takes of its own
  Expected dx{.type = type, .values = dy, .ulps = ulps, .magnitudes = dy};
  // Over rows: at most 258 of a block's rows in a chain, then doubles over blocks; and the terms' own three roundings.
  const double column_ulps = std::min<double>(static_cast<double>(size.rows), 258) + 4;
  Expected dgamma{.type = accumulator, .values = dgamma_before, .ulps = column_ulps, .magnitudes = dgamma_before};
  Expected dbeta{.type = accumulator, .values = dbeta_before, .ulps = column_ulps, .magnitudes = dbeta_before};
  for (double& value : dgamma.magnitudes) value = std::abs(value);
  for (double& value : dbeta.magnitudes) value = std::abs(value);
  for (std::int64_t row = 0; row < size.rows; ++row) {
    const double mean = centered ? at(stats, 2 * row) : 0, inverse = at(stats, centered ? 2 * row + 1 : row);
    const auto n = static_cast<double>(size.cols);
    double g_mean = 0, gn_mean = 0, g_size = 0, gn_size = 0;
    const auto normal = [&](std::int64_t i) { return (at(x, row * size.cols + i) - mean) * inverse; };
    const auto normal_size = [&](std::int64_t i) {
      return (std::abs(at(x, row * size.cols + i)) + std::abs(mean)) * inverse;
    };
    for (std::int64_t i = 0; i < size.cols; ++i) {
      const double gradient = at(dy, row * size.cols + i), g = gradient * at(gamma, i);
      g_mean += centered ? g / n : 0;
      gn_mean += g * normal(i) / n;
      g_size += centered ? std::abs(g) / n : 0;
      gn_size += std::abs(g) * normal_size(i) / n;
      at(dgamma.values, i) += gradient * normal(i);
      at(dgamma.magnitudes, i) += std::abs(gradient) * normal_size(i);
      at(dbeta.values, i) += gradient;
      at(dbeta.magnitudes, i) += std::abs(gradient);
    }
    for (std::int64_t i = 0; i < size.cols; ++i) {
      const double g = at(dy, row * size.cols + i) * at(gamma, i);
      at(dx.values, row * size.cols + i) = (g - g_mean - normal(i) * gn_mean) * inverse;
      at(dx.magnitudes, row * size.cols + i) = (std::abs(g) + g_size + normal_size(i) * gn_size) * inverse;
    }
  }
  Case test(shape_of(centered ? OpKind::layernorm_backward : OpKind::rmsnorm_backward, {size.rows, size.cols}, type));
  test.reads(type, dy)
      .reads(type, x)
      .reads(type, gamma)
      .reads(DType::fp32, stats)
      .writes(dx)
      .updates(dgamma_before, dgamma);
  if (centered) test.updates(dbeta_before, dbeta);
  test.may_alias(4, 0).check();
}

TEST_P(Norm, LayerNormBackward) {
  for (const Size& size : kSizes) {
    for (const DType accumulator : {DType::fp32, DType::bf16})
      check_backward(numbers_, type(), accumulator, size, true);
  }
}
TEST_P(Norm, LayerNormBackwardOfLongRows) {
  for (const Size& size : kLong) check_backward(numbers_, type(), DType::fp32, size, true);
}
TEST_P(Norm, RmsNormBackward) {
  for (const Size& size : kSizes) {
    for (const DType accumulator : {DType::fp32, DType::bf16})
      check_backward(numbers_, type(), accumulator, size, false);
  }
}
TEST_P(Norm, RmsNormBackwardOfLongRows) {
  for (const Size& size : kLong) check_backward(numbers_, type(), DType::fp32, size, false);
}

TEST_P(Norm, BiasGradient) {
  // Fewer rows than a block takes at once, several groups of rows, columns beyond one slab.
  for (const Size size : {Size{1, 1}, Size{5, 3}, Size{33, 264}, Size{70, 301}, Size{300, 24}}) {
    for (const DType accumulator : {DType::fp32, DType::bf16}) {
      const auto dy = numbers_.normal(size.rows * size.cols, type()), before = numbers_.normal(size.cols, accumulator);
      // 32 rows of a block: four in a chain for each of eight warps; doubles after that.
      Expected dbias{.type = accumulator, .values = before, .ulps = 4 + 8 + 2, .magnitudes = before};
      for (double& value : dbias.magnitudes) value = std::abs(value);
      for (std::int64_t i = 0; i < size.rows * size.cols; ++i) {
        at(dbias.values, i % size.cols) += at(dy, i);
        at(dbias.magnitudes, i % size.cols) += std::abs(at(dy, i));
      }
      OpShape shape = shape_of(OpKind::bias_gradient, {size.rows, size.cols}, type());
      shape.out_dtype = accumulator;
      Case(shape).reads(type(), dy).updates(before, dbias).check();
    }
  }
}

}  // namespace
}  // namespace benchsuite::testing_cuda
