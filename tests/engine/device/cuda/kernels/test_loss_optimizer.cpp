// Cross-entropy, the gradient norm, clipping and AdamW.
#include <cmath>
#include <numeric>

#include "engine/core/exact_sum.h"
#include "engine/device/cuda/cuda_check.h"
#include "engine/device/cuda/kernels/adamw.h"
#include "tests/cuda_emulator/emulator.h"
#include "tests/engine/device/cuda/kernels/kernel_case.h"

namespace benchsuite::testing_cuda {
namespace {

double at(const std::vector<double>& values, std::int64_t i) { return values[static_cast<std::size_t>(i)]; }
double& at(std::vector<double>& values, std::int64_t i) { return values[static_cast<std::size_t>(i)]; }

struct Shard {
  std::int64_t tokens, cols, first_col;
};
// Labels run over three shards' columns; short, odd and long rows.
constexpr Shard kShards[] = {{1, 1, 0}, {5, 7, 7}, {9, 40, 40}, {3, 5003, 0}};

class CrossEntropy : public ::testing::TestWithParam<Shard> {
 protected:
  std::vector<std::int32_t> labels() {
    auto out = numbers_.integers(tokens, 0, static_cast<std::int32_t>(3 * cols - 1));
    out[0] = static_cast<std::int32_t>(first_col);  // the first column, and where there is room the last
    if (tokens > 1) out[1] = static_cast<std::int32_t>(first_col + cols - 1);
    return out;
  }
  std::int64_t local(const std::vector<std::int32_t>& labels, std::int64_t t) const {
    return labels[static_cast<std::size_t>(t)] - first_col;
  }
  bool has(std::int64_t label) const { return label >= 0 && label < cols; }

  const std::int64_t tokens = GetParam().tokens, cols = GetParam().cols, first_col = GetParam().first_col;
  Numbers numbers_;
};
INSTANTIATE_TEST_SUITE_P(Shards, CrossEntropy, ::testing::ValuesIn(kShards),
                         [](const auto& instance) { return "cols" + std::to_string(instance.param.cols); });

TEST_P(CrossEntropy, RowMaximum) {
  const auto logits = numbers_.normal(tokens * cols, DType::fp32, 5);
  Expected most{.type = DType::fp32};
  for (std::int64_t t = 0; t < tokens; ++t)
    most.values.push_back(*std::max_element(logits.begin() + t * cols, logits.begin() + (t + 1) * cols));
  Case(shape_of(OpKind::ce_max, {tokens, cols})).reads(DType::fp32, logits).writes(most).check();
}

TEST_P(CrossEntropy, ExponentialsAndTheLabelsLogit) {
  const auto logits = numbers_.normal(tokens * cols, DType::fp32, 5);
  const auto given = labels();
  // Above the row's own maximum, as that of another shard may be.
  std::vector<double> row_max;
  for (std::int64_t t = 0; t < tokens; ++t)
    row_max.push_back(
        rounded(*std::max_element(logits.begin() + t * cols, logits.begin() + (t + 1) * cols) + 0.5, DType::fp32));
  // exp to 2 ulp of a difference below 64, rounded to 2^-19.
  Expected exponentials{.type = DType::fp32, .values = logits, .ulps = 2 + 32};
  Expected predicted{.type = DType::fp32, .values = std::vector<double>(static_cast<std::size_t>(tokens))};
  // 5003 columns: ten packs a thread.
  Expected sums{.type = DType::fp32, .values = predicted.values, .ulps = 34 + 88 + 21};
  for (std::int64_t t = 0; t < tokens; ++t) {
    for (std::int64_t i = 0; i < cols; ++i) {
      at(exponentials.values, t * cols + i) = std::exp(at(logits, t * cols + i) - at(row_max, t));
      at(sums.values, t) += at(exponentials.values, t * cols + i);
    }
    const std::int64_t label = local(given, t);
    at(predicted.values, t) = has(label) ? at(logits, t * cols + label) - at(row_max, t) : 0;
  }
  Case(shape_of(OpKind::ce_sum, {tokens, cols, first_col}))
      .updates(logits, exponentials)
      .reads(DType::fp32, row_max)
      .reads(given)
      .writes(predicted)
      .writes(sums)
      .check();
}

TEST_P(CrossEntropy, ProbabilitiesAndLoss) {
  const auto exponentials = numbers_.uniform(tokens * cols, DType::fp32, 0, 1),
             predicted = numbers_.normal(tokens, DType::fp32);
  const auto sums = numbers_.uniform(tokens, DType::fp32, 1, 9);
  const float scale = 0.125f;
  Expected p{.type = DType::fp32, .values = exponentials, .ulps = 1};
  Expected loss{.type = DType::fp32, .values = {2}, .ulps = 2, .magnitudes = {2}};  // the sum in double, rounded; added
  for (std::int64_t t = 0; t < tokens; ++t) {
    for (std::int64_t i = 0; i < cols; ++i) at(p.values, t * cols + i) /= at(sums, t);
    loss.values[0] += scale * (std::log(at(sums, t)) - at(predicted, t));
    loss.magnitudes[0] += scale * std::abs(std::log(at(sums, t)) - at(predicted, t));
  }
  Case(shape_of(OpKind::ce_loss, {tokens, cols}, DType::fp32, {scale}))
      .updates(exponentials, p)
      .reads(DType::fp32, predicted)
      .reads(DType::fp32, sums)
      .updates({2}, loss)
      .check();
}

TEST_P(CrossEntropy, Gradient) {
  const auto p = numbers_.uniform(tokens * cols, DType::fp32, 0, 1);
  const auto given = labels();
  const float scale = 0.75f;
  Expected gradient{.type = DType::fp32, .values = p, .ulps = 2, .magnitudes = p};
  for (std::int64_t t = 0; t < tokens; ++t) {
    for (std::int64_t i = 0; i < cols; ++i) {
      const bool here = i == local(given, t);
      at(gradient.values, t * cols + i) = scale * (at(p, t * cols + i) - (here ? 1 : 0));
      at(gradient.magnitudes, t * cols + i) = here ? 1 : at(p, t * cols + i);
    }
  }
  Case(shape_of(OpKind::ce_backward, {tokens, cols, first_col}, DType::fp32, {scale}))
      .updates(p, gradient)
      .reads(given)
      .check();
}

TEST(CrossEntropyTypes, Bf16IsRefused) {
  EXPECT_THROW(
      Case(shape_of(OpKind::ce_max, {1, 2}, DType::bf16)).reads(DType::fp32, {1, 2}).writes({.values = {2}}).check(),
      Error);
}

class GradientNorm : public ::testing::TestWithParam<DType> {
 protected:
  DType type() const { return GetParam(); }
  /// The digits that the host's ExactSum makes of the same terms.
  static Expected digits_of(const std::vector<double>& terms, const std::vector<double>& before) {
    ExactSum sum;
    for (const double term : terms) sum.add(term);
    std::vector<float> digits(before.begin(), before.end());
    sum.add_to(digits);
    return {.type = DType::fp32, .values = {digits.begin(), digits.end()}};
  }
  void check(const std::vector<std::vector<double>>& inputs, float weight) {
    const std::vector<double> before(kExactSumDigits, 3);
    std::vector<double> terms;
    for (const auto& input : inputs) {
      for (const double x : input) terms.push_back(static_cast<double>(weight) * x * x);
    }
    Case test(shape_of(OpKind::sum_squares, {static_cast<std::int64_t>(terms.size())}, type(), {weight}));
    for (const auto& input : inputs) test.reads(type(), input);
    test.updates(before, digits_of(terms, before)).check();
  }
  Numbers numbers_;
};
INSTANTIATE_TEST_SUITE_P(Types, GradientNorm, ::testing::Values(DType::fp32, DType::bf16),
                         [](const auto& instance) { return std::string(name_of(instance.param)); });

TEST_P(GradientNorm, DigitsAreThoseOfTheHostBitForBit) {
  check({numbers_.normal(1, type())}, 1);
  check({numbers_.normal(4097, type(), 1e-3), numbers_.normal(5, type()), numbers_.normal(30000, type(), 100)}, 1);
}
TEST_P(GradientNorm, TermsOfEverySizeAreRoundedToMultiplesOfTheLastDigit) {
  std::vector<double> x;
  for (int exponent = -60; exponent < 18; ++exponent) {
    for (const double value : numbers_.uniform(7, type(), 1, 2))
      x.push_back(rounded(std::ldexp(value, exponent), type()));
  }
  check({x}, 1);
  check({x}, 0);
  check({x}, 0.3f);
}
TEST_P(GradientNorm, MoreInputsThanOneLaunchTakes) {
  std::vector<std::vector<double>> inputs;
  for (std::int64_t i = 0; i < 61; ++i) inputs.push_back(numbers_.normal(i * 37 % 300 + 1, type()));
  inputs[10] = numbers_.normal(9000, type());
  check(inputs, 1);
}
TEST_P(GradientNorm, WhatIsNotFiniteOrTooLargeShows) {
  for (const double bad : {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN(), 0x1p18}) {
    auto x = numbers_.normal(5000, type());
    x[4321] = bad;
    check({x}, 1);
  }
  check({std::vector<double>(5000, 0x1p17)}, 1);  // each term fits, their sum does not
  check({std::vector<double>(3, 0x1p17)}, 1);     // the largest sum that does
}

TEST(Clip, CoefficientAndNorm) {
  for (const double norm_squared : {4.0, 0.25, 0.0, 1e8}) {
    for (const float limit : {0.0f, 1.0f}) {
      ExactSum sum;
      sum.add(norm_squared);
      std::vector<float> digits(kExactSumDigits, 0);
      sum.add_to(digits);
      const double norm = std::sqrt(norm_squared), coefficient = limit == 0 ? 1 : std::min(1.0, limit / (norm + 1e-6));
      Case(shape_of(OpKind::clip_coefficient, {1}, DType::fp32, {limit}))
          .reads(DType::fp32, {digits.begin(), digits.end()})
          .writes({.type = DType::fp32, .values = {norm, coefficient}, .ulps = 2})
          .check();
    }
  }
}
TEST(Clip, ABrokenNormShows) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  Case(shape_of(OpKind::clip_coefficient, {1}, DType::fp32, {1.0f}))
      .reads(DType::fp32, std::vector<double>(kExactSumDigits, nan))
      .writes({.type = DType::fp32, .values = {nan, nan}})
      .check();
}

struct AdamTypes {
  DType gradient, parameter;
};
class AdamW : public ::testing::TestWithParam<AdamTypes> {
 protected:
  struct State {
    std::vector<double> gradient, master, first, second;
  };
  State state(std::int64_t n) {
    const DType fp32 = DType::fp32;
    return {numbers_.normal(n, GetParam().gradient, 0.1), numbers_.normal(n, fp32), numbers_.normal(n, fp32, 0.1),
            numbers_.uniform(n, fp32, 0, 0.02)};
  }
  struct After {
    Expected master, first, second, parameter;
  };
  /// Algorithm 2 of Loshchilov and Hutter, one element after the other.
  After after(const State& s) const {
    // Four roundings of a moment and of the master's sum.
    After out{.master = {.values = s.master, .ulps = 4, .magnitudes = s.master},
              .first = {.values = s.first, .ulps = 4, .magnitudes = s.first},
              .second = {.values = s.second, .ulps = 4, .magnitudes = s.second},
              .parameter = {.type = GetParam().parameter}};
    for (std::size_t i = 0; i < s.master.size(); ++i) {
      const double g = s.gradient[i] * clip_[1], b1 = scalars_[1], b2 = scalars_[2], step = scalars_[4];
      const double m = b1 * s.first[i] + (1 - b1) * g, v = b2 * s.second[i] + (1 - b2) * g * g;
      const double update =
          scalars_[0] * (m / (1 - std::pow(b1, step))) / (std::sqrt(v / (1 - std::pow(b2, step))) + scalars_[3]);
      const double m_size = std::abs(b1 * s.first[i]) + std::abs((1 - b1) * g);
      out.first.values[i] = m;
      out.first.magnitudes[i] = m_size;
      out.second.values[i] = v;
      out.second.magnitudes[i] = v;
      out.master.values[i] = s.master[i] - scalars_[0] * decay_ * s.master[i] - update;
      // Of the update: rate, root, correction, sum, product and quotient, half of v's four; and m's four, which may
      // cancel.
      out.master.magnitudes[i] = std::abs(s.master[i]) + std::abs(update) * (4 + m_size / std::max(std::abs(m), 1e-30));
    }
    out.parameter.values = out.master.values;
    out.parameter.ulps = out.master.ulps;
    out.parameter.magnitudes = out.master.magnitudes;
    return out;
  }

  const std::vector<double> scalars_{rounded(1e-3, DType::fp32), 0.875, 0.984375, rounded(1e-8, DType::fp32),
                                     7};  // betas whose complements are exact
  const std::vector<double> clip_{2, rounded(0.7, DType::fp32)};
  const float decay_ = 0.125f;
  Numbers numbers_;
};
INSTANTIATE_TEST_SUITE_P(Types, AdamW,
                         ::testing::Values(AdamTypes{DType::fp32, DType::fp32}, AdamTypes{DType::fp32, DType::bf16},
                                           AdamTypes{DType::bf16, DType::bf16}, AdamTypes{DType::bf16, DType::fp32}),
                         [](const auto& instance) {
                           return std::string(name_of(instance.param.gradient)) + "_" +
                                  std::string(name_of(instance.param.parameter));
                         });

TEST_P(AdamW, UpdatesMasterMomentsAndParameters) {
  for (const std::int64_t n : {1, 40, 5003}) {
    const State before = state(n);
    const After want = after(before);
    OpShape shape = shape_of(OpKind::adamw, {n}, GetParam().gradient, {decay_});
    shape.out_dtype = GetParam().parameter;
    Case test(shape);
    test.reads(GetParam().gradient, before.gradient).reads(DType::fp32, scalars_).reads(DType::fp32, clip_);
    test.updates(before.master, want.master).updates(before.first, want.first).updates(before.second, want.second);
    if (GetParam().parameter == DType::bf16) test.writes(want.parameter);
    test.check();
  }
}

TEST_P(AdamW, SeveralTensorsInOneLaunchAreThoseTensorsOneByOne) {
  cuda_emulator::reset({.order = cuda_emulator::ThreadOrder::shuffled});
  const DType gradient = GetParam().gradient, parameter = GetParam().parameter;
  struct Tensor {
    std::vector<std::vector<std::byte>> host;  // gradient, master, first, second, parameter
    std::vector<void*> together, alone;
  };
  std::vector<Tensor> tensors;
  const auto upload = [](const std::vector<std::byte>& bytes) {
    void* at = nullptr;
    CUDA_CHECK(cudaMalloc(&at, bytes.size()));
    CUDA_CHECK(cudaMemcpy(at, bytes.data(), bytes.size(), cudaMemcpyHostToDevice));
    return at;
  };
  for (std::int64_t i = 0; i < 31; ++i) {
    const State s = state(i == 3 ? 4500 : i * 29 % 150 + 1);
    Tensor tensor;
    tensor.host = {bytes_of(s.gradient, gradient), bytes_of(s.master, DType::fp32), bytes_of(s.first, DType::fp32),
                   bytes_of(s.second, DType::fp32), bytes_of(s.master, parameter)};
    std::fill(tensor.host.back().begin(), tensor.host.back().end(), std::byte{0xFF});
    for (const auto& bytes : tensor.host)
      tensor.together.push_back(upload(bytes)), tensor.alone.push_back(upload(bytes));
    tensors.push_back(std::move(tensor));
  }
  void* scalars = upload(bytes_of(scalars_, DType::fp32));
  void* clip = upload(bytes_of(clip_, DType::fp32));
  const cuda::AdamwScalars rates{
      .step = static_cast<float*>(scalars), .clip = static_cast<float*>(clip), .weight_decay = decay_};
  const auto view = [](const Tensor& tensor, const std::vector<void*>& at) {
    return cuda::AdamwTensor{.gradient = at[0],
                             .master = static_cast<float*>(at[1]),
                             .first_moment = static_cast<float*>(at[2]),
                             .second_moment = static_cast<float*>(at[3]),
                             .parameter = at[4],
                             .count = static_cast<std::int64_t>(tensor.host[1].size() / sizeof(float))};
  };
  std::vector<cuda::AdamwTensor> all;
  for (const Tensor& tensor : tensors) all.push_back(view(tensor, tensor.together));
  const auto before = cuda_emulator::counts().launches;
  adamw(all, gradient, parameter, rates, nullptr);
  EXPECT_EQ(cuda_emulator::counts().launches - before, 2);  // 24 in the first, 7 in the second
  for (const Tensor& tensor : tensors) {
    const cuda::AdamwTensor one = view(tensor, tensor.alone);
    adamw({&one, 1}, gradient, parameter, rates, nullptr);
  }
  CUDA_CHECK(cudaDeviceSynchronize());
  for (const Tensor& tensor : tensors) {
    for (std::size_t i = 0; i < tensor.host.size(); ++i) {
      std::vector<std::byte> a(tensor.host[i].size()), b(a.size());
      CUDA_CHECK(cudaMemcpy(a.data(), tensor.together[i], a.size(), cudaMemcpyDeviceToHost));
      CUDA_CHECK(cudaMemcpy(b.data(), tensor.alone[i], b.size(), cudaMemcpyDeviceToHost));
      EXPECT_EQ(a, b);
      EXPECT_EQ(a == tensor.host[i], i == 0);  // all but the gradient changed
      CUDA_CHECK(cudaFree(tensor.together[i]));
      CUDA_CHECK(cudaFree(tensor.alone[i]));
    }
  }
  CUDA_CHECK(cudaFree(scalars));
  CUDA_CHECK(cudaFree(clip));
}

}  // namespace
}  // namespace benchsuite::testing_cuda
