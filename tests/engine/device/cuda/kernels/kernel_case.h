// One op on the emulated GPU against what it must give, under every condition that must not change its bits.
//
// `check` runs the op once, compares every output with a reference in double, and then runs it again with other thread
// orders, other contents of fresh memory, operands off 16-byte boundaries and, where the op allows it, outputs in the
// place of inputs: bits must be equal each time, and inputs untouched.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "engine/core/bf16.h"
#include "engine/device/cuda/kernels/dispatch.h"
#include "engine/program/op.h"

namespace benchsuite::testing_cuda {

/// Inputs are other numbers in every run; the seed is printed when something fails, and BENCHSUITE_TEST_SEED sets it.
std::uint64_t fresh_seed();

/// Numbers that `type` holds exactly.
class Numbers {
 public:
  Numbers() : random_(fresh_seed()) {}
  std::vector<double> normal(std::int64_t count, DType type, double scale = 1);
  std::vector<double> uniform(std::int64_t count, DType type, double low, double high);
  std::vector<std::int32_t> integers(std::int64_t count, std::int32_t low, std::int32_t high);  ///< both included

 private:
  std::mt19937_64 random_;
};

double rounded(double value, DType type);

/// What an output must be. An element may be off by `ulps` 2^-24 magnitude, the error of its fp32 arithmetic, and by
/// half a unit of the last place of the type it is rounded to. `magnitude` is the sum of the absolute values of the
/// terms that make the element; empty: the element's own.
struct Expected {
  DType type = DType::fp32;
  std::vector<double> values;
  double ulps = 0;  ///< 0: the nearest value of the type, bit for bit up to the sign of zero
  std::vector<double> magnitudes;
};

class Case {
 public:
  explicit Case(const OpShape& shape, std::int32_t layer = -1) : shape_(shape), layer_(layer) {}

  // Operands in op-table order.
  Case& reads(DType type, const std::vector<double>& values);
  Case& reads(const std::vector<std::int32_t>& values);
  Case& writes(const Expected& expected);
  Case& updates(const std::vector<double>& before, const Expected& after);
  /// Output operand `output` may take the memory of input operand `input`.
  Case& may_alias(std::size_t output, std::size_t input);

  void check();
  /// The outputs' bytes of the first run, by operand; inputs as they were.
  const std::vector<std::vector<std::byte>>& bytes() const { return first_; }
  std::vector<float> floats(std::size_t operand) const;

 private:
  struct Item {
    DType type = DType::fp32;
    Access access = Access::read;
    std::vector<std::byte> before;  // of the operand's size in any case
    Expected expected;
  };
  std::vector<std::vector<std::byte>> run(bool off_boundaries, bool aliased);
  void compare_with_reference();

  OpShape shape_;
  std::int32_t layer_;
  std::vector<Item> items_;
  std::vector<std::pair<std::size_t, std::size_t>> aliases_;
  std::vector<std::vector<std::byte>> first_;
};

/// Values as bytes of `type`, and back.
std::vector<std::byte> bytes_of(const std::vector<double>& values, DType type);
std::vector<double> values_of(const std::vector<std::byte>& bytes, DType type);

/// An OpShape with one dtype for inputs and output.
OpShape shape_of(OpKind kind, std::vector<std::int64_t> dims, DType type = DType::fp32,
                 std::vector<float> scalars = {});

}  // namespace benchsuite::testing_cuda
