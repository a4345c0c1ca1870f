// Offsets of buffers inside one growing range: a two-level segregated fit allocator (Masmano et al., ECRTS 2004) over
// numbers instead of memory. Allocation and free are O(1) and deterministic, neighbours coalesce.
//
// A free block remembers the last op that touched its bytes on every stream, so that the next owner of the range can wait
// for them.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "engine/program/op.h"

namespace benchsuite {

/// By stream: one more than the id of the last op that touched a range, 0 for none. Most ranges know one stream only, so the
/// streams that count stand in a mask.
class LastUses {
 public:
  std::uint32_t operator[](StreamKind stream) const { return ops_[static_cast<std::size_t>(stream)]; }

  /// The later of what is known and `op_plus_one` counts.
  void note(StreamKind stream, std::uint32_t op_plus_one) {
    std::uint32_t& last = ops_[static_cast<std::size_t>(stream)];
    if (op_plus_one <= last) return;
    last = op_plus_one;
    streams_ |= 1u << static_cast<int>(stream);
  }
  void merge(const LastUses& other) {
    other.visit([this](StreamKind stream, std::uint32_t op_plus_one) { note(stream, op_plus_one); });
  }
  /// Calls visit(stream, op_plus_one) for every stream that used the range.
  template <class Visit>
  void visit(Visit visit) const {
    for (std::uint32_t mask = streams_; mask != 0; mask &= mask - 1) {
      const int stream = std::countr_zero(mask);
      visit(static_cast<StreamKind>(stream), ops_[static_cast<std::size_t>(stream)]);
    }
  }

 private:
  std::uint32_t streams_ = 0;  // those of ops_ that are not 0
  std::array<std::uint32_t, kStreams> ops_{};
};

class Arena {
 public:
  using BlockId = std::uint32_t;
  static constexpr std::uint64_t kAlignment = 256;

  Arena();

  BlockId allocate(std::uint64_t bytes);
  void free(BlockId block, const LastUses& last_uses);

  std::uint64_t offset_of(BlockId block) const { return blocks_[block].offset; }
  /// Uses of the block's bytes before it was allocated.
  const LastUses& last_uses_of(BlockId block) const { return blocks_[block].last_uses; }
  /// Largest offset ever handed out, plus its size.
  std::uint64_t extent() const { return extent_; }

 private:
  static constexpr int kSubclassBits = 4;
  static constexpr int kSubclasses = 1 << kSubclassBits;
  static constexpr int kClasses = 48;

  struct Block {
    std::uint64_t offset = 0, size = 0;
    BlockId previous = kNone, next = kNone;            // neighbours in the range
    BlockId previous_free = kNone, next_free = kNone;  // neighbours in the list of the class
    bool is_free = false;
    LastUses last_uses{};
  };
  struct Bin {
    int first, second;
  };

  static Bin bin_of(std::uint64_t size);
  BlockId take_fitting(std::uint64_t size);
  BlockId grow(std::uint64_t size);
  BlockId new_block();
  void insert(BlockId block);
  void remove(BlockId block);
  void absorb_next(BlockId block);

  std::vector<Block> blocks_;
  std::vector<BlockId> unused_;
  BlockId last_ = kNone;  // highest offset
  std::uint64_t extent_ = 0;
  std::uint64_t class_bits_ = 0;
  std::array<std::uint32_t, kClasses> subclass_bits_{};
  std::array<std::array<BlockId, kSubclasses>, kClasses> lists_{};
};

}  // namespace benchsuite
