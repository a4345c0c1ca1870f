// Matrix products through cuBLASLt: plain, batched as unfused attention has them, weight gradients accumulated in fp32,
// and one held at the power limit against bursts.
#include <cublasLt.h>

#include <cmath>
#include <memory>

#include "check.h"
#include "nvml.h"

namespace gpu_check {

namespace {

constexpr std::size_t kWorkspace = std::size_t{64} << 20;

/// C[m, n] (+)= A[m, k] B[k, n], row-major, bf16 in; A stored [k, m] where transpose_a, B stored [n, k] where
/// transpose_b.
struct Shape {
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  bool transpose_a = false, transpose_b = false, accumulate = false;  ///< accumulate: fp32 output, beta 1
  double flops() const {
    return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) * static_cast<double>(batch);
  }
};

class Product {
 public:
  /// Row-major C is column-major C^T = B^T A^T: the library gets B first.
  explicit Product(const Shape& shape)
      : shape_(shape),
        a_(bytes_of(shape.m * shape.k)),
        b_(bytes_of(shape.k * shape.n)),
        c_(static_cast<std::size_t>(shape.m * shape.n * shape.batch) * (shape.accumulate ? 4 : 2)),
        workspace_(kWorkspace) {
    STATUS_CHECK(cublasLtCreate(&handle_));
    STATUS_CHECK(cublasLtMatmulDescCreate(&operation_, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    const cublasOperation_t first = shape.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t second = shape.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    STATUS_CHECK(cublasLtMatmulDescSetAttribute(operation_, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first));
    STATUS_CHECK(cublasLtMatmulDescSetAttribute(operation_, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second));
    layout(b_layout_, CUDA_R_16BF, shape.transpose_b ? shape.k : shape.n, shape.transpose_b ? shape.n : shape.k);
    layout(a_layout_, CUDA_R_16BF, shape.transpose_a ? shape.m : shape.k, shape.transpose_a ? shape.k : shape.m);
    layout(c_layout_, shape.accumulate ? CUDA_R_32F : CUDA_R_16BF, shape.n, shape.m);
    cublasLtMatmulPreference_t preference{};
    STATUS_CHECK(cublasLtMatmulPreferenceCreate(&preference));
    STATUS_CHECK(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &kWorkspace,
                                                      sizeof kWorkspace));
    int found = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(handle_, operation_, b_layout_, a_layout_, c_layout_,
                                                                 c_layout_, preference, 1, &choice_, &found);
    cublasLtMatmulPreferenceDestroy(preference);
    STATUS_CHECK(status);
    if (found == 0) throw Failure("cuBLASLt has no algorithm for this product");
    fill_noise(a_.get(), a_.size(), 31);
    fill_noise(b_.get(), b_.size(), 32);
    c_.zero();
  }
  ~Product() {
    for (const auto handle : {a_layout_, b_layout_, c_layout_})
      if (handle) cublasLtMatrixLayoutDestroy(handle);
    if (operation_) cublasLtMatmulDescDestroy(operation_);
    if (handle_) cublasLtDestroy(handle_);
  }
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;

  void run(cudaStream_t stream) const {
    const float alpha = 1, beta = shape_.accumulate ? 1 : 0;
    STATUS_CHECK(cublasLtMatmul(handle_, operation_, &alpha, b_.get(), b_layout_, a_.get(), a_layout_, &beta, c_.get(),
                                c_layout_, c_.get(), c_layout_, &choice_.algo, workspace_.get(), kWorkspace, stream));
  }

  const Shape& shape() const { return shape_; }
  const Buffer<char>& a() const { return a_; }
  const Buffer<char>& b() const { return b_; }
  const Buffer<char>& c() const { return c_; }

 private:
  std::size_t bytes_of(std::int64_t elements) const { return static_cast<std::size_t>(elements * shape_.batch) * 2; }

  void layout(cublasLtMatrixLayout_t& out, cudaDataType_t type, std::int64_t rows, std::int64_t cols) {
    STATUS_CHECK(cublasLtMatrixLayoutCreate(&out, type, static_cast<std::uint64_t>(rows),
                                            static_cast<std::uint64_t>(cols), rows));
    if (shape_.batch == 1) return;
    const auto count = static_cast<std::int32_t>(shape_.batch);
    const std::int64_t stride = rows * cols;
    STATUS_CHECK(cublasLtMatrixLayoutSetAttribute(out, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count));
    STATUS_CHECK(
        cublasLtMatrixLayoutSetAttribute(out, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride));
  }

  Shape shape_;
  cublasLtHandle_t handle_{};
  cublasLtMatmulDesc_t operation_{};
  cublasLtMatrixLayout_t a_layout_{}, b_layout_{}, c_layout_{};
  cublasLtMatmulHeuristicResult_t choice_{};
  Buffer<char> a_, b_, c_, workspace_;
};

std::vector<float> half_values(const Buffer<char>& buffer) {
  const std::vector<char> bytes = buffer.host();
  std::vector<float> out(bytes.size() / 2);
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = from_bf16(static_cast<std::uint16_t>(static_cast<unsigned char>(bytes[2 * i]) |
                                                  (static_cast<unsigned char>(bytes[2 * i + 1]) << 8)));
  return out;
}

void check_product(const Shape& shape, cudaStream_t stream) {
  const Product product(shape);
  const int runs = shape.accumulate ? 2 : 1;
  for (int i = 0; i < runs; ++i) product.run(stream);
  CUDA_CHECK(cudaStreamSynchronize(stream));
  const auto a = half_values(product.a()), b = half_values(product.b());
  std::vector<float> want;
  for (std::int64_t batch = 0; batch < shape.batch; ++batch) {
    for (std::int64_t i = 0; i < shape.m; ++i) {
      for (std::int64_t j = 0; j < shape.n; ++j) {
        double sum = 0;
        for (std::int64_t k = 0; k < shape.k; ++k) {
          const auto left = static_cast<std::size_t>(batch * shape.m * shape.k +
                                                     (shape.transpose_a ? k * shape.m + i : i * shape.k + k));
          const auto right = static_cast<std::size_t>(batch * shape.k * shape.n +
                                                      (shape.transpose_b ? j * shape.k + k : k * shape.n + j));
          sum += static_cast<double>(a[left]) * b[right];
        }
        want.push_back(static_cast<float>(runs * sum));
      }
    }
  }
  std::vector<float> got;
  if (shape.accumulate) {
    const std::vector<char> bytes = product.c().host();
    got.resize(bytes.size() / 4);
    std::copy(bytes.begin(), bytes.end(), reinterpret_cast<char*>(got.data()));
  } else {
    got = half_values(product.c());
  }
  // bf16 output: half a unit of 8 bits; fp32 sums of k = 96 products in any order stay far below.
  expect_close("matrix product", got, want, 1e-2, 1.0 / 128);
}

void add_row(Session& session, const Shape& shape, double seconds, const char* rate, const Load* load = nullptr) {
  Row row = session.row();
  row.add("dtype", "bf16").add("m", shape.m).add("n", shape.n).add("k", shape.k).add("batch", shape.batch);
  row.add("transpose_a", shape.transpose_a).add("transpose_b", shape.transpose_b).add("accumulate", shape.accumulate);
  row.add("out_dtype", shape.accumulate ? "fp32" : "bf16")
      .add("tflops", shape.flops() / seconds / 1e12)
      .add("ms", seconds * 1e3);
  if (load && load->samples > 0)
    row.add("sm_mhz", load->sm_mhz)
        .add("power_w", load->power_w)
        .add("power_limit_w", load->power_limit_w)
        .add("celsius", load->celsius);
  row.add("rate", rate).add("source", std::string("gpu_check-") + rate);
  session.rows.push_back(row);
}

}  // namespace

void check_products(Session& session) {
  for (const bool transpose_a : {false, true})
    for (const bool transpose_b : {false, true})
      check_product({40, 56, 96, 1, transpose_a, transpose_b, false}, session.stream);
  check_product({24, 32, 48, 3, false, true, false}, session.stream);
  check_product({40, 56, 96, 1, true, false, true}, session.stream);
}

void measure_products(Session& session) {
  std::vector<Shape> shapes;
  // Layers of 13B and 175B models whole and cut by tensor parallelism 4 and 8: forward, data gradient, weight gradient.
  const std::vector<std::int64_t> tokens =
      session.quick ? std::vector<std::int64_t>{4096} : std::vector<std::int64_t>{2048, 4096, 8192};
  for (const std::int64_t t : tokens) {
    for (const auto& [h, cut] : std::vector<std::pair<std::int64_t, std::int64_t>>{{5120, 1}, {5120, 4}, {12288, 8}}) {
      for (const auto& [out, in] : {std::pair{3 * h / cut, h}, {h, h / cut}, {4 * h / cut, h}, {h, 4 * h / cut}}) {
        shapes.push_back({t, out, in, 1, false, true, false});
        shapes.push_back({t, in, out, 1, false, false, false});
        shapes.push_back({out, in, t, 1, true, false, true});
      }
    }
  }
  // Unfused attention: scores, context, and their gradients, for 32 to 128 heads in the batch.
  for (const std::int64_t s :
       session.quick ? std::vector<std::int64_t>{2048} : std::vector<std::int64_t>{1024, 2048, 4096}) {
    for (const std::int64_t d : {std::int64_t{64}, std::int64_t{128}}) {
      for (const std::int64_t heads : {std::int64_t{32}, std::int64_t{128}}) {
        if (heads * s * s * 2 > (std::int64_t{8} << 30)) continue;
        shapes.push_back({s, s, d, heads, false, true, false});
        shapes.push_back({s, d, s, heads, false, false, false});
        shapes.push_back({s, d, s, heads, true, false, false});
      }
    }
  }
  for (const Shape& shape : shapes) {
    if (!session.time_left(150, "matrix products")) break;
    const Product product(shape);
    add_row(session, shape, burst_seconds(session.stream, [&](cudaStream_t s) { product.run(s); }), "burst");
  }
}

void measure_power(Session& session) {
  const double each = session.quick ? 2 : 10;
  const std::unique_ptr<Nvml> nvml = Nvml::open();
  if (!nvml) session.skipped.push_back("clocks and power: the driver's NVML library is not there");
  for (const Shape& shape :
       {Shape{8192, 8192, 8192, 1, false, true, false}, Shape{4096, 12288, 12288, 1, false, true, false},
        Shape{12288, 12288, 4096, 1, true, false, true}}) {
    if (!session.time_left(230, "products at the power limit")) break;
    const Product product(shape);
    const Launch run = [&](cudaStream_t s) { product.run(s); };
    CUDA_CHECK(cudaDeviceSynchronize());
    add_row(session, shape, burst_seconds(session.stream, run), "burst");
    if (nvml) nvml->start();
    const double seconds = sustained_seconds(session.stream, run, each);
    const Load load = nvml ? nvml->stop() : Load{};
    add_row(session, shape, seconds, "sustained", &load);
  }
}

}  // namespace gpu_check
