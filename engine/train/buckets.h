// Gradient and parameter buckets: the flat buffers that are reduced, sharded, updated and gathered as a whole
// (megatron-core param_and_grad_buffer.py).
//
// A chunk's parameters lie in reverse order of definition, which is about the order of the backward pass. A bucket closes when
// it holds enough elements; there is only one where reductions do not overlap, on pipeline ranks past the first and for
// chunks past the first. The tied word embedding has a bucket of its own. When optimizer state is sharded, every parameter
// starts at a multiple of 64 elements and every bucket ends at a multiple of lcm(d, 128), so that equal slices exist;
// slice borders cut through parameters.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/model/parameters.h"

namespace benchsuite {

struct Bucket {
  struct Entry {
    Parameter* parameter = nullptr;
    std::int64_t first = 0;  ///< element of the bucket where the parameter starts
  };
  std::vector<Entry> entries;
  std::int64_t elements = 0;     ///< padding included
  std::int64_t chunk = 0;
  std::int64_t ready_after = 0;  ///< chunk-local layer whose backward completes the bucket (-1: the embedding)
  bool tied_embedding = false;   ///< reduced after the sum over its two copies
  Tensor values;                 ///< [elements] compute precision; invalid when the values are another bucket's (p = 1)
  Tensor gradients;              ///< [elements] stack.gradient_dtype
};

/// Plans the buckets of all chunks of a rank and binds every parameter's value and gradient to them.
std::vector<Bucket> make_buckets(ModelContext& context, std::vector<ChunkParameters>& chunks);

}  // namespace benchsuite
