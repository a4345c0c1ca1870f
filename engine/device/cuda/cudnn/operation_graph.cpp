#include "engine/device/cuda/cudnn/operation_graph.h"

#include <utility>

namespace benchsuite::cuda {

namespace {

constexpr std::int64_t kAlignment = 16;  // bytes, of what lies in memory

}  // namespace

TensorLayout dense(std::int64_t batch, std::int64_t heads, std::int64_t rows, std::int64_t columns) {
  return {{batch, heads, rows, columns}, {heads * rows * columns, rows * columns, columns, 1}};
}

TensorLayout transposed(TensorLayout layout) {
  std::swap(layout.dims[2], layout.dims[3]);
  std::swap(layout.strides[2], layout.strides[3]);
  return layout;
}

struct OperationGraph::Pointwise {
  cudnnPointwiseMode_t mode;
  const Tensor& x;
  const Tensor* b = nullptr;
  const Tensor* condition = nullptr;
  const Tensor& y;
  cudnnDataType_t computes_in = CUDNN_DATA_FLOAT;
  std::int64_t axis = -1;
};

const OperationGraph::Tensor& OperationGraph::add(std::int64_t uid, const TensorLayout& layout, cudnnDataType_t type,
                                                  cudnnBackendAttributeName_t kind, bool is_kind) {
  Descriptor descriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  descriptor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, uid);
  descriptor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, type);
  descriptor.set(CUDNN_ATTR_TENSOR_DIMENSIONS, std::span<const std::int64_t>(layout.dims));
  descriptor.set(CUDNN_ATTR_TENSOR_STRIDES, std::span<const std::int64_t>(layout.strides));
  descriptor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, kAlignment);
  descriptor.set(kind, is_kind);
  descriptor.finalize_or_answer();
  return tensors_.emplace_back(std::move(descriptor), layout, type);
}

const OperationGraph::Tensor& OperationGraph::memory(std::int64_t uid, const TensorLayout& layout,
                                                     cudnnDataType_t type) {
  return add(uid, layout, type, CUDNN_ATTR_TENSOR_IS_VIRTUAL, false);
}

const OperationGraph::Tensor& OperationGraph::number(std::int64_t uid) {
  return add(uid, dense(1, 1, 1, 1), CUDNN_DATA_FLOAT, CUDNN_ATTR_TENSOR_IS_BY_VALUE, true);
}

const OperationGraph::Tensor& OperationGraph::between(const TensorLayout& layout, cudnnDataType_t type) {
  return add(next_++, layout, type, CUDNN_ATTR_TENSOR_IS_VIRTUAL, true);
}

const OperationGraph::Tensor& OperationGraph::matmul(const Tensor& a, const Tensor& b, cudnnDataType_t type,
                                                     const Tensor* to) {
  const auto& [batch, heads, rows, inner] = a.layout.dims;
  const Tensor& c = to ? *to : between(dense(batch, heads, rows, b.layout.dims[3]), type);
  Descriptor how(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  how.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
  how.finalize_or_answer();
  Descriptor operation(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, how);
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, a.descriptor);
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, b.descriptor);
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, c.descriptor);
  keep(std::move(operation));
  return c;
}

const OperationGraph::Tensor& OperationGraph::apply(const Pointwise& what) {
  Descriptor how(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  how.set(CUDNN_ATTR_POINTWISE_MODE, what.mode);
  how.set(CUDNN_ATTR_POINTWISE_MATH_PREC, what.computes_in);
  if (what.axis >= 0) how.set(CUDNN_ATTR_POINTWISE_AXIS, what.axis);
  how.finalize_or_answer();
  Descriptor operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, what.x.descriptor);
  if (what.b) operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, what.b->descriptor);
  if (what.condition) operation.set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, what.condition->descriptor);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, what.y.descriptor);
  keep(std::move(operation));
  return what.y;
}

const OperationGraph::Tensor& OperationGraph::pointwise(cudnnPointwiseMode_t mode, const Tensor& x, const Tensor* b,
                                                        cudnnDataType_t type, const Tensor* to) {
  const auto& [batch, heads, rows, columns] = x.layout.dims;
  const Tensor& y = to ? *to : between(dense(batch, heads, rows, columns), type);
  return apply(
      {.mode = mode, .x = x, .b = b, .y = y, .computes_in = type == CUDNN_DATA_BOOLEAN ? type : CUDNN_DATA_FLOAT});
}

const OperationGraph::Tensor& OperationGraph::select(const Tensor& where, const Tensor& x, const Tensor& otherwise) {
  return apply({.mode = CUDNN_POINTWISE_BINARY_SELECT,
                .x = x,
                .b = &otherwise,
                .condition = &where,
                .y = between(x.layout, x.type)});
}

const OperationGraph::Tensor& OperationGraph::index(const Tensor& x, std::int64_t axis) {
  return apply({.mode = CUDNN_POINTWISE_GEN_INDEX, .x = x, .y = between(x.layout, CUDNN_DATA_INT32), .axis = axis});
}

const OperationGraph::Tensor& OperationGraph::reduce(cudnnReduceTensorOp_t mode, const Tensor& x, const Tensor& to) {
  Descriptor how(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  how.set(CUDNN_ATTR_REDUCTION_OPERATOR, mode);
  how.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  how.finalize_or_answer();
  Descriptor operation(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, how);
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x.descriptor);
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, to.descriptor);
  keep(std::move(operation));
  return to;
}

const OperationGraph::Tensor& OperationGraph::reduce_rows(cudnnReduceTensorOp_t how, const Tensor& x) {
  const auto& [batch, heads, rows, columns] = x.layout.dims;
  return reduce(how, x, between(dense(batch, heads, rows, 1), CUDNN_DATA_FLOAT));
}

const OperationGraph::Tensor& OperationGraph::reshape(const Tensor& x, const TensorLayout& layout,
                                                      cudnnDataType_t type) {
  const Tensor& y = between(layout, type);
  Descriptor operation(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x.descriptor);
  operation.set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y.descriptor);
  keep(std::move(operation));
  return y;
}

void OperationGraph::keep(Descriptor operation) {
  operation.finalize_or_answer();
  operations_.push_back(std::move(operation));
}

Descriptor OperationGraph::finish() {
  std::vector<cudnnBackendDescriptor_t> handles;
  for (const Descriptor& operation : operations_) handles.push_back(operation.get());
  Descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  CUDNN_CHECK(cudnnBackendSetAttribute(graph.get(), CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                       static_cast<std::int64_t>(handles.size()), handles.data()));
  graph.finalize_or_answer();
  return graph;
}

}  // namespace benchsuite::cuda
