// One op as a CUDA kernel sees it: its shape, its operands in op-table order as device memory, and where it runs.
//
// Plain C++: no CUDA header beyond the stream's type, so that the executor and the kernels share it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/core/error.h"
#include "engine/program/op.h"

namespace benchsuite::cuda {

struct KernelCall {
  const OpShape& shape;
  std::span<const std::span<std::byte>> operands;  ///< device addresses; never read by the host
  std::int32_t layer = -1;                         ///< global layer, -1: none; part of a dropout mask's counter
  std::span<std::byte> workspace;  ///< at least workspace_bytes(shape), 256-byte aligned, of any content
  cudaStream_t stream = nullptr;

  std::int64_t dim(std::size_t index) const { return shape.dims[index]; }
  float scalar(std::size_t index) const { return shape.scalars[index]; }

  void expect_operands(std::size_t count) const {
    CHECK(operands.size() == count) << name_of(shape.kind) << " takes " << count << " operands, not "
                                    << operands.size();
  }

  std::uint64_t bytes(std::size_t index) const {
    CHECK(index < operands.size()) << name_of(shape.kind) << " lacks operand " << index;
    return operands[index].size();
  }
  /// Elements of an operand of any size.
  std::int64_t elements(std::size_t index, DType type) const {
    return static_cast<std::int64_t>(bytes(index)) / size_of(type);
  }
  /// Operand `index` as `elements` values of T; throws when the Program gave it another size.
  template <class T>
  T* operand(std::size_t index, std::int64_t elements) const {
    CHECK(bytes(index) == static_cast<std::uint64_t>(elements) * sizeof(T))
        << name_of(shape.kind) << " operand " << index << " has " << bytes(index) << " bytes, not " << elements << " x "
        << sizeof(T);
    return reinterpret_cast<T*>(operands[index].data());
  }
  /// The workspace as `elements` values of T.
  template <class T>
  T* scratch(std::int64_t elements) const {
    CHECK(workspace.size() >= static_cast<std::uint64_t>(elements) * sizeof(T))
        << name_of(shape.kind) << " needs " << elements << " x " << sizeof(T) << " bytes of workspace, not "
        << workspace.size();
    return reinterpret_cast<T*>(workspace.data());
  }
};

}  // namespace benchsuite::cuda
