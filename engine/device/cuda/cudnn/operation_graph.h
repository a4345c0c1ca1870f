// A graph of cuDNN's operations, written down operation by operation: what the library's engines are matched against.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "engine/device/cuda/cudnn/descriptor.h"

namespace benchsuite::cuda {

/// [batch, heads, rows, columns]; strides in elements.
struct TensorLayout {
  std::array<std::int64_t, 4> dims{}, strides{};
};

/// Its columns, rows, heads and batches one behind the other.
TensorLayout dense(std::int64_t batch, std::int64_t heads, std::int64_t rows, std::int64_t columns);
/// The same elements with rows and columns exchanged.
TensorLayout transposed(TensorLayout layout);

class OperationGraph {
 public:
  /// Belongs to the graph, which keeps it.
  struct Tensor {
    Descriptor descriptor;
    TensorLayout layout;
    cudnnDataType_t type;
  };

  /// In device memory, at the address that a run gives for `uid` (positive, below kVirtual), a multiple of 16 bytes.
  const Tensor& memory(std::int64_t uid, const TensorLayout& layout, cudnnDataType_t type);
  /// An fp32 number of the host, which a run gives by its address.
  const Tensor& number(std::int64_t uid);

  // Operations. Their result is a tensor that exists between operations only, dense; where `to` is given, it is that
  // one.
  const Tensor& matmul(const Tensor& a, const Tensor& b, cudnnDataType_t type, const Tensor* to = nullptr);
  const Tensor& pointwise(cudnnPointwiseMode_t mode, const Tensor& x, const Tensor* b = nullptr,
                          cudnnDataType_t type = CUDNN_DATA_FLOAT, const Tensor* to = nullptr);
  /// x where `where` holds, else `otherwise`.
  const Tensor& select(const Tensor& where, const Tensor& x, const Tensor& otherwise);
  /// The index of each element of a tensor like `x` along `axis`.
  const Tensor& index(const Tensor& x, std::int64_t axis);
  const Tensor& reduce(cudnnReduceTensorOp_t how, const Tensor& x, const Tensor& to);
  /// Over columns.
  const Tensor& reduce_rows(cudnnReduceTensorOp_t how, const Tensor& x);
  /// The same elements in another order of dimensions.
  const Tensor& reshape(const Tensor& x, const TensorLayout& layout, cudnnDataType_t type);

  /// Ends the graph.
  Descriptor finish();

 private:
  static constexpr std::int64_t kVirtual = 1000;

  const Tensor& add(std::int64_t uid, const TensorLayout& layout, cudnnDataType_t type,
                    cudnnBackendAttributeName_t kind, bool is_kind);
  const Tensor& between(const TensorLayout& layout, cudnnDataType_t type);
  struct Pointwise;
  const Tensor& apply(const Pointwise& what);
  void keep(Descriptor operation);

  std::deque<Tensor> tensors_;  // a deque: references stay
  std::vector<Descriptor> operations_;
  std::int64_t next_ = kVirtual;
};

}  // namespace benchsuite::cuda
