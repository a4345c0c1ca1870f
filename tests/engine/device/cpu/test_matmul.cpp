#include "engine/device/cpu/matmul.h"

#include "tests/engine/device/cpu/tiny_program.h"

namespace benchsuite::testing_cpu {
namespace {

// |C| <= k = 7 products below 1: fp32 rounding is at most k times 6e-8 of it.
constexpr double kTolerance = 2e-6;

TEST(Gemm, EveryVariantAgainstTheDefinition) {
  const std::int64_t m = 3, n = 5, k = 7;
  for (const std::int64_t batch : {1, 3}) {
    for (int variant = 0; variant < 8; ++variant) {
      const bool ta = variant & 1, tb = variant & 2, accumulate = variant & 4;
      OpShape shape = shape_of(OpKind::gemm, {m, n, k, batch});
      shape.transpose_a = ta;
      shape.transpose_b = tb;
      shape.accumulate = accumulate;
      Value a = random_value(batch * m * k, 1), b = random_value(batch * k * n, 2);
      Value c = accumulate ? random_value(batch * m * n, 3) : output(batch * m * n);
      std::vector<float> expected;
      for (std::int64_t i = 0; i < batch; ++i) {
        for (std::int64_t row = 0; row < m; ++row) {
          for (std::int64_t col = 0; col < n; ++col) {
            double sum = accumulate ? c.f[expected.size()] : 0.0;
            for (std::int64_t j = 0; j < k; ++j) {
              const auto left = static_cast<std::size_t>(i * m * k + (ta ? j * m + row : row * k + j));
              const auto right = static_cast<std::size_t>(i * k * n + (tb ? col * k + j : j * n + col));
              sum += static_cast<double>(a.f[left]) * b.f[right];
            }
            expected.push_back(static_cast<float>(sum));
          }
        }
      }
      run_op(shape, {in(a), in(b), accumulate ? inout(c) : out(c)});
      expect_near(c.f, expected, kTolerance, "variant " + std::to_string(variant));
    }
  }
}

TEST(Gemm, LoopsAndLibraryAgreeOnStridedFactors) {
  const std::int64_t m = 4, n = 3, k = 7;
  for (int variant = 0; variant < 4; ++variant) {
    const bool ta = variant & 1, tb = variant & 2;
    const std::vector<float> a = random_floats(100, 1), b = random_floats(100, 2);
    std::vector<float> library = random_floats(40, 3);
    std::vector<float> loops = library;
    const cpu::Product product{m, n, k, 0.5f, 2.0f};
    cpu::matmul(product, {a.data(), 9, ta}, {b.data(), 8, tb}, library.data(), 6);
    cpu::matmul_by_loops(product, {a.data(), 9, ta}, {b.data(), 8, tb}, loops.data(), 6);
    expect_near(library, loops, kTolerance, "variant " + std::to_string(variant));
    EXPECT_EQ(library[5], random_floats(40, 3)[5]) << "wrote between the rows";
  }
}

TEST(Gemm, LoopsNeverReadAnOutputTheyOverwrite) {
  const std::vector<float> a = {1, 2}, b = {3, 4};
  float c = std::numeric_limits<float>::quiet_NaN();
  cpu::matmul_by_loops({1, 1, 2, 1, 0}, {a.data(), 2, false}, {b.data(), 1, false}, &c, 1);
  EXPECT_EQ(c, 11);
}

TEST(Gemm, RefusesOperandsOfTheWrongSize) {
  Value a = random_value(6, 1), b = random_value(6, 2), c = output(5);
  try {
    run_op(shape_of(OpKind::gemm, {2, 2, 3, 1}), {in(a), in(b), out(c)});
    FAIL() << "ran";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("gemm operand 2 has 20 bytes, not 4 x 4"), std::string::npos)
        << error.what();
  }
}

TEST(Kernels, RefuseOtherThanFp32AndBf16) {
  OpShape shape = shape_of(OpKind::fill, {2});
  shape.out_dtype = DType::fp16;
  Value y = output(2);
  EXPECT_THROW(run_op(shape, {out(y)}), Error);
}

}  // namespace
}  // namespace benchsuite::testing_cpu
