// Gradient and parameter buckets: the flat buffers that are reduced, sharded, updated and gathered as a whole
// (megatron-core param_and_grad_buffer.py; DeepSpeed runtime/zero).
//
// A chunk's parameters lie in reverse order of definition, which is about the order of the backward pass.
//
//   ZeRO 0, 1   a bucket closes when it holds enough elements; there is only one where reductions do not overlap, on
//               pipeline ranks past the first and for chunks past the first
//   ZeRO 2, 3   a bucket is a unit of use (attention and MLP apart, or a layer; under ZeRO-3 also every parameter by itself),
//               since its gradients are reduced in every micro-batch; under ZeRO-3 small parameters share a persistent
//               bucket that stays whole
//
// The tied word embedding has a bucket of its own. When optimizer state is sharded, every parameter starts at a multiple of 64
// elements and every bucket ends at a multiple of lcm(d, 128), so that equal slices exist; slice borders cut through
// parameters.
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
  std::vector<Part> parts;      ///< of the chunk that use it, in forward order
  std::int64_t elements = 0;    ///< padding included
  std::int64_t chunk = 0;
  bool tied_embedding = false;  ///< one of the two copies of the word embedding
  bool persistent = false;      ///< ZeRO-3: never partitioned
  Bucket* values_in = nullptr;  ///< p = 1: the head's words are the embedding's; this bucket has gradients only
  Tensor values;                ///< [elements] compute precision, where whole
  Tensor gradients;             ///< [elements] stack.gradient_dtype, where whole
};

/// Plans the buckets of all chunks of a rank. Stores give them memory.
std::vector<Bucket> make_buckets(const ModelContext& context, std::vector<ChunkParameters>& chunks);

/// Points the parameters of `bucket` (and of a bucket whose values it holds) into `values` [elements].
void bind_values(Bucket& bucket, const Tensor& values, std::vector<Bucket>& all);
/// Points the gradients of `bucket` into `gradients` [elements].
void bind_gradients(Bucket& bucket, const Tensor& gradients);

}  // namespace benchsuite
