#include "engine/program/caching_allocator.h"

#include <algorithm>

#include "engine/core/error.h"

namespace benchsuite {

namespace {

constexpr std::uint64_t kMiB = 1024 * 1024;
constexpr std::uint64_t kRounding = 512;
constexpr std::uint64_t kSmallSize = kMiB;         // most that the small pool serves
constexpr std::uint64_t kSmallSegment = 2 * kMiB;
constexpr std::uint64_t kLargeSegment = 20 * kMiB;  // below kOwnSegment
constexpr std::uint64_t kOwnSegment = 10 * kMiB;    // from here on a segment of the size wanted
constexpr std::uint64_t kSegmentRounding = 2 * kMiB;

std::uint64_t rounded(std::uint64_t bytes, std::uint64_t to) { return (bytes + to - 1) / to * to; }

std::uint64_t segment_size(std::uint64_t size) {
  if (size <= kSmallSize) return kSmallSegment;
  return size < kOwnSegment ? kLargeSegment : rounded(size, kSegmentRounding);
}

}  // namespace

CachingAllocator::BlockId CachingAllocator::allocate(std::uint64_t bytes) {
  const std::uint64_t size = rounded(std::max<std::uint64_t>(bytes, 1), kRounding);
  const bool small = size <= kSmallSize;
  BlockId block = take_cached(size, small);
  if (block == kNone) block = ask_device(size, small);
  if (block == kNone) {
    release_cached();
    block = ask_device(size, small);
  }
  if (block == kNone) return kNone;
  if (splits(blocks_[block], size)) split(block, size);
  blocks_[block].in_use = true;
  allocated_ += blocks_[block].size;
  peak_allocated_ = std::max(peak_allocated_, allocated_);
  return block;
}

void CachingAllocator::free(BlockId block) {
  CHECK(block < blocks_.size() && blocks_[block].in_use) << "block " << block << " is not in use";
  blocks_[block].in_use = false;
  allocated_ -= blocks_[block].size;
  const BlockId next = blocks_[block].next, previous = blocks_[block].previous;
  if (next != kNone && !blocks_[next].in_use) {
    pool_of(blocks_[next]).erase(key_of(next));
    join(block, next);
  }
  if (previous != kNone && !blocks_[previous].in_use) {
    pool_of(blocks_[previous]).erase(key_of(previous));
    join(previous, block);
    block = previous;
  }
  pool_of(blocks_[block]).insert(key_of(block));
}

bool CachingAllocator::splits(const Block& block, std::uint64_t size) const {
  const std::uint64_t rest = block.size - size;
  return block.small ? rest >= kRounding : rest > kSmallSize;
}

CachingAllocator::BlockId CachingAllocator::take_cached(std::uint64_t size, bool small) {
  std::set<Key>& pool = pools_[small ? 0 : 1];
  const auto found = pool.lower_bound({size, 0, 0});
  if (found == pool.end()) return kNone;
  const BlockId block = std::get<2>(*found);
  pool.erase(found);
  return block;
}

CachingAllocator::BlockId CachingAllocator::ask_device(std::uint64_t size, bool small) {
  const std::uint64_t segment = segment_size(size);
  if (reserved_ + segment > capacity_) return kNone;
  reserved_ += segment;
  peak_reserved_ = std::max(peak_reserved_, reserved_);
  const std::uint64_t address = next_address_;
  next_address_ += segment;
  return new_block({.address = address, .size = segment, .small = small});
}

void CachingAllocator::release_cached() {
  for (std::set<Key>& pool : pools_) {
    for (auto at = pool.begin(); at != pool.end();) {
      const BlockId block = std::get<2>(*at);
      if (blocks_[block].previous != kNone || blocks_[block].next != kNone) {
        ++at;
        continue;
      }
      reserved_ -= blocks_[block].size;
      unused_.push_back(block);
      at = pool.erase(at);
    }
  }
}

/// Cuts the block's rest off, which becomes a free one.
void CachingAllocator::split(BlockId block, std::uint64_t size) {
  const BlockId rest = new_block({.address = blocks_[block].address + size,
                                  .size = blocks_[block].size - size,
                                  .previous = block,
                                  .next = blocks_[block].next,
                                  .small = blocks_[block].small});
  if (blocks_[rest].next != kNone) blocks_[blocks_[rest].next].previous = rest;
  blocks_[block].next = rest;
  blocks_[block].size = size;
  pool_of(blocks_[rest]).insert(key_of(rest));
}

/// `left` takes `right` over, its neighbour, which is in no pool.
void CachingAllocator::join(BlockId left, BlockId right) {
  blocks_[left].size += blocks_[right].size;
  blocks_[left].next = blocks_[right].next;
  if (blocks_[left].next != kNone) blocks_[blocks_[left].next].previous = left;
  unused_.push_back(right);
}

CachingAllocator::BlockId CachingAllocator::new_block(const Block& block) {
  if (unused_.empty()) {
    blocks_.push_back(block);
    return static_cast<BlockId>(blocks_.size() - 1);
  }
  const BlockId id = unused_.back();
  unused_.pop_back();
  blocks_[id] = block;
  return id;
}

}  // namespace benchsuite
