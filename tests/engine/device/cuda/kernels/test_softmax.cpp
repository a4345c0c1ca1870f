// Softmax ops, and scale, mask, softmax and dropout in one pass.
#include <cmath>

#include "engine/core/rng.h"
#include "engine/device/cuda/cuda_check.h"
#include "engine/device/cuda/kernels/attention_softmax.h"
#include "engine/device/op_table.h"
#include "tests/cuda_emulator/emulator.h"
#include "tests/engine/device/cuda/kernels/kernel_case.h"

namespace benchsuite::testing_cuda {
namespace {

double at(const std::vector<double>& values, std::int64_t i) { return values[static_cast<std::size_t>(i)]; }
double& at(std::vector<double>& values, std::int64_t i) { return values[static_cast<std::size_t>(i)]; }

struct Size {
  std::int64_t rows, cols;
};
// Square matrices (causal masks repeat every `cols` rows), short rows, rows of several warps.
constexpr Size kSizes[] = {{1, 1}, {6, 3}, {48, 24}, {13, 13}, {3, 1100}};
constexpr Size kLong[] = {{2, 16392}, {2, 16389}};

// Chains of at most 32 in a thread, 5 + 16 over warps; exp to 2 ulp; two products.
constexpr double kRowUlps = 32 + 21 + 6;

class Softmax : public ::testing::TestWithParam<DType> {
 protected:
  DType type() const { return GetParam(); }
  Numbers numbers_;
};
INSTANTIATE_TEST_SUITE_P(Types, Softmax, ::testing::Values(DType::fp32, DType::bf16),
                         [](const auto& instance) { return std::string(name_of(instance.param)); });

/// The rows of a matrix: 0: as many as columns.
struct Queries {
  std::int64_t first = 0, count = 0;
};
/// Keys that a row sees.
std::int64_t kept_of(const Size& size, std::int64_t row, bool causal, const Queries& queries) {
  return causal ? queries.first + row % (queries.count == 0 ? size.cols : queries.count) + 1 : size.cols;
}

/// Of scores already scaled. The log-sum-exp goes to `lse` when asked for.
std::vector<double> softmax_of(const std::vector<double>& scores, const Size& size, bool causal,
                               const Queries& queries = {}, std::vector<double>* lse = nullptr) {
  std::vector<double> out(scores.size(), 0);
  for (std::int64_t row = 0; row < size.rows; ++row) {
    const std::int64_t kept = kept_of(size, row, causal, queries);
    double most = -INFINITY, sum = 0;
    for (std::int64_t i = 0; i < kept; ++i) most = std::max(most, at(scores, row * size.cols + i));
    for (std::int64_t i = 0; i < kept; ++i) sum += std::exp(at(scores, row * size.cols + i) - most);
    for (std::int64_t i = 0; i < kept; ++i)
      at(out, row * size.cols + i) = std::exp(at(scores, row * size.cols + i) - most) / sum;
    if (lse) lse->push_back(most + std::log(sum));
  }
  return out;
}

void check_forward(Numbers& numbers, DType type, const Size& size, bool causal, double scale) {
  const auto scores = numbers.normal(size.rows * size.cols, type, scale);
  // The difference to the maximum is exact to half an ulp of the larger: exp turns that into a relative error.
  const double of_difference = 8 * scale;
  Case test([&] {
    OpShape shape = shape_of(OpKind::softmax, {size.rows, size.cols}, type);
    shape.causal = causal;
    return shape;
  }());
  test.reads(type, scores)
      .writes({.type = type, .values = softmax_of(scores, size, causal), .ulps = kRowUlps + of_difference});
  test.may_alias(1, 0).check();
}

TEST_P(Softmax, RowsAreDistributions) {
  for (const Size& size : kSizes) check_forward(numbers_, type(), size, false, 2);
}
TEST_P(Softmax, CausalRowsEndAtTheDiagonal) {
  for (const Size& size : kSizes) check_forward(numbers_, type(), size, true, 2);
}
TEST_P(Softmax, LongRows) {
  for (const Size& size : kLong) {
    for (const bool causal : {false, true}) check_forward(numbers_, type(), size, causal, 1);
  }
}
TEST_P(Softmax, LargeScoresDoNotOverflow) { check_forward(numbers_, type(), {4, 40}, false, 1000); }

TEST_P(Softmax, BeyondTheMaskScoresMayBeAnything) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  OpShape shape = shape_of(OpKind::softmax, {2, 2}, type());
  shape.causal = true;
  Case(shape).reads(type(), {5, nan, 1, 1}).writes({.type = type(), .values = {1, 0, 0.5, 0.5}}).check();
  shape.kind = OpKind::softmax_backward;
  Case(shape)
      .reads(type(), {5, nan, 1, 3})
      .reads(type(), {1, nan, 0.5, 0.5})
      .writes({.type = type(), .values = {0, 0, -0.5, 0.5}})
      .check();
}

TEST_P(Softmax, Backward) {
  std::vector<Size> sizes(std::begin(kSizes), std::end(kSizes));
  sizes.insert(sizes.end(), std::begin(kLong), std::end(kLong));
  for (const Size& size : sizes) {
    for (const bool causal : {false, true}) {
      const auto dp = numbers_.normal(size.rows * size.cols, type());
      auto p = softmax_of(numbers_.normal(size.rows * size.cols, type()), size, causal);
      for (double& value : p) value = rounded(value, type());
      Expected ds{.type = type(), .values = p, .ulps = kRowUlps, .magnitudes = p};
      for (std::int64_t row = 0; row < size.rows; ++row) {
        double dot = 0, magnitude = 0;
        for (std::int64_t i = row * size.cols; i < (row + 1) * size.cols; ++i)
          dot += at(p, i) * at(dp, i), magnitude += std::abs(at(p, i) * at(dp, i));
        for (std::int64_t i = row * size.cols; i < (row + 1) * size.cols; ++i) {
          at(ds.values, i) = at(p, i) * (at(dp, i) - dot);
          at(ds.magnitudes, i) = at(p, i) * (std::abs(at(dp, i)) + magnitude);
        }
      }
      OpShape shape = shape_of(OpKind::softmax_backward, {size.rows, size.cols}, type());
      shape.causal = causal;
      Case(shape).reads(type(), dp).reads(type(), p).writes(ds).may_alias(2, 0).check();
    }
  }
}

// The fused functions are no ops: a small bench of their own, and the same conditions.

class Array {
 public:
  Array(const std::vector<double>& values, DType type) : type_(type), bytes_(bytes_of(values, type)) {
    CUDA_CHECK(cudaMalloc(&address_, bytes_.size()));
    CUDA_CHECK(cudaMemcpy(address_, bytes_.data(), bytes_.size(), cudaMemcpyHostToDevice));
  }
  Array(std::size_t count, DType type) : type_(type), bytes_(count * static_cast<std::size_t>(size_of(type))) {
    CUDA_CHECK(cudaMalloc(&address_, bytes_.size()));
  }
  ~Array() { cudaFree(address_); }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  template <class T>
  T* as() const {
    return static_cast<T*>(address_);
  }
  std::vector<double> values() {
    CUDA_CHECK(cudaDeviceSynchronize());
    CUDA_CHECK(cudaMemcpy(bytes_.data(), address_, bytes_.size(), cudaMemcpyDeviceToHost));
    return values_of(bytes_, type_);
  }

 private:
  DType type_;
  std::vector<std::byte> bytes_;
  void* address_ = nullptr;
};

struct Fused {
  std::int64_t s, b, a, first_head;
  bool causal;
  float dropout;
  Queries queries = {};
  std::int64_t rows_of_matrix() const { return queries.count == 0 ? s : queries.count; }
};
// Whole matrices; a block of queries; rows that registers do not hold, in the backward pass and in both.
constexpr Fused kFused[] = {{1, 1, 1, 0, false, 0},
                            {8, 2, 3, 3, true, 0.3f},
                            {13, 2, 2, 2, true, 0.2f},
                            {24, 1, 2, 0, false, 0.5f},
                            {21, 2, 1, 1, false, 0},
                            {40, 2, 2, 1, true, 0.3f, {24, 9}},
                            {8200, 1, 1, 2, true, 0.1f, {8195, 3}},
                            {16389, 1, 1, 0, true, 0.1f, {16386, 2}},
                            {16392, 1, 1, 0, false, 0, {5, 1}}};

void expect_near(const std::vector<double>& got, const std::vector<double>& want, const std::vector<double>& magnitude,
                 double ulps, DType type) {
  ASSERT_EQ(got.size(), want.size());
  const double half = type == DType::bf16 ? 0x1p-8 : 0x1p-24;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double arithmetic = ulps * 0x1p-24 * magnitude[i];
    ASSERT_NEAR(got[i], want[i], arithmetic + half * (std::abs(want[i]) + arithmetic) + 0x1p-126)
        << "element " << i << " of " << got.size();
  }
}

std::vector<double> factors_of(const Fused& f, const std::vector<std::int32_t>& samples, std::int32_t layer) {
  std::vector<double> out;
  const auto word = [&](std::int64_t i) { return static_cast<std::uint32_t>(samples[static_cast<std::size_t>(i)]); };
  const std::int64_t rows = f.rows_of_matrix();
  for (std::int64_t i = 0; i < f.b * f.a * rows * f.s; ++i) {
    const std::int64_t key = i % f.s, query = f.queries.first + i / f.s % rows;
    const std::int64_t head = i / f.s / rows % f.a, sample = i / f.s / rows / f.a;
    const auto channel = static_cast<std::uint32_t>((f.first_head + head) * f.s + key);
    const PhiloxCounter words = philox(std::uint64_t{word(f.b)} << 32 | word(f.b + 1),
                                       {channel / 4, static_cast<std::uint32_t>(query), word(sample),
                                        static_cast<std::uint32_t>((layer + 1) * 256 + kAttentionDropout)});
    out.push_back(uniform_from(words[channel % 4]) >= f.dropout ? 1.0f / (1.0f - f.dropout) : 0.0f);
  }
  return out;
}

void check_fused(Numbers& numbers, const Fused& f, DType in, DType out) {
  SCOPED_TRACE("s " + std::to_string(f.s) + " from " + std::string(name_of(in)) + " to " + std::string(name_of(out)) +
               ", BENCHSUITE_TEST_SEED=" + std::to_string(fresh_seed()));
  const Size size{f.b * f.a * f.rows_of_matrix(), f.s};
  const std::int64_t n = size.rows * size.cols;
  const float scale = 0.37f;
  const std::int32_t layer = 5;
  const auto scores = numbers.normal(n, in, 4), gradient = numbers.normal(n, in);
  const auto samples = numbers.integers(f.b + 2, 0, 1 << 30);

  std::vector<double> scaled = scores, lse;
  for (double& value : scaled) value *= static_cast<double>(scale);
  const std::vector<double> whole = softmax_of(scaled, size, f.causal, f.queries, &lse),
                            factors = factors_of(f, samples, layer);
  std::vector<double> dropped = whole, ds = whole, ds_size = whole, lse_in = lse, lse_size = lse;
  for (std::int64_t row = 0; row < size.rows; ++row) {
    at(lse_in, row) = rounded(at(lse, row), DType::fp32);
    at(lse_size, row) =
        std::abs(at(lse, row)) + 20;  // the maximum, up to five deviations of 4 scaled, and the logarithm
    double dot = 0, magnitude = 0;
    for (std::int64_t i = row * f.s; i < (row + 1) * f.s; ++i) {
      dot += at(whole, i) * at(factors, i) * at(gradient, i);
      magnitude += std::abs(at(whole, i) * at(factors, i) * at(gradient, i));
    }
    for (std::int64_t i = row * f.s; i < (row + 1) * f.s; ++i) {
      at(dropped, i) *= at(factors, i);
      at(ds, i) = at(whole, i) * (at(gradient, i) * at(factors, i) - dot);
      at(ds_size, i) = at(whole, i) * (std::abs(at(gradient, i) * at(factors, i)) + magnitude);
    }
  }
  // exp of differences of numbers up to 20, off by some ulps of these.
  const double ulps = kRowUlps + 3 * 20;

  using cuda_emulator::Fill;
  using cuda_emulator::ThreadOrder;
  std::vector<std::vector<double>> first;
  for (const auto& [order, fill, in_place] : {std::tuple{ThreadOrder::forward, Fill::not_a_number, false},
                                              std::tuple{ThreadOrder::reverse, Fill::small, false},
                                              std::tuple{ThreadOrder::shuffled, Fill::not_a_number, in == out}}) {
    cuda_emulator::reset({.seed = fresh_seed(), .order = order, .fill = fill});
    const auto count = static_cast<std::size_t>(n);
    Array device_samples({samples.begin(), samples.end()}, DType::int32), device_scores(scores, in), again(scores, in),
        dp(gradient, in);
    Array p(count, out), device_lse(lse.size(), DType::fp32), row_lse(lse_in, DType::fp32), p_again(count, out),
        device_ds(count, out);
    const cuda::AttentionSoftmax what{.s = f.s,
                                      .b = f.b,
                                      .a = f.a,
                                      .first_head = f.first_head,
                                      .first_query = f.queries.first,
                                      .queries = f.queries.count,
                                      .in = in,
                                      .out = out,
                                      .scale = scale,
                                      .causal = f.causal,
                                      .dropout = f.dropout,
                                      .samples = device_samples.as<std::int32_t>(),
                                      .layer = layer};
    Array& to = in_place ? device_scores : p;
    Array& p_to = in_place ? again : p_again;
    Array& ds_to = in_place ? dp : device_ds;
    attention_softmax(what, device_scores.as<void>(), to.as<void>(), device_lse.as<float>(), nullptr);
    attention_softmax_backward(what, again.as<void>(), row_lse.as<float>(), dp.as<void>(), p_to.as<void>(),
                               ds_to.as<void>(), nullptr);
    const std::vector<std::vector<double>> got{to.values(), device_lse.values(), p_to.values(), ds_to.values()};
    ASSERT_EQ(cuda_emulator::failure(), "");
    if (first.empty()) first = got;
    EXPECT_EQ(got, first);
  }
  expect_near(first[0], dropped, dropped, ulps, out);
  expect_near(first[1], lse, lse_size, kRowUlps, DType::fp32);
  expect_near(first[2], dropped, dropped, ulps, out);
  expect_near(first[3], ds, ds_size, ulps, out);
}

TEST(AttentionSoftmax, ForwardAndBackwardInFp32) {
  Numbers numbers;
  for (const Fused& f : kFused) check_fused(numbers, f, DType::fp32, DType::fp32);
}
TEST(AttentionSoftmax, ForwardAndBackwardInBf16) {
  Numbers numbers;
  for (const Fused& f : kFused) check_fused(numbers, f, DType::bf16, DType::bf16);
}
TEST(AttentionSoftmax, ScoresInFp32GiveProbabilitiesInBf16) {
  Numbers numbers;
  for (const Fused& f : kFused) check_fused(numbers, f, DType::fp32, DType::bf16);
}

TEST(AttentionSoftmax, OtherTypesAndQueriesBeyondTheEndAreRefused) {
  const cuda::AttentionSoftmax beyond{.s = 4, .b = 1, .a = 1, .first_query = 2, .queries = 3};
  EXPECT_THROW(cuda::attention_softmax(beyond, nullptr, nullptr, nullptr, nullptr), Error);
  EXPECT_THROW(cuda::attention_softmax({.s = 1, .b = 1, .a = 1, .in = DType::bf16, .out = DType::fp32}, nullptr,
                                       nullptr, nullptr, nullptr),
               Error);
}

}  // namespace
}  // namespace benchsuite::testing_cuda
