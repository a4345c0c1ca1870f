// A descriptor of cuDNN's backend API: made, filled attribute by attribute, finalized, then used by others.
#pragma once

#include <cudnn.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/device/cuda/cuda_check.h"

namespace benchsuite::cuda {

/// What the library says about its last failed call, beside the status.
inline std::string cudnn_text(cudnnStatus_t status) {
  char detail[512] = {};
  cudnnGetLastErrorString(detail, sizeof detail);
  const std::string name = cudnnGetErrorString(status);
  return detail[0] == '\0' ? name : name + " (" + detail + ")";
}

/// What the library says of what it does not support (any status of that category): an answer, not a failure.
struct NotSupported {
  std::string why;
};

/// Throws NotSupported for that answer and Error for every other failure.
inline void answer(cudnnStatus_t status, const char* file, int line, const char* expression) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  const std::string text = cudnn_text(status);
  if (static_cast<int>(status) / 1000 == static_cast<int>(CUDNN_STATUS_NOT_SUPPORTED) / 1000) throw NotSupported{text};
  call_failed(file, line, expression, text);
}

#define CUDNN_ANSWER(expression) ::benchsuite::cuda::answer((expression), __FILE__, __LINE__, #expression)
#define CUDNN_CHECK(expression) CUDA_LIBRARY_CHECK(expression, ::benchsuite::cuda::cudnn_text)

class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t type) { CUDNN_CHECK(cudnnBackendCreateDescriptor(type, &handle_)); }
  ~Descriptor() {
    if (handle_) cudnnBackendDestroyDescriptor(handle_);
  }
  Descriptor(Descriptor&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  cudnnBackendDescriptor_t get() const { return handle_; }

  template <class T>
  void set(cudnnBackendAttributeName_t name, const T& value) {
    set(name, std::span<const T>(&value, 1));
  }
  template <class T>
  void set(cudnnBackendAttributeName_t name, std::span<const T> values) {
    CUDNN_CHECK(
        cudnnBackendSetAttribute(handle_, name, type_of(T{}), static_cast<std::int64_t>(values.size()), values.data()));
  }
  void set(cudnnBackendAttributeName_t name, const Descriptor& other) {
    CUDNN_CHECK(cudnnBackendSetAttribute(handle_, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &other.handle_));
  }

  /// The descriptor that an attribute holds: `made` of the right type takes it over.
  void get(cudnnBackendAttributeName_t name, Descriptor& made) const { get(name, std::span(&made, 1)); }
  /// As many as there are and fit into `made`; how many these are. Throws NotSupported where the library answers so.
  std::size_t get(cudnnBackendAttributeName_t name, std::span<Descriptor> made) const {
    std::vector<cudnnBackendDescriptor_t> handles;
    for (const Descriptor& each : made) handles.push_back(each.handle_);
    std::int64_t count = 0;
    CUDNN_ANSWER(cudnnBackendGetAttribute(handle_, name, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                          static_cast<std::int64_t>(handles.size()), &count, handles.data()));
    return std::min(static_cast<std::size_t>(count), made.size());
  }
  /// The first values of an attribute, as many as there are and fit; how many these are.
  template <class T>
  std::size_t get(cudnnBackendAttributeName_t name, std::span<T> values) const {
    std::int64_t count = 0;
    CUDNN_CHECK(cudnnBackendGetAttribute(handle_, name, type_of(T{}), static_cast<std::int64_t>(values.size()), &count,
                                         values.data()));
    return std::min(static_cast<std::size_t>(count), values.size());
  }

  void finalize() { CUDNN_CHECK(cudnnBackendFinalize(handle_)); }
  /// Of what the library may not support: throws NotSupported where it answers so.
  void finalize_or_answer() { CUDNN_ANSWER(cudnnBackendFinalize(handle_)); }

 private:
  static constexpr cudnnBackendAttributeType_t type_of(std::int64_t) { return CUDNN_TYPE_INT64; }
  static constexpr cudnnBackendAttributeType_t type_of(std::int32_t) { return CUDNN_TYPE_INT32; }
  static constexpr cudnnBackendAttributeType_t type_of(bool) { return CUDNN_TYPE_BOOLEAN; }
  static constexpr cudnnBackendAttributeType_t type_of(char) { return CUDNN_TYPE_CHAR; }
  static constexpr cudnnBackendAttributeType_t type_of(void*) { return CUDNN_TYPE_VOID_PTR; }
  static constexpr cudnnBackendAttributeType_t type_of(cudnnDataType_t) { return CUDNN_TYPE_DATA_TYPE; }
  static constexpr cudnnBackendAttributeType_t type_of(cudnnPointwiseMode_t) { return CUDNN_TYPE_POINTWISE_MODE; }
  static constexpr cudnnBackendAttributeType_t type_of(cudnnReduceTensorOp_t) {
    return CUDNN_TYPE_REDUCTION_OPERATOR_TYPE;
  }
  static constexpr cudnnBackendAttributeType_t type_of(cudnnBackendHeurMode_t) { return CUDNN_TYPE_HEUR_MODE; }
  static constexpr cudnnBackendAttributeType_t type_of(cudnnBackendNumericalNote_t) {
    return CUDNN_TYPE_NUMERICAL_NOTE;
  }

  cudnnBackendDescriptor_t handle_ = nullptr;
};

}  // namespace benchsuite::cuda
