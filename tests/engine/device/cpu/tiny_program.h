// Programs written by hand, values to run them on, and finite differences to hold them against.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "engine/core/bf16.h"
#include "engine/core/rng.h"
#include "engine/device/cpu/cpu_rank.h"
#include "engine/device/cpu/run_ranks.h"
#include "engine/device/op_table.h"

namespace benchsuite::testing_cpu {

/// How an op of a TinyProgram is placed.
struct Placed {
  StreamKind stream = StreamKind::compute;
  std::vector<OpId> waits = {};
  std::int16_t layer = -1;
  std::uint32_t group = kNone;
};

/// Lays every buffer at an offset of its own unless `share_with` names one to lie on.
class TinyProgram {
 public:
  explicit TinyProgram(int rank = 0) { program.rank = rank; }

  Tensor tensor(std::int64_t elements, DType dtype = DType::fp32, Purpose purpose = Purpose::activations,
                BufferId share_with = kNone) {
    Buffer buffer;
    buffer.purpose = purpose;
    buffer.dtype = dtype;
    buffer.bytes = static_cast<std::uint64_t>(elements * size_of(dtype));
    buffer.alloc_at = static_cast<OpId>(program.ops.size());
    std::uint64_t& extent = program.arena_bytes[static_cast<std::size_t>(purpose)];
    buffer.offset = share_with == kNone ? extent : program.buffers[share_with].offset;
    extent = std::max(extent, round_up<std::uint64_t>(buffer.offset + buffer.bytes, 64));
    program.buffers.push_back(buffer);
    return {static_cast<BufferId>(program.buffers.size() - 1), dtype, 0, {1, 1, 1, elements}};
  }

  void free(const Tensor& tensor) { program.buffers[tensor.buffer].free_at = static_cast<OpId>(program.ops.size()); }

  std::uint32_t group(GroupKind kind, std::vector<int> ranks) {
    program.groups.push_back({kind, std::move(ranks)});
    return static_cast<std::uint32_t>(program.groups.size() - 1);
  }

  OpId op(const OpShape& shape, const std::vector<Operand>& operands, const Placed& placed = {}) {
    Op op;
    op.kind = shape.kind;
    op.stream = placed.stream;
    op.shape = static_cast<std::uint32_t>(program.shapes.size());
    program.shapes.push_back(shape);
    op.first_operand = static_cast<std::uint32_t>(program.operands.size());
    op.operand_count = static_cast<std::uint16_t>(operands.size());
    program.operands.insert(program.operands.end(), operands.begin(), operands.end());
    op.first_wait = static_cast<std::uint32_t>(program.waits.size());
    op.wait_count = static_cast<std::uint16_t>(placed.waits.size());
    program.waits.insert(program.waits.end(), placed.waits.begin(), placed.waits.end());
    op.group = placed.group;
    if (placed.group != kNone) op.group_sequence = sequences_[placed.group]++;
    op.layer = placed.layer;
    program.ops.push_back(op);
    return static_cast<OpId>(program.ops.size() - 1);
  }

  Program program;

 private:
  std::map<std::uint32_t, std::uint32_t> sequences_;
};

inline OpShape shape_of(OpKind kind, std::initializer_list<std::int64_t> dims, float scalar0 = 0, float scalar1 = 0) {
  OpShape shape;
  shape.kind = kind;
  shape.dtype = shape.out_dtype = DType::fp32;
  std::copy(dims.begin(), dims.end(), shape.dims.begin());
  shape.scalars = {scalar0, scalar1};
  return shape;
}

/// A host value an op reads, writes or updates.
struct Value {
  DType dtype = DType::fp32;
  std::vector<float> f;
  std::vector<std::int32_t> i;
  std::vector<std::uint8_t> u;
  std::vector<Bf16> h;

  std::size_t size() const { return f.size() + i.size() + u.size() + h.size(); }
  const void* data() const {
    return dtype == DType::fp32 ? static_cast<const void*>(f.data())
           : dtype == DType::int32 ? static_cast<const void*>(i.data())
           : dtype == DType::bf16 ? static_cast<const void*>(h.data())
                                  : static_cast<const void*>(u.data());
  }
  void* data() { return const_cast<void*>(static_cast<const Value*>(this)->data()); }
};

inline Value floats(std::vector<float> values) { return {DType::fp32, std::move(values), {}, {}, {}}; }
inline Value ints(std::vector<std::int32_t> values) { return {DType::int32, {}, std::move(values), {}, {}}; }
inline Value bytes_of_mask(std::size_t n) { return {DType::uint8, {}, {}, std::vector<std::uint8_t>(n, 77), {}}; }
/// `values` rounded to bf16.
inline Value halves(const std::vector<float>& values) {
  Value result{DType::bf16, {}, {}, {}, {}};
  for (const float value : values) result.h.push_back(round_to_bf16(value));
  return result;
}
/// An output: not a number until the op writes it.
inline Value output(std::int64_t n) {
  return floats(std::vector<float>(static_cast<std::size_t>(n), std::numeric_limits<float>::quiet_NaN()));
}

struct Argument {
  Access access;
  Value* value;
};
inline Argument in(Value& value) { return {Access::read, &value}; }
inline Argument out(Value& value) { return {Access::write, &value}; }
inline Argument inout(Value& value) { return {Access::read_write, &value}; }

/// Runs one op on a world of one rank; values are copied in and, where written, out.
inline void run_op(const OpShape& shape, const std::vector<Argument>& arguments, std::int16_t layer = -1) {
  TinyProgram tiny;
  std::vector<Operand> operands;
  for (const Argument& argument : arguments) {
    const Tensor tensor =
        tiny.tensor(static_cast<std::int64_t>(argument.value->size()), argument.value->dtype, Purpose::parameters);
    operands.push_back({0, tensor.bytes(), tensor.buffer, argument.access});
  }
  tiny.op(shape, operands, {.layer = layer});
  HostWork host;
  host.init = [&](CpuRank& rank) {
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      std::memcpy(rank.bytes(operands[i]).data(), arguments[i].value->data(), operands[i].bytes);
    }
  };
  const auto ranks = run_ranks({&tiny.program}, host, 1);
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const auto memory = ranks[0]->bytes(operands[i]);
    if (arguments[i].access == Access::read) {
      EXPECT_EQ(std::memcmp(memory.data(), arguments[i].value->data(), operands[i].bytes), 0)
          << name_of(shape.kind) << " wrote to its input " << i;
    } else {
      std::memcpy(arguments[i].value->data(), memory.data(), operands[i].bytes);
    }
  }
}

/// Fixed values in (-1, 1) that repeat nowhere; `salt` tells tensors apart.
inline std::vector<float> random_floats(std::int64_t n, std::uint32_t salt) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < n; ++i) {
    values.push_back(2 * uniform_from(philox(2024, {static_cast<std::uint32_t>(i), salt, 0, 0})[0]) - 1);
  }
  return values;
}
inline Value random_value(std::int64_t n, std::uint32_t salt) { return floats(random_floats(n, salt)); }

/// sum of weight * y, in double.
inline double weighted(const std::vector<float>& y, const std::vector<float>& weight) {
  double sum = 0;
  for (std::size_t i = 0; i < y.size(); ++i) sum += static_cast<double>(y[i]) * weight[i];
  return sum;
}

/// Compares `analytic` with the five-point central difference of `loss` at each element of `x`, which loss must read.
///
/// The stencil's truncation error is h^4 / 30 times the fifth derivative: with h = 1/32 about 3e-8 of it. The loss is a
/// double sum of at most some hundred fp32 outputs of size about 1, each off by about 6e-8, divided by h: some 3e-5.
inline void expect_gradient(std::vector<float>& x, const std::vector<float>& analytic,
                            const std::function<double()>& loss, const std::string& name, double tolerance = 1e-4) {
  ASSERT_EQ(x.size(), analytic.size()) << name;
  constexpr float kStep = 0x1p-5f;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const float at = x[i];
    double slope = 0, span = 0;
    const auto sample = [&](float offset) {
      x[i] = at + offset;
      return loss();
    };
    // x + h is rounded to fp32 (at most 6e-8 of 1/32: 2e-6 relative), below the tolerance.
    slope = 8 * (sample(kStep) - sample(-kStep)) - (sample(2 * kStep) - sample(-2 * kStep));
    span = 12.0 * kStep;
    x[i] = at;
    EXPECT_NEAR(analytic[i], slope / span, tolerance + tolerance * std::abs(slope / span)) << name << " element " << i;
  }
}

inline void expect_near(const std::vector<float>& actual, const std::vector<float>& expected, double tolerance,
                        const std::string& name) {
  ASSERT_EQ(actual.size(), expected.size()) << name;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], tolerance + tolerance * std::abs(expected[i])) << name << " element " << i;
  }
}

}  // namespace benchsuite::testing_cpu
