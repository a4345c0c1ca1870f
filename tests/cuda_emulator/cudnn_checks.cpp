// Which descriptors of cuDNN make sense: shapes that fit each other, operands that a mode takes, graphs without holes.
#include <cstring>
#include <set>

#include "cudnn_descriptors.h"
#include "machine.h"

namespace cuda_emulator {

namespace {

cudnnStatus_t mismatch(const std::string& why) { return refused(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, why); }

cudnnStatus_t check_tensor(const Content& content) {
  const TensorView tensor(content);
  for (std::size_t i = 0; i < tensor.dims.size(); ++i) {
    if (tensor.dims[i] <= 0 || tensor.strides[i] <= 0)
      return mismatch("a tensor of no elements, or with strides of none");
  }
  if (tensor.is_virtual && tensor.by_value) return refused(CUDNN_STATUS_BAD_PARAM, "a virtual tensor given by value");
  if (tensor.alignment <= 0 || (tensor.alignment & (tensor.alignment - 1)) != 0)
    return refused(CUDNN_STATUS_BAD_PARAM, "alignment");
  return CUDNN_STATUS_SUCCESS;
}

/// `small` may stand for `large` when each dimension is the same or 1.
bool broadcasts(const TensorView& small, const TensorView& large) {
  for (std::size_t i = 0; i < small.dims.size(); ++i) {
    if (small.dims[i] != large.dims[i] && small.dims[i] != 1) return false;
  }
  return true;
}

cudnnStatus_t check_matmul(const Content& content) {
  const TensorView a(content.child(CUDNN_ATTR_OPERATION_MATMUL_ADESC)),
      b(content.child(CUDNN_ATTR_OPERATION_MATMUL_BDESC));
  const TensorView c(content.child(CUDNN_ATTR_OPERATION_MATMUL_CDESC));
  // Heads of A that share one of B lie one behind the other.
  const bool heads = a.dims[1] == c.dims[1] && a.dims[1] % b.dims[1] == 0;
  if (!heads || a.dims[0] != b.dims[0] || a.dims[0] != c.dims[0] || a.dims[2] != c.dims[2] || a.dims[3] != b.dims[2] ||
      b.dims[3] != c.dims[3]) {
    return mismatch("a product whose matrices do not fit each other");
  }
  return a.type == b.type || a.is_virtual ? CUDNN_STATUS_SUCCESS : mismatch("a product of two types");
}

cudnnStatus_t check_pointwise(const Content& content) {
  const Content& how = content.child(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
  const auto mode = how.value<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE);
  const bool one = mode == CUDNN_POINTWISE_EXP || mode == CUDNN_POINTWISE_LOG || mode == CUDNN_POINTWISE_GEN_INDEX;
  const bool selects = mode == CUDNN_POINTWISE_BINARY_SELECT;
  if (content.has(CUDNN_ATTR_OPERATION_POINTWISE_BDESC) == one ||
      content.has(CUDNN_ATTR_OPERATION_POINTWISE_TDESC) != selects ||
      how.has(CUDNN_ATTR_POINTWISE_AXIS) != (mode == CUDNN_POINTWISE_GEN_INDEX)) {
    return refused(CUDNN_STATUS_BAD_PARAM, "a pointwise operation whose operands are not those of its mode");
  }
  const TensorView y(content.child(CUDNN_ATTR_OPERATION_POINTWISE_YDESC));
  for (const Content* input : inputs_of(content)) {
    if (!broadcasts(TensorView(*input), y))
      return mismatch("a pointwise operation on tensors that do not fit each other");
  }
  const bool compares = mode == CUDNN_POINTWISE_CMP_GE || mode == CUDNN_POINTWISE_CMP_GT;
  if (compares != (y.type == CUDNN_DATA_BOOLEAN))
    return refused(CUDNN_STATUS_BAD_PARAM, "a comparison gives booleans, and nothing else does");
  if (selects && TensorView(content.child(CUDNN_ATTR_OPERATION_POINTWISE_TDESC)).type != CUDNN_DATA_BOOLEAN) {
    return refused(CUDNN_STATUS_BAD_PARAM, "a choice by what is no boolean");
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t check_reduction(const Content& content) {
  const TensorView x(content.child(CUDNN_ATTR_OPERATION_REDUCTION_XDESC)),
      y(content.child(CUDNN_ATTR_OPERATION_REDUCTION_YDESC));
  return broadcasts(y, x) ? CUDNN_STATUS_SUCCESS : mismatch("a reduction to a tensor that does not fit");
}

cudnnStatus_t check_reshape(const Content& content) {
  const TensorView x(content.child(CUDNN_ATTR_OPERATION_RESHAPE_XDESC)),
      y(content.child(CUDNN_ATTR_OPERATION_RESHAPE_YDESC));
  return x.elements() == y.elements() ? CUDNN_STATUS_SUCCESS : mismatch("a reshape to another number of elements");
}

cudnnStatus_t check_graph(const Content& content) {
  std::map<std::int64_t, const Content*> seen;
  std::set<std::int64_t> written;
  for (const Held& operation : content.attributes.at(CUDNN_ATTR_OPERATIONGRAPH_OPS).descriptors) {
    const auto meet = [&](const Content& tensor) {
      const auto [known, fresh] = seen.emplace(TensorView(tensor).uid, &tensor);
      return fresh || known->second == &tensor;
    };
    for (const Content* input : inputs_of(*operation)) {
      const TensorView tensor(*input);
      if (!meet(*input)) return refused(CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES, "two tensors of one uid");
      if (tensor.is_virtual && !written.contains(tensor.uid))
        return refused(CUDNN_STATUS_BAD_PARAM, "a tensor that nothing has written");
    }
    const TensorView output(output_of(*operation));
    if (!meet(output_of(*operation)))
      return refused(CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES, "two tensors of one uid");
    if (output.by_value || !written.insert(output.uid).second)
      return refused(CUDNN_STATUS_BAD_PARAM, "a tensor that is written twice");
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t check_gpu(const Content& content) {
  const auto device = content.value<std::int32_t>(CUDNN_ATTR_DEVICEPROP_DEVICE_ID);
  const bool there = device >= 0 && device < Machine::get().settings.devices;
  return there ? CUDNN_STATUS_SUCCESS : refused(CUDNN_STATUS_BAD_PARAM, "a GPU that is not there");
}

cudnnStatus_t check_pack(const Content& content) {
  const auto& uids = content.attributes.at(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const bool equal = uids.count == content.attributes.at(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS).count;
  return equal ? CUDNN_STATUS_SUCCESS : refused(CUDNN_STATUS_BAD_PARAM, "not an address for each uid");
}

}  // namespace

TensorView::TensorView(const Content& tensor)
    : uid(tensor.value<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID)),
      alignment(tensor.value<std::int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT)),
      type(tensor.value<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE)),
      is_virtual(tensor.has(CUDNN_ATTR_TENSOR_IS_VIRTUAL) &&
                 tensor.attributes.at(CUDNN_ATTR_TENSOR_IS_VIRTUAL).bytes[0] != std::byte{0}),
      by_value(tensor.has(CUDNN_ATTR_TENSOR_IS_BY_VALUE) &&
               tensor.attributes.at(CUDNN_ATTR_TENSOR_IS_BY_VALUE).bytes[0] != std::byte{0}) {
  std::memcpy(dims.data(), tensor.attributes.at(CUDNN_ATTR_TENSOR_DIMENSIONS).bytes.data(), sizeof dims);
  std::memcpy(strides.data(), tensor.attributes.at(CUDNN_ATTR_TENSOR_STRIDES).bytes.data(), sizeof strides);
}

std::int64_t TensorView::extent() const { return offset({dims[0] - 1, dims[1] - 1, dims[2] - 1, dims[3] - 1}) + 1; }

std::vector<const Content*> inputs_of(const Content& operation) {
  std::vector<const Content*> out;
  for (const auto name :
       {CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
        CUDNN_ATTR_OPERATION_POINTWISE_TDESC, CUDNN_ATTR_OPERATION_MATMUL_ADESC, CUDNN_ATTR_OPERATION_MATMUL_BDESC,
        CUDNN_ATTR_OPERATION_REDUCTION_XDESC, CUDNN_ATTR_OPERATION_RESHAPE_XDESC}) {
    if (operation.has(name)) out.push_back(&operation.child(name));
  }
  return out;
}

const Content& output_of(const Content& operation) {
  switch (operation.type) {
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
      return operation.child(CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
      return operation.child(CUDNN_ATTR_OPERATION_MATMUL_CDESC);
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
      return operation.child(CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
    default:
      return operation.child(CUDNN_ATTR_OPERATION_RESHAPE_YDESC);
  }
}

cudnnStatus_t check(const Content& content) {
  switch (content.type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
      return check_tensor(content);
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
      return check_matmul(content);
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
      return check_pointwise(content);
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
      return check_reduction(content);
    case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
      return check_reshape(content);
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
      return check_graph(content);
    case CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR:
      return check_gpu(content);
    case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR:
      return check_pack(content);
    default:
      return CUDNN_STATUS_SUCCESS;
  }
}

}  // namespace cuda_emulator
