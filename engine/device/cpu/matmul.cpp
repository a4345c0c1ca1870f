#include "engine/device/cpu/matmul.h"

#include <algorithm>

#include "engine/device/cpu/kernels.h"

#ifdef BENCHSUITE_HAS_ONEDNN
#include <dnnl.h>
#endif
#ifdef BENCHSUITE_HAS_OPENMP
#include <omp.h>
#endif

namespace benchsuite::cpu {

void matmul_by_loops(const Product& product, const Factor& a, const Factor& b, float* c, std::int64_t c_stride) {
  const auto [m, n, k, alpha, beta] = product;
  for (std::int64_t row = 0; row < m; ++row) {
    for (std::int64_t col = 0; col < n; ++col) {
      double sum = 0;
      for (std::int64_t i = 0; i < k; ++i) {
        const float left = a.transposed ? a.data[i * a.stride + row] : a.data[row * a.stride + i];
        const float right = b.transposed ? b.data[col * b.stride + i] : b.data[i * b.stride + col];
        sum += static_cast<double>(left) * right;
      }
      float& out = c[row * c_stride + col];
      const double before = beta == 0 ? 0.0 : static_cast<double>(beta) * out;
      out = static_cast<float>(alpha * sum + before);
    }
  }
}

void matmul(const Product& product, const Factor& a, const Factor& b, float* c, std::int64_t c_stride) {
  if (product.m == 0 || product.n == 0) return;
#ifdef BENCHSUITE_HAS_ONEDNN
  const dnnl_status_t status =
      dnnl_sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', product.m, product.n, product.k, product.alpha,
                 a.data, a.stride, b.data, b.stride, product.beta, c, c_stride);
  CHECK(status == dnnl_success) << "oneDNN status " << status << " for a product of " << product.m << " x "
                                << product.n << " x " << product.k;
#else
  matmul_by_loops(product, a, b, c, c_stride);
#endif
}

void use_one_thread() {
#ifdef BENCHSUITE_HAS_OPENMP
  omp_set_num_threads(1);
#endif
}

void gemm(const KernelCall& call) {
  call.expect_operands(3);
  const std::int64_t m = call.dim(0), n = call.dim(1), k = call.dim(2);
  const std::int64_t batch = std::max<std::int64_t>(call.dim(3), 1);
  const float* a = call.in(0, batch * m * k);  // [batch, m, k], or [batch, k, m] when transposed
  const float* b = call.in(1, batch * k * n);  // [batch, k, n], or [batch, n, k] when transposed
  float* c = call.shape.accumulate ? call.inout(2, batch * m * n) : call.out(2, batch * m * n);  // [batch, m, n]
  const bool ta = call.shape.transpose_a, tb = call.shape.transpose_b;
  const Product product{m, n, k, 1.0f, call.shape.accumulate ? 1.0f : 0.0f};
  for (std::int64_t i = 0; i < batch; ++i) {
    matmul(product, {a + i * m * k, ta ? m : k, ta}, {b + i * k * n, tb ? k : n, tb}, c + i * m * n, n);
  }
}

}  // namespace benchsuite::cpu
