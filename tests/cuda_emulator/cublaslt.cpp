// cuBLASLt on the CPU: D = epilogue(alpha op(A) op(B) + beta C), column-major, fp32 sums, bf16 or fp32 in memory.
#include <cublasLt.h>
#include <cuda_bf16.h>

#include <cmath>
#include <cstring>

#include "machine.h"
#include "tasks.h"

namespace cuda_emulator {

struct MatmulHandle {};

struct MatmulDescription {
  cublasOperation_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void* bias = nullptr;
  void* aux = nullptr;
  std::int64_t aux_ld = 0;
  cudaDataType_t bias_type = CUDA_R_16BF;
  bool bias_type_set = false;
};

struct MatrixLayout {
  cudaDataType_t type = CUDA_R_32F;
  std::int64_t rows = 0, cols = 0, ld = 0, stride = 0;
  std::int32_t batch = 1;

  std::size_t element() const { return type == CUDA_R_32F ? 4 : 2; }
  /// From the first element to after the last.
  std::size_t extent() const {
    return static_cast<std::size_t>((batch - 1) * stride + (cols - 1) * ld + rows) * element();
  }
  float read(const void* base, std::int64_t at) const {
    return type == CUDA_R_32F ? static_cast<const float*>(base)[at]
                              : __bfloat162float(static_cast<const __nv_bfloat16*>(base)[at]);
  }
  void write(void* base, std::int64_t at, float value) const {
    if (type == CUDA_R_32F) {
      static_cast<float*>(base)[at] = value;
    } else {
      static_cast<__nv_bfloat16*>(base)[at] = __float2bfloat16_rn(value);
    }
  }
};

struct MatmulPreference {
  std::size_t workspace = 0;
  std::uint32_t alignment = 256;
};

namespace {

float gelu(float x) { return 0.5f * x * (1.0f + std::tanh(0.7978845608f * (x + 0.044715f * x * x * x))); }
float gelu_slope(float x) {
  const float t = std::tanh(0.7978845608f * (x + 0.044715f * x * x * x));
  return 0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * 0.7978845608f * (1.0f + 3.0f * 0.044715f * x * x);
}

bool has(cublasLtEpilogue_t epilogue, int part) { return (static_cast<int>(epilogue) & part) == part; }

struct Product {
  MatmulDescription how;
  MatrixLayout a, b, d;
  float alpha, beta;
  const void *a_data, *b_data, *c_data;
  void* d_data;

  void run() const {
    const std::int64_t k = how.transpose_a == CUBLAS_OP_N ? a.cols : a.rows;
    const std::int64_t a_row = how.transpose_a == CUBLAS_OP_N ? 1 : a.ld, a_k = how.transpose_a == CUBLAS_OP_N ? a.ld : 1;
    const std::int64_t b_k = how.transpose_b == CUBLAS_OP_N ? 1 : b.ld, b_col = how.transpose_b == CUBLAS_OP_N ? b.ld : 1;
    const bool bias = has(how.epilogue, 4), is_gelu = has(how.epilogue, 32), keeps_aux = is_gelu && has(how.epilogue, 128);
    const bool dgelu = has(how.epilogue, 192), bias_of_d = dgelu && has(how.epilogue, 16);
    const MatrixLayout vector{how.bias_type_set ? how.bias_type : d.type};
    const MatrixLayout aux{d.type};
    std::vector<float> sums(static_cast<std::size_t>(bias_of_d ? d.rows : 0));
    for (std::int64_t i = 0; i < d.batch; ++i) {
      for (std::int64_t col = 0; col < d.cols; ++col) {
        for (std::int64_t row = 0; row < d.rows; ++row) {
          float sum = 0;
          for (std::int64_t at = 0; at < k; ++at) {
            sum += a.read(a_data, i * a.stride + row * a_row + at * a_k) * b.read(b_data, i * b.stride + col * b_col + at * b_k);
          }
          const std::int64_t place = i * d.stride + col * d.ld + row;
          float value = alpha * sum;
          if (beta != 0) value += beta * d.read(c_data, place);
          if (bias) value += vector.read(how.bias, row);
          if (keeps_aux) aux.write(how.aux, col * how.aux_ld + row, value);
          if (is_gelu) value = gelu(value);
          if (dgelu) value *= gelu_slope(aux.read(how.aux, col * how.aux_ld + row));
          if (bias_of_d) sums[static_cast<std::size_t>(row)] += value;
          d.write(d_data, place, value);
        }
      }
    }
    for (std::int64_t row = 0; row < static_cast<std::int64_t>(sums.size()); ++row) {
      vector.write(how.bias, row, sums[static_cast<std::size_t>(row)]);
    }
    // Sums over k of one input.
    if (how.epilogue == CUBLASLT_EPILOGUE_BGRADA) {
      for (std::int64_t row = 0; row < d.rows; ++row) {
        float sum = 0;
        for (std::int64_t at = 0; at < k; ++at) sum += a.read(a_data, row * a_row + at * a_k);
        vector.write(how.bias, row, sum);
      }
    }
    if (how.epilogue == CUBLASLT_EPILOGUE_BGRADB) {
      for (std::int64_t col = 0; col < d.cols; ++col) {
        float sum = 0;
        for (std::int64_t at = 0; at < k; ++at) sum += b.read(b_data, col * b_col + at * b_k);
        vector.write(how.bias, col, sum);
      }
    }
  }
};

/// The layouts fit each other and the operation.
bool consistent(const MatmulDescription& how, const MatrixLayout& a, const MatrixLayout& b, const MatrixLayout& d) {
  const std::int64_t m = how.transpose_a == CUBLAS_OP_N ? a.rows : a.cols, k = how.transpose_a == CUBLAS_OP_N ? a.cols : a.rows;
  const std::int64_t n = how.transpose_b == CUBLAS_OP_N ? b.cols : b.rows, l = how.transpose_b == CUBLAS_OP_N ? b.rows : b.cols;
  return m == d.rows && n == d.cols && k == l && a.batch == b.batch && a.batch == d.batch && a.ld >= a.rows &&
         b.ld >= b.rows && d.ld >= d.rows && a.type == b.type;
}

std::uint64_t checksum(const MatmulDescription& how, const MatrixLayout& a, const MatrixLayout& b, const MatrixLayout& d) {
  std::uint64_t hash = static_cast<std::uint64_t>(how.transpose_a) * 2 + static_cast<std::uint64_t>(how.transpose_b);
  for (const MatrixLayout* layout : {&a, &b, &d}) {
    for (const std::int64_t value : {layout->rows, layout->cols, layout->ld, std::int64_t{layout->batch}}) {
      hash = hash * 1000003u + static_cast<std::uint64_t>(value);
    }
  }
  return hash;
}

cublasStatus_t injected(const char* function) {
  return Machine::get().injected(function) == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_INITIALIZED;
}

}  // namespace

}  // namespace cuda_emulator

using namespace cuda_emulator;

const char* cublasLtGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS: return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED: return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_EXECUTION_FAILED: return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
  }
  return "unknown";
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  if (const cublasStatus_t status = injected("cublasLtCreate")) return status;
  *handle = new MatmulHandle;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* description, cublasComputeType_t, cudaDataType_t) {
  *description = new MatmulDescription;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) {
  delete description;
  return CUBLAS_STATUS_SUCCESS;
}

namespace {

template <class T>
cublasStatus_t set(T& to, const void* value, std::size_t bytes) {
  if (bytes != sizeof to) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&to, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description, cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, std::size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA: return set(description->transpose_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB: return set(description->transpose_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE: return set(description->epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return set(description->bias, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER: return set(description->aux, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD: return set(description->aux_ld, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      description->bias_type_set = true;
      return set(description->bias_type, value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType_t type, std::uint64_t rows,
                                          std::uint64_t cols, std::int64_t ld) {
  *layout = new MatrixLayout{type, static_cast<std::int64_t>(rows), static_cast<std::int64_t>(cols), ld, 0, 1};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute,
                                                const void* value, std::size_t bytes) {
  return attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT ? set(layout->batch, value, bytes) : set(layout->stride, value, bytes);
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = new MatmulPreference;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void* value,
                                                    std::size_t bytes) {
  if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) return set(preference->workspace, value, bytes);
  // One for all four matrices: the least that is set, of what starts at 256 as in the library.
  std::uint32_t alignment = 0;
  const cublasStatus_t status = set(alignment, value, bytes);
  if (status == CUBLAS_STATUS_SUCCESS) preference->alignment = std::min(preference->alignment, alignment);
  return status;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t description, cublasLtMatrixLayout_t a,
                                              cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t results[], int* found) {
  if (const cublasStatus_t status = injected("cublasLtMatmulAlgoGetHeuristic")) return status;
  if (!consistent(*description, *a, *b, *d)) return CUBLAS_STATUS_INVALID_VALUE;
  // Three algorithms that differ in the workspace they want, and a fourth that turns out not to run.
  *found = 0;
  for (int i = 0; i < 4 && *found < requested; ++i) {
    cublasLtMatmulHeuristicResult_t& result = results[*found];
    result = {};
    result.workspaceSize = static_cast<std::size_t>(i % 3) * 1024;
    if (result.workspaceSize > preference->workspace) continue;
    result.algo.data[0] = checksum(*description, *a, *b, *d);
    result.algo.data[1] = static_cast<std::uint64_t>(i);
    result.algo.data[2] = result.workspaceSize;
    result.algo.data[3] = preference->alignment;
    ++*found;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t description, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                              const void* beta, const void* c, cublasLtMatrixLayout_t, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algo, void* workspace,
                              std::size_t workspace_bytes, cudaStream_t stream) {
  if (const cublasStatus_t status = injected("cublasLtMatmul")) return status;
  if (!consistent(*description, *a_layout, *b_layout, *d_layout)) return CUBLAS_STATUS_INVALID_VALUE;
  if (!on_device(a, a_layout->extent()) || !on_device(b, b_layout->extent()) || !on_device(d, d_layout->extent())) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (algo) {
    // An algorithm belongs to the shape it was found for, and needs its workspace.
    if (algo->data[0] != checksum(*description, *a_layout, *b_layout, *d_layout)) return CUBLAS_STATUS_INVALID_VALUE;
    if (algo->data[1] == 3) return CUBLAS_STATUS_NOT_SUPPORTED;
    if (algo->data[2] > workspace_bytes) return CUBLAS_STATUS_INVALID_VALUE;
    for (const void* matrix : {a, b, c, static_cast<const void*>(d)}) {
      if (reinterpret_cast<std::uintptr_t>(matrix) % algo->data[3] != 0) return CUBLAS_STATUS_INVALID_VALUE;
    }
  }
  const std::size_t scratch = algo ? algo->data[2] : 0;
  if (scratch > 0 && !on_device(workspace, scratch)) return CUBLAS_STATUS_INVALID_VALUE;
  const Product product{*description, *a_layout, *b_layout, *d_layout, *static_cast<const float*>(alpha),
                        *static_cast<const float*>(beta), a, b, c, d};
  const cudaError_t error = queue_work(stream, [product, workspace, scratch] {
    if (scratch > 0) std::memset(workspace, 0xA5, scratch);  // two products at once must not share it
    product.run();
  });
  return error == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}
