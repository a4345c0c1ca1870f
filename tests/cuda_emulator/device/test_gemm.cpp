// Products through cuBLASLt against float64: every transposition, batches, strides, epilogues, accumulation into fp32.
#include "engine/device/cuda/gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "engine/core/bf16.h"
#include "engine/core/error.h"
#include "engine/device/cuda/handles.h"
#include "tests/cuda_emulator/emulator.h"

namespace benchsuite::cuda {
namespace {

/// Device memory of `count` elements of a type, filled with noise (rounded to the type), whose values the host knows.
class Matrix {
 public:
  Matrix(DType type, std::int64_t count, std::mt19937& random, bool poison = false) : type_(type), values_(static_cast<std::size_t>(count)) {
    std::uniform_real_distribution<float> uniform(-1, 1);
    std::vector<Bf16> narrow(values_.size());
    for (std::size_t i = 0; i < values_.size(); ++i) {
      values_[i] = poison ? std::nanf("") : uniform(random);
      narrow[i] = round_to_bf16(values_[i]);
      if (type == DType::bf16) values_[i] = widen(narrow[i]);
    }
    memory_ = make_device_memory(bytes());
    const void* const from = type == DType::fp32 ? static_cast<const void*>(values_.data()) : narrow.data();
    CUDA_CHECK(cudaMemcpy(memory_.get(), from, bytes(), cudaMemcpyHostToDevice));
  }
  void* get() const { return memory_.get(); }
  double at(std::int64_t i) const { return values_[static_cast<std::size_t>(i)]; }
  std::vector<double> fetch() const {
    std::vector<double> out(values_.size());
    std::vector<std::byte> raw(bytes());
    CUDA_CHECK(cudaMemcpy(raw.data(), memory_.get(), bytes(), cudaMemcpyDeviceToHost));
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = type_ == DType::fp32 ? reinterpret_cast<const float*>(raw.data())[i] : widen(reinterpret_cast<const Bf16*>(raw.data())[i]);
    }
    return out;
  }

 private:
  std::size_t bytes() const { return values_.size() * static_cast<std::size_t>(size_of(type_)); }
  DType type_;
  std::vector<float> values_;
  DeviceMemory memory_;
};

double gelu(double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }
double gelu_slope(double x) { return (gelu(x + 1e-5) - gelu(x - 1e-5)) / 2e-5; }

struct Product {
  const char* name;
  std::int64_t m, n, k, batch = 1;
  bool transpose_a = false, transpose_b = false;
  DType in = DType::bf16, out = DType::bf16;
  bool accumulate = false;
  Epilogue epilogue = Epilogue::none;
  float alpha = 1;
};

void PrintTo(const Product& product, std::ostream* out) { *out << product.name; }

class Gemms : public ::testing::TestWithParam<Product> {};

TEST_P(Gemms, EqualFloat64) {
  const Product& p = GetParam();
  cuda_emulator::reset();
  std::mt19937 random(std::random_device{}());
  GemmShape shape = dense_gemm(p.m, p.n, p.k, p.batch, p.transpose_a, p.transpose_b);
  shape.in = p.in, shape.out = p.out, shape.accumulate = p.accumulate, shape.epilogue = p.epilogue;
  const bool gelu_in = p.epilogue == Epilogue::gelu_backward_bias, adds_bias = p.epilogue == Epilogue::bias || p.epilogue == Epilogue::bias_gelu;
  const Matrix a(p.in, p.batch * p.m * p.k, random), b(p.in, p.batch * p.k * p.n, random);
  const Matrix c(p.out, p.batch * p.m * p.n, random, !p.accumulate);
  const Matrix bias(p.out, p.epilogue == Epilogue::bias_gradient ? p.m : p.n, random, !adds_bias);
  const Matrix aux(p.out, p.m * p.n, random, !gelu_in);

  GemmAlgorithms algorithms;
  Gemm gemm(algorithms);
  const Stream stream = make_stream(false);
  const DeviceMemory workspace = make_device_memory(4096);
  const std::span<std::byte> scratch(static_cast<std::byte*>(workspace.get()), 4096);
  GemmCall call{shape, a.get(), b.get(), c.get(), p.alpha, nullptr, nullptr};
  if (p.epilogue != Epilogue::none) call.bias = bias.get();
  if (gelu_in || p.epilogue == Epilogue::bias_gelu) call.aux = aux.get();
  // A search leaves anything in the outputs: it gets its own.
  const Matrix spoilt(p.out, p.batch * p.m * p.n, random), spoilt_bias(p.out, p.m + p.n, random), spoilt_aux(p.out, p.m * p.n, random);
  GemmCall trial = call;
  trial.c = spoilt.get();
  if (call.bias) trial.bias = spoilt_bias.get();
  if (call.aux) trial.aux = spoilt_aux.get();
  gemm.prepare(trial, scratch, stream.get());
  gemm.run(call, scratch, stream.get());
  CUDA_CHECK(cudaStreamSynchronize(stream.get()));

  const std::vector<double> got = c.fetch(), got_bias = bias.fetch(), got_aux = aux.fetch();
  std::vector<double> column(static_cast<std::size_t>(p.n)), row(static_cast<std::size_t>(p.m));
  // Half a unit of the output type, and fp32 sums of at most 40 terms below 1.
  const double relative = p.out == DType::bf16 ? 1.0 / 256 : 1e-6, absolute = 1e-5;
  const auto expect_near = [&](double value, double wanted, const char* what, std::int64_t i) {
    EXPECT_NEAR(value, wanted, absolute + relative * std::fabs(wanted)) << what << " " << i;
  };
  for (std::int64_t batch = 0; batch < p.batch; ++batch) {
    for (std::int64_t i = 0; i < p.m; ++i) {
      for (std::int64_t j = 0; j < p.n; ++j) {
        double sum = 0;
        for (std::int64_t k = 0; k < p.k; ++k) {
          const double left = a.at(batch * p.m * p.k + (p.transpose_a ? k * p.m + i : i * p.k + k));
          sum += left * b.at(batch * p.k * p.n + (p.transpose_b ? j * p.k + k : k * p.n + j));
          if (j == 0) row[static_cast<std::size_t>(i)] += left;
        }
        const std::int64_t at = (batch * p.m + i) * p.n + j;
        double wanted = p.alpha * sum + (p.accumulate ? c.at(at) : 0);
        if (adds_bias) wanted += bias.at(j);
        if (p.epilogue == Epilogue::bias_gelu) {
          expect_near(got_aux[static_cast<std::size_t>(at)], wanted, "aux", at);
          wanted = gelu(wanted);
        }
        if (gelu_in) wanted *= gelu_slope(aux.at(at));
        column[static_cast<std::size_t>(j)] += wanted;
        expect_near(got[static_cast<std::size_t>(at)], wanted, "element", at);
      }
    }
  }
  for (std::size_t j = 0; gelu_in && j < column.size(); ++j) expect_near(got_bias[j], column[j], "bias gradient", static_cast<std::int64_t>(j));
  for (std::size_t i = 0; p.epilogue == Epilogue::bias_gradient && i < row.size(); ++i) {
    expect_near(got_bias[i], row[i], "bias gradient", static_cast<std::int64_t>(i));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, Gemms,
    ::testing::Values(Product{"plain", 5, 7, 11}, Product{"transposed_a", 5, 7, 11, 1, true, false},
                      Product{"transposed_b", 5, 7, 11, 1, false, true}, Product{"transposed_both", 5, 7, 11, 1, true, true},
                      Product{"fp32", 9, 4, 13, 1, false, true, DType::fp32, DType::fp32},
                      Product{"batch", 3, 5, 7, 4, false, true}, Product{"scaled", 6, 3, 5, 2, true, false, DType::bf16, DType::fp32, false, Epilogue::none, 0.25f},
                      Product{"weight_gradient", 6, 10, 40, 1, true, false, DType::bf16, DType::fp32, true},
                      Product{"accumulated_bf16", 6, 10, 8, 1, true, false, DType::bf16, DType::bf16, true},
                      Product{"bias", 5, 9, 8, 1, false, true, DType::bf16, DType::bf16, false, Epilogue::bias},
                      Product{"bias_gelu", 5, 9, 8, 1, false, true, DType::fp32, DType::fp32, false, Epilogue::bias_gelu},
                      Product{"gelu_backward_bias", 7, 9, 8, 1, false, false, DType::fp32, DType::fp32, false, Epilogue::gelu_backward_bias},
                      Product{"bias_gradient", 6, 10, 12, 1, true, false, DType::bf16, DType::fp32, true, Epilogue::bias_gradient}),
    [](const auto& info) { return info.param.name; });

TEST(Gemm, OnlyPreparedShapesRun) {
  cuda_emulator::reset();
  GemmAlgorithms algorithms;
  Gemm gemm(algorithms);
  GemmCall call;
  call.shape = dense_gemm(2, 2, 2, 1, false, false);
  EXPECT_THROW(gemm.run(call, {}, nullptr), Error);
}

TEST(Gemm, AProductNobodyHasAnAlgorithmForSaysSo) {
  cuda_emulator::reset();
  std::mt19937 random(1);
  const Matrix a(DType::fp32, 4, random), b(DType::fp32, 4, random), c(DType::fp32, 4, random);
  GemmAlgorithms algorithms;
  Gemm gemm(algorithms);
  GemmCall call{dense_gemm(2, 2, 2, 1, false, false), a.get(), b.get(), c.get(), 1, nullptr, nullptr};
  for (int nth = 1; nth <= 8; ++nth) cuda_emulator::fail_call("cublasLtMatmul", nth, cudaErrorUnknown);
  EXPECT_THROW(gemm.prepare(call, {}, nullptr), Error);
  cuda_emulator::reset();
  gemm.prepare(call, {}, nullptr);
  gemm.run(call, {}, nullptr);
  EXPECT_EQ(algorithms.searches, 1);
  call.shape.in = DType::int32;
  EXPECT_THROW(gemm.prepare(call, {}, nullptr), Error);
}

// An algorithm may read as widely as its matrices were aligned when it was chosen: others are chosen anew.
TEST(Gemms, AreSearchedForEachAlignment) {
  cuda_emulator::reset();
  std::mt19937 random(1);
  const Matrix a(DType::bf16, 5, random), b(DType::bf16, 4, random), c(DType::bf16, 4, random);
  GemmAlgorithms algorithms;
  Gemm gemm(algorithms);
  GemmShape shape = dense_gemm(2, 2, 2, 1, false, false);
  shape.in = shape.out = DType::bf16;
  const GemmCall aligned{shape, a.get(), b.get(), c.get(), 1, nullptr, nullptr};
  GemmCall shifted = aligned;
  shifted.a = static_cast<const std::byte*>(aligned.a) + 2;
  gemm.prepare(aligned, {}, nullptr);
  gemm.run(aligned, {}, nullptr);
  EXPECT_THROW(gemm.run(shifted, {}, nullptr), Error) << "not prepared";
  gemm.prepare(shifted, {}, nullptr);
  gemm.run(shifted, {}, nullptr);
  EXPECT_EQ(algorithms.searches, 2);
  CUDA_CHECK(cudaDeviceSynchronize());
}

}  // namespace
}  // namespace benchsuite::cuda
