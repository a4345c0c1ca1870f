// Descriptors of the emulated cuDNN: what they hold, and which of it each type takes.
#pragma once

#include <cudnn.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace cuda_emulator {

struct CudnnHandle {
  int device = 0;  ///< the current one when it was made
  cudaStream_t stream = nullptr;
};

struct Content;
using Held = std::shared_ptr<const Content>;

struct Attribute {
  std::int64_t count = 0;
  std::vector<std::byte> bytes;
  std::vector<Held> descriptors;  ///< of CUDNN_TYPE_BACKEND_DESCRIPTOR, instead of bytes
};

/// What a descriptor stands for. Others hold it beyond the descriptor's end, as in the library.
struct Content {
  cudnnBackendDescriptorType_t type{};
  bool finalized = false;
  std::map<cudnnBackendAttributeName_t, Attribute> attributes;
  int engine = -1;  ///< of an engine: which
  Held graph;       ///< of an engine: what it is to compute

  bool has(cudnnBackendAttributeName_t name) const { return attributes.contains(name); }
  template <class T>
  T value(cudnnBackendAttributeName_t name) const {
    return values<T>(name).at(0);
  }
  template <class T>
  std::vector<T> values(cudnnBackendAttributeName_t name) const {
    const Attribute& attribute = attributes.at(name);
    std::vector<T> out(static_cast<std::size_t>(attribute.count));
    std::memcpy(out.data(), attribute.bytes.data(), attribute.bytes.size());
    return out;
  }
  const Content& child(cudnnBackendAttributeName_t name) const { return *attributes.at(name).descriptors.at(0); }
  /// By name, or null.
  const Content* child_or_null(cudnnBackendAttributeName_t name) const { return has(name) ? &child(name) : nullptr; }
};

/// What the user holds.
struct CudnnDescriptor {
  std::shared_ptr<Content> content;
};

/// Of a tensor descriptor, by name.
struct TensorView {
  explicit TensorView(const Content& tensor);
  std::int64_t elements() const { return dims[0] * dims[1] * dims[2] * dims[3]; }
  /// From the first element to after the last, in elements.
  std::int64_t extent() const;
  std::int64_t offset(const std::array<std::int64_t, 4>& at) const {
    return at[0] * strides[0] + at[1] * strides[1] + at[2] * strides[2] + at[3] * strides[3];
  }

  std::int64_t uid, alignment;
  cudnnDataType_t type;
  std::array<std::int64_t, 4> dims{}, strides{};
  bool is_virtual, by_value;
};

/// Keeps the words for cudnnGetLastErrorString and hands the status on.
cudnnStatus_t refused(cudnnStatus_t status, const std::string& why);

/// Whether the attributes of a descriptor that is to be finalized make sense together (cudnn_checks.cpp).
cudnnStatus_t check(const Content& content);

/// The tensors that an operation reads, in order, and the one that it writes.
std::vector<const Content*> inputs_of(const Content& operation);
const Content& output_of(const Content& operation);

// Engines (cudnn_engines.cpp): proposals for an operation graph on a GPU; none when no engine takes it.
std::vector<std::shared_ptr<Content>> propose(const Held& graph, const Content& gpu);
std::vector<cudnnBackendNumericalNote_t> notes_of(const Content& engine);
/// Whether the plan can be built, and what it needs.
cudnnStatus_t build_plan(const Content& plan);
std::int64_t workspace_of(const Content& plan);
/// Addresses by uid.
using Addresses = std::map<std::int64_t, void*>;
/// Runs a graph's operations in their order (cudnn_operations.cpp). Writes over the workspace at each: what others keep
/// there, or two plans at once, is lost. `disturbance` is added to every result in memory.
void run_operations(const Content& graph, const Addresses& addresses, std::span<std::byte> workspace,
                    float disturbance);

}  // namespace cuda_emulator
