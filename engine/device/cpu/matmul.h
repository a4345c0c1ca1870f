// The one matrix product everything on device cpu goes through.
//
// bf16 factors come widened to fp32: products of two bf16 values are exact there, so this is a bf16 product with fp32
// accumulation. A native bf16 primitive would add in an order of its own on each kind of CPU, and the results of bf16 and fp32
// ops would no longer be the same numbers rounded.
#pragma once

#include <cstdint>

namespace benchsuite::cpu {

/// A row-major matrix with `stride` elements from row to row. `transposed`: its transpose is the factor.
struct Factor {
  const float* data = nullptr;
  std::int64_t stride = 0;
  bool transposed = false;
};

/// C[m, n] = alpha A[m, k] B[k, n] + beta C, C with `c_stride` elements from row to row; beta = 0 never reads C.
struct Product {
  std::int64_t m = 0, n = 0, k = 0;
  float alpha = 1, beta = 0;
};

/// By oneDNN where the build has it, else by loops; on the calling thread only (see use_one_thread).
void matmul(const Product& product, const Factor& a, const Factor& b, float* c, std::int64_t c_stride);

/// The same by loops, each element summed in double over increasing k.
void matmul_by_loops(const Product& product, const Factor& a, const Factor& b, float* c, std::int64_t c_stride);

/// Makes the library use the calling thread alone: the ranks are the parallelism. A setting of the calling thread.
void use_one_thread();

}  // namespace benchsuite::cpu
