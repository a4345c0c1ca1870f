// One op as a CPU kernel sees it: its shape, its operands in op-table order as memory, and its layer.
//
// A kernel computes in fp32. Operands in bf16 are widened to fp32 copies on the way in and rounded, once, on the way out:
// the kernel asks for `in`, `out` or `inout` and never knows. What an op computes in bf16 is therefore what it computes in
// fp32 from the same values, rounded.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/core/bf16.h"
#include "engine/core/error.h"
#include "engine/program/op.h"

namespace benchsuite::cpu {

/// fp32 copies of one op's bf16 operands, and its scratch. Slots keep their memory from op to op, so that a second step
/// allocates nothing.
class Staging {
 public:
  /// The next op.
  void clear() {
    used_ = sums_used_ = 0;
    outputs_.clear();
  }
  float* widened(std::span<const std::byte> bf16) {
    const auto* from = reinterpret_cast<const Bf16*>(bf16.data());
    float* to = slot(bf16.size() / sizeof(Bf16));
    for (std::size_t i = 0; i < bf16.size() / sizeof(Bf16); ++i) to[i] = widen(from[i]);
    return to;
  }
  /// `value` goes to `bf16` when the op is done.
  float* rounded_at_end(std::span<std::byte> bf16, float* value) {
    outputs_.push_back({reinterpret_cast<Bf16*>(bf16.data()), value, bf16.size() / sizeof(Bf16)});
    return value;
  }
  /// Memory of any content until the op is done.
  float* scratch(std::int64_t count) { return slot(static_cast<std::size_t>(count)); }
  /// `count` sums, 0 to begin with.
  double* sums(std::int64_t count) {
    if (sums_used_ == sums_.size()) sums_.emplace_back();
    std::vector<double>& memory = sums_[sums_used_++];
    memory.assign(std::max(memory.size(), static_cast<std::size_t>(count)), 0.0);
    return memory.data();
  }
  float* unwritten(std::span<std::byte> bf16) { return rounded_at_end(bf16, slot(bf16.size() / sizeof(Bf16))); }
  void finish() const {
    for (const Output& output : outputs_) {
      for (std::size_t i = 0; i < output.count; ++i) output.to[i] = round_to_bf16(output.from[i]);
    }
  }

 private:
  struct Output {
    Bf16* to;
    const float* from;
    std::size_t count;
  };

  float* slot(std::size_t count) {
    if (used_ == slots_.size()) slots_.emplace_back();
    std::vector<float>& memory = slots_[used_++];
    if (memory.size() < count) memory.resize(count);
    return memory.data();
  }

  std::vector<std::vector<float>> slots_;
  std::vector<std::vector<double>> sums_;
  std::size_t used_ = 0, sums_used_ = 0;
  std::vector<Output> outputs_;
};

struct KernelCall {
  const OpShape& shape;
  std::span<const std::span<std::byte>> operands;
  std::int32_t layer;  ///< global layer, -1: none; part of a dropout mask's counter
  Staging& staging;

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
  /// fp32 in every precision: statistics, cross-entropy, optimizer state, scalars.
  float* f32(std::size_t index, std::int64_t elements) const { return operand<float>(index, elements); }
  const std::int32_t* i32(std::size_t index, std::int64_t elements) const {
    return operand<const std::int32_t>(index, elements);
  }

  /// An operand of the op's input type, read.
  const float* in(std::size_t index, std::int64_t elements) const {
    if (shape.dtype != DType::bf16) return f32(index, elements);
    operand<Bf16>(index, elements);
    return staging.widened(operands[index]);
  }
  /// An operand of the op's output type, all of it written.
  float* out(std::size_t index, std::int64_t elements) const {
    if (shape.out_dtype != DType::bf16) return f32(index, elements);
    operand<Bf16>(index, elements);
    return staging.unwritten(operands[index]);
  }
  /// An operand of the op's output type, read and updated, or written in part.
  float* inout(std::size_t index, std::int64_t elements) const {
    if (shape.out_dtype != DType::bf16) return f32(index, elements);
    operand<Bf16>(index, elements);
    return staging.rounded_at_end(operands[index], staging.widened(operands[index]));
  }
  /// A gradient accumulator beside an output of another type; its size tells bf16 from fp32.
  float* accumulator(std::size_t index, std::int64_t elements) const {
    CHECK(index < operands.size()) << name_of(shape.kind) << " lacks operand " << index;
    if (operands[index].size() != static_cast<std::size_t>(elements) * sizeof(Bf16)) return f32(index, elements);
    return staging.rounded_at_end(operands[index], staging.widened(operands[index]));
  }

  /// Elements of an operand of any size.
  std::int64_t elements(std::size_t index, DType type) const {
    CHECK(index < operands.size()) << name_of(shape.kind) << " lacks operand " << index;
    return static_cast<std::int64_t>(operands[index].size()) / size_of(type);
  }
};

}  // namespace benchsuite::cpu
