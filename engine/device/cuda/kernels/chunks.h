// Several tensors in one launch: a table of them travels as a kernel parameter, and each block takes one chunk of one
// tensor.
#pragma once

#include <functional>
#include <utility>

#include "engine/core/error.h"
#include "engine/device/cuda/kernels/vectors.h"

namespace benchsuite::cuda {

inline constexpr unsigned kChunkThreads = 128;
inline constexpr int kPacksOfChunk = 4;  ///< a thread's, in flight together
inline constexpr std::int64_t kChunk = std::int64_t{kChunkThreads} * kPacksOfChunk * kPack;
inline constexpr int kTableItems = 24;  ///< the table stays below two of the four KiB that parameters may take

struct ChunkPlace {
  int item;
  std::int64_t first;  ///< element of the item
};

template <class Item>
struct ChunkTable {
  Item items[kTableItems];
  unsigned end[kTableItems];  ///< chunks of this item and those before
  int count = 0;

  unsigned chunks() const { return count == 0 ? 0 : end[count - 1]; }

  __device__ ChunkPlace place(unsigned chunk) const {
    int item = 0;
    while (chunk >= end[item]) ++item;
    const unsigned begin = item == 0 ? 0 : end[item - 1];
    return {item, static_cast<std::int64_t>(chunk - begin) * kChunk};
  }
};

/// body(offset, elements left) for each pack of this thread in the chunk at `first` of a tensor of `count` elements.
template <class Body>
__device__ inline void for_each_pack_of_chunk(std::int64_t first, std::int64_t count, Body body) {
#pragma unroll
  for (int k = 0; k < kPacksOfChunk; ++k) {
    const std::int64_t offset = first + static_cast<std::int64_t>(k * kChunkThreads + threadIdx.x) * kPack;
    if (offset < count) body(offset, count - offset);
  }
}

/// Collects items and launches whenever a table is full.
template <class Item>
class ChunkLauncher {
 public:
  using Launch = std::function<void(const ChunkTable<Item>&, unsigned chunks)>;
  explicit ChunkLauncher(Launch launch) : launch_(std::move(launch)) {}

  void add(const Item& item, std::int64_t elements) {
    if (elements == 0) return;
    if (table_.count == kTableItems) finish();
    const unsigned before = table_.chunks();
    table_.items[table_.count] = item;
    table_.end[table_.count++] = narrow<unsigned>(before + div_ceil(elements, kChunk));
  }
  void finish() {
    if (table_.count > 0) launch_(table_, table_.chunks());
    table_ = {};
  }

 private:
  ChunkTable<Item> table_{};
  Launch launch_;
};

}  // namespace benchsuite::cuda
