// cuDNN's descriptors: attributes by type, with the library's checks of misuse.
#include "cudnn_descriptors.h"

#include <algorithm>
#include <cstring>

#include "machine.h"

namespace cuda_emulator {

namespace {

thread_local std::string last_error;

struct Rule {
  cudnnBackendDescriptorType_t descriptor;
  cudnnBackendAttributeName_t name;
  cudnnBackendAttributeType_t type;
  std::int64_t least, most;  ///< values
  bool required;
  int holds = -1;  ///< the type of descriptor that it takes
};

constexpr std::int64_t kMany = 1 << 20;
constexpr int kTensor = CUDNN_BACKEND_TENSOR_DESCRIPTOR, kGpu = CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR,
              kAnyOperation = 1000;

constexpr Rule kRules[] = {
    {CUDNN_BACKEND_TENSOR_DESCRIPTOR, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, 1, true},
    {CUDNN_BACKEND_TENSOR_DESCRIPTOR, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, 1, true},
    {CUDNN_BACKEND_TENSOR_DESCRIPTOR, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, 4, true},
    {CUDNN_BACKEND_TENSOR_DESCRIPTOR, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, 4, true},
    {CUDNN_BACKEND_TENSOR_DESCRIPTOR, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, 1, true},
    {CUDNN_BACKEND_TENSOR_DESCRIPTOR, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, 1, false},
    {CUDNN_BACKEND_TENSOR_DESCRIPTOR, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, 1, false},
    {CUDNN_BACKEND_POINTWISE_DESCRIPTOR, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, 1, true},
    {CUDNN_BACKEND_POINTWISE_DESCRIPTOR, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, 1, true},
    {CUDNN_BACKEND_POINTWISE_DESCRIPTOR, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, 1, false},
    {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR,
     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 1, true, CUDNN_BACKEND_POINTWISE_DESCRIPTOR},
    {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR,
     1, 1, true, kTensor},
    {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR,
     1, 1, false, kTensor},
    {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR,
     1, 1, false, kTensor},
    {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR,
     1, 1, true, kTensor},
    {CUDNN_BACKEND_MATMUL_DESCRIPTOR, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, 1, true},
    {CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, CUDNN_ATTR_OPERATION_MATMUL_DESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 1,
     true, CUDNN_BACKEND_MATMUL_DESCRIPTOR},
    {CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, CUDNN_ATTR_OPERATION_MATMUL_ADESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 1,
     true, kTensor},
    {CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, CUDNN_ATTR_OPERATION_MATMUL_BDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 1,
     true, kTensor},
    {CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, CUDNN_ATTR_OPERATION_MATMUL_CDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 1,
     true, kTensor},
    {CUDNN_BACKEND_REDUCTION_DESCRIPTOR, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, 1, true},
    {CUDNN_BACKEND_REDUCTION_DESCRIPTOR, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, 1, true},
    {CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, CUDNN_ATTR_OPERATION_REDUCTION_DESC, CUDNN_TYPE_BACKEND_DESCRIPTOR,
     1, 1, true, CUDNN_BACKEND_REDUCTION_DESCRIPTOR},
    {CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR,
     1, 1, true, kTensor},
    {CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR,
     1, 1, true, kTensor},
    {CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
     1, true, kTensor},
    {CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
     1, true, kTensor},
    {CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, kMany,
     true, kAnyOperation},
    {CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, CUDNN_ATTR_DEVICEPROP_DEVICE_ID, CUDNN_TYPE_INT32, 1, 1, true},
    {CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 1,
     true, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR},
    {CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, 1, true},
    {CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 1, true,
     kGpu},
    {CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 1, true,
     CUDNN_BACKEND_ENGINE_DESCRIPTOR},
    {CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
     1, true, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR},
    {CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 1,
     true, kGpu},
    {CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 1, kMany, true},
    {CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 1, kMany, true},
    {CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, 1, false},
};

const Rule* rule_of(cudnnBackendDescriptorType_t descriptor, cudnnBackendAttributeName_t name) {
  const auto* const found = std::find_if(std::begin(kRules), std::end(kRules), [&](const Rule& rule) {
    return rule.descriptor == descriptor && rule.name == name;
  });
  return found == std::end(kRules) ? nullptr : found;
}

std::size_t bytes_of(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_BOOLEAN:
    case CUDNN_TYPE_CHAR:
      return 1;
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
      return 8;
    default:
      return 4;
  }
}

bool is_operation(cudnnBackendDescriptorType_t type) {
  return type == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR || type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR ||
         type == CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR || type == CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR;
}

std::string attribute(cudnnBackendAttributeName_t name) {
  return "attribute " + std::to_string(static_cast<int>(name));
}

/// Values of an attribute that the library computes.
template <class T>
cudnnStatus_t give(const std::vector<T>& from, std::int64_t requested, std::int64_t* count, void* values) {
  *count = static_cast<std::int64_t>(from.size());
  const auto fit = static_cast<std::size_t>(std::min(requested, *count));
  if (fit > 0) std::memcpy(values, from.data(), fit * sizeof(T));
  return CUDNN_STATUS_SUCCESS;
}

/// The same for descriptors: `values` are descriptors of the type, which take the contents over.
cudnnStatus_t give_descriptors(const std::vector<std::shared_ptr<Content>>& from, std::int64_t requested,
                               std::int64_t* count, void* values) {
  *count = static_cast<std::int64_t>(from.size());
  for (std::size_t i = 0; i < from.size() && static_cast<std::int64_t>(i) < requested; ++i) {
    auto* const into = static_cast<CudnnDescriptor*>(static_cast<cudnnBackendDescriptor_t*>(values)[i]);
    if (into->content->type != from[i]->type)
      return refused(CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE, "a result of another type");
    into->content = from[i];
  }
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace

cudnnStatus_t refused(cudnnStatus_t status, const std::string& why) {
  last_error = why;
  return status;
}

}  // namespace cuda_emulator

using namespace cuda_emulator;

std::size_t cudnnGetVersion() { return Machine::get().settings.cudnn_version; }

const char* cudnnGetErrorString(cudnnStatus_t status) {
  switch (status) {
    case CUDNN_STATUS_SUCCESS:
      return "CUDNN_STATUS_SUCCESS";
    case CUDNN_STATUS_NOT_INITIALIZED:
      return "CUDNN_STATUS_NOT_INITIALIZED";
    case CUDNN_STATUS_NOT_SUPPORTED:
      return "CUDNN_STATUS_NOT_SUPPORTED";
    case CUDNN_STATUS_EXECUTION_FAILED:
      return "CUDNN_STATUS_EXECUTION_FAILED";
    default:
      return "CUDNN_STATUS_BAD_PARAM";
  }
}

void cudnnGetLastErrorString(char* message, std::size_t max_size) {
  const std::size_t length = std::min(last_error.size(), max_size - 1);
  std::memcpy(message, last_error.data(), length);
  message[length] = '\0';
}

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  if (Machine::get().injected("cudnnCreate") != cudaSuccess)
    return refused(CUDNN_STATUS_NOT_INITIALIZED, "cudnnCreate fails");
  *handle = new CudnnHandle{current_device()};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* descriptor) {
  auto content = std::make_shared<Content>();
  content->type = type;
  *descriptor = new CudnnDescriptor{std::move(content)};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  delete static_cast<CudnnDescriptor*>(descriptor);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, std::int64_t count, const void* values) {
  if (!descriptor || !values) return refused(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, attribute(name) + ": a null pointer");
  Content& content = *static_cast<CudnnDescriptor*>(descriptor)->content;
  if (content.finalized) return refused(CUDNN_STATUS_NOT_INITIALIZED, attribute(name) + ": set after it was finalized");
  const Rule* const rule = rule_of(content.type, name);
  if (!rule) return refused(CUDNN_STATUS_BAD_PARAM, attribute(name) + ": none of this descriptor");
  if (rule->type != type) return refused(CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE, attribute(name) + ": of another type");
  if (count < rule->least || count > rule->most) {
    return refused(CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT,
                   attribute(name) + ": " + std::to_string(count) + " values");
  }
  Attribute fresh{count, {}, {}};
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    for (std::int64_t i = 0; i < count; ++i) {
      const auto* const held =
          static_cast<const CudnnDescriptor*>(static_cast<const cudnnBackendDescriptor_t*>(values)[i]);
      if (!held) return refused(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, attribute(name) + ": a null descriptor");
      if (!held->content->finalized)
        return refused(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, attribute(name) + ": not finalized");
      const bool fits = rule->holds == kAnyOperation ? is_operation(held->content->type)
                                                     : static_cast<int>(held->content->type) == rule->holds;
      if (!fits) return refused(CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE, attribute(name) + ": another descriptor");
      fresh.descriptors.push_back(held->content);
    }
  } else {
    const auto* const first = static_cast<const std::byte*>(values);
    fresh.bytes.assign(first, first + static_cast<std::size_t>(count) * bytes_of(type));
  }
  content.attributes[name] = std::move(fresh);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  // A fault on purpose: out of memory is a failure, any other error the answer that this is not supported.
  if (const cudaError_t fault = Machine::get().injected("cudnnBackendFinalize"); fault != cudaSuccess) {
    return refused(fault == cudaErrorMemoryAllocation ? CUDNN_STATUS_EXECUTION_FAILED : CUDNN_STATUS_NOT_SUPPORTED,
                   "cudnnBackendFinalize fails");
  }
  Content& content = *static_cast<CudnnDescriptor*>(descriptor)->content;
  for (const Rule& rule : kRules) {
    if (rule.descriptor == content.type && rule.required && !content.has(rule.name)) {
      return refused(CUDNN_STATUS_BAD_PARAM, attribute(rule.name) + ": not set");
    }
  }
  const cudnnStatus_t status =
      content.type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR ? build_plan(content) : check(content);
  content.finalized = status == CUDNN_STATUS_SUCCESS;
  return status;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, std::int64_t requested, std::int64_t* count,
                                       void* values) {
  const Content& content = *static_cast<CudnnDescriptor*>(descriptor)->content;
  if (!content.finalized) return refused(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, attribute(name) + ": not finalized");
  const auto is = [&](cudnnBackendAttributeName_t wanted, cudnnBackendDescriptorType_t of,
                      cudnnBackendAttributeType_t as) { return name == wanted && content.type == of && type == as; };
  if (is(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, CUDNN_TYPE_BACKEND_DESCRIPTOR)) {
    return give_descriptors(propose(content.attributes.at(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH).descriptors[0],
                                    content.child(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP)),
                            requested, count, values);
  }
  if (is(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, CUDNN_TYPE_BACKEND_DESCRIPTOR)) {
    return give_descriptors({std::make_shared<Content>(content.child(name))}, requested, count, values);
  }
  if (is(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_BACKEND_ENGINE_DESCRIPTOR, CUDNN_TYPE_NUMERICAL_NOTE)) {
    return give(notes_of(content), requested, count, values);
  }
  if (is(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, CUDNN_TYPE_INT64)) {
    return give(std::vector<std::int64_t>{workspace_of(content)}, requested, count, values);
  }
  return refused(CUDNN_STATUS_BAD_PARAM, attribute(name) + ": can't be read, or not as that type");
}
