// A matrix cut into packs of eight columns, one a thread.
#pragma once

#include "engine/core/error.h"
#include "engine/device/cuda/kernels/vectors.h"

namespace benchsuite::cuda {

/// Where a thread's pack lies; left <= 0: nowhere.
struct PackPlace {
  std::int64_t row, column;
  std::int64_t offset;  ///< of its first element in the matrix
  std::int64_t left;    ///< elements to the end of the row
};

struct PackGrid {
  std::int64_t cols;
  unsigned packs_in_row, packs;
  bool wide;  ///< see vectors.h

  PackGrid(std::int64_t rows, std::int64_t columns, bool wide_rows)
      : cols(columns),
        packs_in_row(narrow<unsigned>(div_ceil<std::int64_t>(columns, kPack))),
        packs(narrow<unsigned>(rows * packs_in_row)),
        wide(wide_rows) {}

  bool empty() const { return packs == 0; }
  unsigned threads() const { return packs < 256 ? round_up(packs, 32u) : 256; }
  unsigned blocks() const { return div_ceil(packs, threads()); }

  __device__ PackPlace place() const {
    const unsigned index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= packs) return {0, 0, 0, 0};
    const unsigned row = index / packs_in_row;
    const std::int64_t column = static_cast<std::int64_t>(index - row * packs_in_row) * kPack;
    return {row, column, row * cols + column, cols - column};
  }
};

}  // namespace benchsuite::cuda
