// Matrix products through cuBLASLt: bf16 or fp32 in, fp32 sums, fused epilogues, accumulation into fp32.
//
// Matrices are row-major. A row-major C = A B is the column-major C^T = B^T A^T, so the library gets B first.
// What may vary from call to call are addresses, alpha and the vectors of the epilogue; all else is the shape. The algorithm of a
// shape is searched once, by time, before the first step, and shared by all ranks.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>

#include "engine/core/dtype.h"

namespace benchsuite::cuda {

/// What happens to a product on its way to memory.
enum class Epilogue : std::uint8_t {
  none,
  bias,               ///< C[i, j] += bias[j]
  bias_gelu,          ///< aux = C + bias, C = gelu(aux) (tanh form); aux [m, n] is kept for the backward pass
  gelu_backward_bias, ///< C *= gelu'(aux), bias[j] = sum over i of C[i, j]: the gradient of that bias
  bias_gradient,      ///< bias[i] = sum over k of A[i, k]: with A = dy^T, the bias gradient beside the weight gradient
};

struct GemmShape {
  std::int64_t m = 0, n = 0, k = 0, batch = 1;  ///< C[m, n] = A[m, k] B[k, n], `batch` times
  DType in = DType::fp32, out = DType::fp32;
  bool transpose_a = false, transpose_b = false;  ///< A is stored [k, m]; B is stored [n, k]
  bool accumulate = false;                        ///< C += ...
  Epilogue epilogue = Epilogue::none;
  std::int64_t lda = 0, ldb = 0, ldc = 0;                ///< elements from row to row, as stored
  std::int64_t stride_a = 0, stride_b = 0, stride_c = 0;  ///< elements from one product of the batch to the next

  auto operator<=>(const GemmShape&) const = default;
};

/// A shape whose matrices lie densely, one product of the batch behind the other.
GemmShape dense_gemm(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t batch, bool transpose_a, bool transpose_b);

struct GemmCall {
  GemmShape shape;
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  float alpha = 1;
  void* bias = nullptr;  ///< of the epilogue: the out type, or fp32 beside it for gradients; [n], for bias_gradient [m]
  void* aux = nullptr;   ///< [m, n], out type
};

/// What an algorithm is good for: the shape, and the power of two (to 256) at whose multiples, in bytes, all matrices begin.
using GemmKey = std::pair<GemmShape, std::uint32_t>;

/// The algorithm of each shape. Ranks share it: the first to need a shape searches.
class GemmAlgorithms {
 public:
  std::mutex mutex;  ///< held during a search, so that nobody disturbs its times more than need be
  std::map<GemmKey, cublasLtMatmulAlgo_t> algorithms;
  int searches = 0;
};

/// The products of one rank. Its device must be current.
class Gemm {
 public:
  explicit Gemm(GemmAlgorithms& algorithms);
  ~Gemm();
  Gemm(const Gemm&) = delete;
  Gemm& operator=(const Gemm&) = delete;

  /// Gets the shape ready: takes its algorithm, or searches it by running the call (whose output is then of no use) on `stream`.
  /// Waits for the stream. Throws when the library has no algorithm for the shape.
  void prepare(const GemmCall& call, std::span<std::byte> workspace, cudaStream_t stream);

  /// Launches a product of a prepared shape; waits for nothing.
  void run(const GemmCall& call, std::span<std::byte> workspace, cudaStream_t stream);

 private:
  struct Plan;
  cublasLtMatmulAlgo_t search(Plan& plan, const GemmCall& call, std::span<std::byte> workspace, cudaStream_t stream);
  cublasStatus_t launch(Plan& plan, const GemmCall& call, const cublasLtMatmulAlgo_t& algo, std::span<std::byte> workspace,
                        cudaStream_t stream);

  GemmAlgorithms& shared_;
  cublasLtHandle_t handle_ = nullptr;
  std::map<GemmKey, std::unique_ptr<Plan>> plans_;
};

}  // namespace benchsuite::cuda
