// PyTorch's CUDA caching allocator over numbers instead of memory: how much of the device a process holds ("reserved"), given the
// order in which it allocates and frees (c10/cuda/CUDACachingAllocator.cpp; its rules as of PyTorch 1.11 to 2.1, with the default
// settings: no limit to what is split, no expandable segments).
//
//   sizes      rounded up to 512 bytes
//   pools      up to 1 MiB from the small pool, else from the large one
//   best fit   the smallest cached block that is large enough, of equal ones that at the lowest address; it is split where at
//              least 512 bytes (small pool), or more than 1 MiB (large pool) would be left
//   segments   else the device is asked: for 2 MiB (small pool), for 20 MiB where less than 10 MiB are wanted, else for the
//              size in whole 2 MiB
//   no memory  where the device refuses, all cached segments that no allocation shares go back to it, and it is asked again
//   free       a block joins its free neighbours of the same segment; nothing goes back to the device
//
// All of it is one stream's: PyTorch keeps a pool for each, and trains on one. A tensor that a communication library uses on a
// stream of its own can't be used again before that use has ended (recordStream); here it can at once, so what is reserved is a
// lower bound where the host runs ahead.
#pragma once

#include <cstdint>
#include <set>
#include <tuple>
#include <vector>

#include "engine/program/op.h"

namespace benchsuite {

class CachingAllocator {
 public:
  using BlockId = std::uint32_t;

  /// `capacity`: bytes that the device has for it.
  explicit CachingAllocator(std::uint64_t capacity) : capacity_(capacity) {}

  /// kNone: out of memory, and nothing has changed but for what went back to the device.
  BlockId allocate(std::uint64_t bytes);
  void free(BlockId block);

  std::uint64_t allocated() const { return allocated_; }  ///< in blocks in use, rounding and unsplit rests included
  std::uint64_t reserved() const { return reserved_; }    ///< taken from the device
  std::uint64_t peak_allocated() const { return peak_allocated_; }
  std::uint64_t peak_reserved() const { return peak_reserved_; }

 private:
  struct Block {
    std::uint64_t address = 0, size = 0;
    BlockId previous = kNone, next = kNone;  // neighbours in the segment
    bool small = false, in_use = false;
  };
  using Key = std::tuple<std::uint64_t, std::uint64_t, BlockId>;  // size, address

  std::set<Key>& pool_of(const Block& block) { return pools_[block.small ? 0 : 1]; }
  Key key_of(BlockId block) const { return {blocks_[block].size, blocks_[block].address, block}; }
  bool splits(const Block& block, std::uint64_t size) const;
  BlockId take_cached(std::uint64_t size, bool small);
  BlockId ask_device(std::uint64_t size, bool small);
  void release_cached();
  void split(BlockId block, std::uint64_t size);
  void join(BlockId left, BlockId right);
  BlockId new_block(const Block& block);

  std::uint64_t capacity_;
  std::uint64_t allocated_ = 0, reserved_ = 0, peak_allocated_ = 0, peak_reserved_ = 0;
  std::uint64_t next_address_ = 0;
  std::vector<Block> blocks_;
  std::vector<BlockId> unused_;
  std::set<Key> pools_[2];  // small, large: free blocks
};

}  // namespace benchsuite
