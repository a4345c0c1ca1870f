// Sums over rows, in two steps without atomics: blocks sum some of the rows into a row of partial sums each, then the
// partial rows are added up in their order and the result is added to an accumulator.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "engine/core/dtype.h"

namespace benchsuite::cuda {

/// accumulator[cols] += sum over `count` rows of partial [count, stride], whose first `cols` columns count. The
/// accumulator is fp32 or bf16, rounded once.
void add_partial_rows(const float* partial, std::int64_t count, std::int64_t stride, std::int64_t cols, DType type,
                      void* accumulator, cudaStream_t stream);

}  // namespace benchsuite::cuda
