#include "engine/device/cuda/gemm.h"

#include <array>
#include <limits>

#include "engine/core/error.h"
#include "engine/device/cuda/handles.h"

namespace benchsuite::cuda {

namespace {

constexpr int kCandidates = 8;  // that the library may propose
constexpr int kTimedRuns = 3;

cudaDataType_t type_of(DType type) {
  CHECK(type == DType::fp32 || type == DType::bf16) << "a matrix product of " << name_of(type);
  return type == DType::fp32 ? CUDA_R_32F : CUDA_R_16BF;
}

cublasLtEpilogue_t epilogue_of(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::none: break;
    case Epilogue::bias: return CUBLASLT_EPILOGUE_BIAS;
    case Epilogue::bias_gelu: return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    case Epilogue::gelu_backward_bias: return CUBLASLT_EPILOGUE_DGELU_BGRAD;
    // The library's second matrix is our A.
    case Epilogue::bias_gradient: return CUBLASLT_EPILOGUE_BGRADB;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

class Layout {
 public:
  /// A row-major matrix of `rows` x `cols` as the library sees it: cols x rows, column-major.
  Layout(DType type, std::int64_t rows, std::int64_t cols, std::int64_t ld, std::int64_t batch, std::int64_t stride) {
    CUBLAS_CHECK(cublasLtMatrixLayoutCreate(&layout_, type_of(type), static_cast<std::uint64_t>(cols),
                                            static_cast<std::uint64_t>(rows), ld));
    if (batch == 1) return;
    const auto count = static_cast<std::int32_t>(batch);
    CUBLAS_CHECK(cublasLtMatrixLayoutSetAttribute(layout_, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count));
    CUBLAS_CHECK(cublasLtMatrixLayoutSetAttribute(layout_, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride));
  }
  ~Layout() { cublasLtMatrixLayoutDestroy(layout_); }
  Layout(const Layout&) = delete;
  Layout& operator=(const Layout&) = delete;
  cublasLtMatrixLayout_t get() const { return layout_; }

 private:
  cublasLtMatrixLayout_t layout_ = nullptr;
};

}  // namespace

GemmShape dense_gemm(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t batch, bool transpose_a, bool transpose_b) {
  GemmShape shape{.m = m, .n = n, .k = k, .batch = batch, .transpose_a = transpose_a, .transpose_b = transpose_b};
  shape.lda = transpose_a ? m : k;
  shape.ldb = transpose_b ? k : n;
  shape.ldc = n;
  shape.stride_a = m * k;
  shape.stride_b = k * n;
  shape.stride_c = m * n;
  return shape;
}

namespace {

/// Views inside packed tensors start at any element; whole tensors at multiples of 256 bytes.
std::uint32_t alignment_of(const GemmCall& call) {
  std::uint32_t alignment = 256;
  for (const void* address : {call.a, call.b, static_cast<const void*>(call.c)}) {
    while (reinterpret_cast<std::uintptr_t>(address) % alignment != 0) alignment /= 2;
  }
  return alignment;
}

}  // namespace

struct Gemm::Plan {
  explicit Plan(const GemmShape& s)
      : a(s.in, s.transpose_a ? s.k : s.m, s.transpose_a ? s.m : s.k, s.lda, s.batch, s.stride_a),
        b(s.in, s.transpose_b ? s.n : s.k, s.transpose_b ? s.k : s.n, s.ldb, s.batch, s.stride_b),
        c(s.out, s.m, s.n, s.ldc, s.batch, s.stride_c) {
    CUBLAS_CHECK(cublasLtMatmulDescCreate(&description, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    const cublasOperation_t first = s.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N, second = s.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    set(CUBLASLT_MATMUL_DESC_TRANSA, first);
    set(CUBLASLT_MATMUL_DESC_TRANSB, second);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(s.epilogue));
    if (s.epilogue == Epilogue::bias_gelu || s.epilogue == Epilogue::gelu_backward_bias) {
      set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, s.n);
    }
  }
  ~Plan() {
    if (description) cublasLtMatmulDescDestroy(description);
  }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  template <class T>
  void set(cublasLtMatmulDescAttributes_t attribute, const T& value) {
    CUBLAS_CHECK(cublasLtMatmulDescSetAttribute(description, attribute, &value, sizeof value));
  }

  cublasLtMatmulDesc_t description = nullptr;
  Layout a, b, c;
  cublasLtMatmulAlgo_t algo{};
};

Gemm::Gemm(GemmAlgorithms& algorithms) : shared_(algorithms) { CUBLAS_CHECK(cublasLtCreate(&handle_)); }

Gemm::~Gemm() { cublasLtDestroy(handle_); }

void Gemm::prepare(const GemmCall& call, std::span<std::byte> workspace, cudaStream_t stream) {
  const GemmKey key{call.shape, alignment_of(call)};
  std::unique_ptr<Plan>& plan = plans_[key];
  if (plan) return;
  auto fresh = std::make_unique<Plan>(call.shape);
  const std::lock_guard lock(shared_.mutex);
  const auto known = shared_.algorithms.find(key);
  if (known != shared_.algorithms.end()) {
    fresh->algo = known->second;
  } else {
    fresh->algo = search(*fresh, call, workspace, stream);
    shared_.algorithms.emplace(key, fresh->algo);
    ++shared_.searches;
  }
  plan = std::move(fresh);
}

cublasLtMatmulAlgo_t Gemm::search(Plan& plan, const GemmCall& call, std::span<std::byte> workspace, cudaStream_t stream) {
  cublasLtMatmulPreference_t preference = nullptr;
  CUBLAS_CHECK(cublasLtMatmulPreferenceCreate(&preference));
  const std::unique_ptr<std::remove_pointer_t<cublasLtMatmulPreference_t>, cublasStatus_t (*)(cublasLtMatmulPreference_t)> owner(
      preference, cublasLtMatmulPreferenceDestroy);
  const std::size_t bytes = workspace.size();
  CUBLAS_CHECK(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof bytes));
  const std::uint32_t alignment = alignment_of(call);
  for (const auto attribute : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                               CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    CUBLAS_CHECK(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &alignment, sizeof alignment));
  }
  std::array<cublasLtMatmulHeuristicResult_t, kCandidates> candidates{};
  int found = 0;
  CUBLAS_CHECK(cublasLtMatmulAlgoGetHeuristic(handle_, plan.description, plan.b.get(), plan.a.get(), plan.c.get(), plan.c.get(),
                                              preference, kCandidates, candidates.data(), &found));

  const Event start = make_event(Timing::on), end = make_event(Timing::on);
  float best = std::numeric_limits<float>::infinity();
  const cublasLtMatmulHeuristicResult_t* chosen = nullptr;
  for (int i = 0; i < found; ++i) {
    const auto& candidate = candidates[static_cast<std::size_t>(i)];
    // The first run warms up, and shows that the algorithm takes the shape at all.
    if (candidate.state != CUBLAS_STATUS_SUCCESS || launch(plan, call, candidate.algo, workspace, stream) != CUBLAS_STATUS_SUCCESS) {
      continue;
    }
    CUDA_CHECK(cudaEventRecord(start.get(), stream));
    for (int run = 0; run < kTimedRuns; ++run) CUBLAS_CHECK(launch(plan, call, candidate.algo, workspace, stream));
    CUDA_CHECK(cudaEventRecord(end.get(), stream));
    CUDA_CHECK(cudaEventSynchronize(end.get()));
    float milliseconds = 0;
    CUDA_CHECK(cudaEventElapsedTime(&milliseconds, start.get(), end.get()));
    if (milliseconds < best) {
      best = milliseconds;
      chosen = &candidate;
    }
  }
  CHECK(chosen) << "cuBLASLt has no algorithm for a product of " << call.shape.m << " x " << call.shape.n << " x " << call.shape.k;
  return chosen->algo;
}

cublasStatus_t Gemm::launch(Plan& plan, const GemmCall& call, const cublasLtMatmulAlgo_t& algo, std::span<std::byte> workspace,
                            cudaStream_t stream) {
  if (call.shape.epilogue != Epilogue::none) {
    plan.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, call.bias);
    if (call.aux) plan.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, call.aux);
  }
  const float beta = call.shape.accumulate ? 1 : 0;
  return cublasLtMatmul(handle_, plan.description, &call.alpha, call.b, plan.b.get(), call.a, plan.a.get(), &beta, call.c,
                        plan.c.get(), call.c, plan.c.get(), &algo, workspace.data(), workspace.size(), stream);
}

void Gemm::run(const GemmCall& call, std::span<std::byte> workspace, cudaStream_t stream) {
  const auto plan = plans_.find({call.shape, alignment_of(call)});
  CHECK(plan != plans_.end()) << "a product was not prepared for its shape and the alignment of its operands";
  CUBLAS_CHECK(launch(*plan->second, call, plan->second->algo, workspace, stream));
}

}  // namespace benchsuite::cuda
