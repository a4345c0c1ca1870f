// A tensor is a view: (buffer, offset, dtype, shape of up to four dimensions). It owns nothing.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>

#include "engine/core/error.h"
#include "engine/program/op.h"

namespace benchsuite {

struct Tensor {
  BufferId buffer = kNone;
  DType dtype{};
  std::uint64_t offset = 0;                        ///< bytes from the start of the buffer
  std::array<std::int64_t, 4> shape{1, 1, 1, 1};   ///< row-major, contiguous; missing leading dimensions are 1

  bool valid() const { return buffer != kNone; }
  std::int64_t elements() const { return shape[0] * shape[1] * shape[2] * shape[3]; }
  std::uint64_t bytes() const { return static_cast<std::uint64_t>(elements() * size_of(dtype)); }

  /// `count` elements from element `first` on, as a flat view.
  Tensor flat_slice(std::int64_t first, std::int64_t count) const {
    CHECK(first >= 0 && count >= 0 && first + count <= elements())
        << "slice [" << first << ", " << first + count << ") of " << elements() << " elements";
    Tensor slice = *this;
    slice.offset += static_cast<std::uint64_t>(first * size_of(dtype));
    slice.shape = {1, 1, 1, count};
    return slice;
  }
};

inline Operand reads(const Tensor& t) { return {t.offset, t.bytes(), t.buffer, Access::read}; }
inline Operand writes(const Tensor& t) { return {t.offset, t.bytes(), t.buffer, Access::write}; }
inline Operand updates(const Tensor& t) { return {t.offset, t.bytes(), t.buffer, Access::read_write}; }

}  // namespace benchsuite
