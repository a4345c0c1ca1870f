// One op as a CPU kernel sees it: its shape, its operands in op-table order as memory, and its layer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/core/error.h"
#include "engine/program/op.h"

namespace benchsuite::cpu {

struct KernelCall {
  const OpShape& shape;
  std::span<const std::span<std::byte>> operands;
  std::int32_t layer = -1;  ///< global layer, -1: none; part of a dropout mask's counter

  std::int64_t dim(std::size_t index) const { return shape.dims[index]; }
  float scalar(std::size_t index) const { return shape.scalars[index]; }

  void expect_operands(std::size_t count) const {
    CHECK(operands.size() == count) << name_of(shape.kind) << " takes " << count << " operands, not "
                                    << operands.size();
  }

  /// Operand `index` as `elements` values of T; throws when the Program gave it another size.
  template <class T>
  T* operand(std::size_t index, std::int64_t elements) const {
    CHECK(index < operands.size()) << name_of(shape.kind) << " lacks operand " << index;
    CHECK(operands[index].size() == static_cast<std::size_t>(elements) * sizeof(T))
        << name_of(shape.kind) << " operand " << index << " has " << operands[index].size() << " bytes, not "
        << elements << " x " << sizeof(T);
    return reinterpret_cast<T*>(operands[index].data());
  }
  float* f32(std::size_t index, std::int64_t elements) const { return operand<float>(index, elements); }
  const std::int32_t* i32(std::size_t index, std::int64_t elements) const {
    return operand<const std::int32_t>(index, elements);
  }

  /// Elements of an fp32 operand of any size.
  std::int64_t elements(std::size_t index) const {
    CHECK(index < operands.size()) << name_of(shape.kind) << " lacks operand " << index;
    return static_cast<std::int64_t>(operands[index].size() / sizeof(float));
  }
};

}  // namespace benchsuite::cpu
