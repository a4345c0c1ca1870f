#include <algorithm>

#include "engine/device/cpu/kernels.h"

namespace benchsuite::cpu {

void embedding(const KernelCall& call) {
  call.expect_operands(3);
  const std::int64_t tokens = call.dim(0), h = call.dim(1), rows = call.dim(2), first_row = call.dim(3);
  CHECK(call.shape.dtype == call.shape.out_dtype) << "an embedding of " << name_of(call.shape.dtype) << " rows gives "
                                                  << name_of(call.shape.out_dtype);
  // Rows are copied as they are: widening the whole table would cost more than the lookup.
  const std::int64_t row_bytes = h * size_of(call.shape.dtype);
  const std::int32_t* ids = call.i32(0, tokens);
  const auto* table = call.operand<const std::byte>(1, rows * row_bytes);  // [rows, h_]
  auto* y = call.operand<std::byte>(2, tokens * row_bytes);                // [tokens, h_]
  for (std::int64_t token = 0; token < tokens; ++token) {
    const std::int64_t row = ids[token] - first_row;
    if (row >= 0 && row < rows) {
      std::copy_n(table + row * row_bytes, row_bytes, y + token * row_bytes);
    } else {
      std::fill_n(y + token * row_bytes, row_bytes, std::byte{0});  // another vocabulary shard has it; a sum adds it up
    }
  }
}

void embedding_backward(const KernelCall& call) {
  call.expect_operands(3);
  const std::int64_t tokens = call.dim(0), h = call.dim(1), rows = call.dim(2), first_row = call.dim(3);
  const std::int32_t* ids = call.i32(0, tokens);
  const float* dy = call.in(1, tokens * h);  // [tokens, h_]
  float* dtable = call.inout(2, rows * h);      // [rows, h_]
  for (std::int64_t token = 0; token < tokens; ++token) {
    const std::int64_t row = ids[token] - first_row;
    if (row < 0 || row >= rows) continue;
    for (std::int64_t i = 0; i < h; ++i) dtable[row * h + i] += dy[token * h + i];
  }
}

void position(const KernelCall& call) {
  call.expect_operands(3);
  const std::int64_t s = call.dim(0), b = call.dim(1), h = call.dim(2), first = call.dim(3);
  const float* x = call.in(0, s * b * h);  // [s_, b, h_]
  const std::int64_t table_elements = call.elements(1, call.shape.dtype);
  CHECK(table_elements >= (first + s) * h) << "position table of " << table_elements << " elements, positions " << first
                                           << " .. " << first + s - 1 << " of " << h << " channels";
  const float* table = call.in(1, table_elements);  // [positions, h_]
  float* y = call.out(2, s * b * h);
  for (std::int64_t row = 0; row < s * b; ++row) {
    const float* at = table + (first + row / b) * h;
    for (std::int64_t i = 0; i < h; ++i) y[row * h + i] = x[row * h + i] + at[i];
  }
}

void position_backward(const KernelCall& call) {
  call.expect_operands(2);
  const std::int64_t s = call.dim(0), b = call.dim(1), h = call.dim(2), first = call.dim(3);
  const float* dy = call.in(0, s * b * h);
  const std::int64_t table_elements = call.elements(1, call.shape.out_dtype);
  CHECK(table_elements >= (first + s) * h) << "position gradient of " << table_elements << " elements, positions "
                                           << first << " .. " << first + s - 1 << " of " << h << " channels";
  float* dtable = call.inout(1, table_elements);
  for (std::int64_t row = 0; row < s * b; ++row) {
    float* at = dtable + (first + row / b) * h;
    for (std::int64_t i = 0; i < h; ++i) at[i] += dy[row * h + i];
  }
}

}  // namespace benchsuite::cpu
