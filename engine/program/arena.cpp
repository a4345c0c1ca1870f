#include "engine/program/arena.h"

#include <algorithm>

#include "engine/core/error.h"

namespace benchsuite {

Arena::Arena() {
  for (auto& list : lists_) list.fill(kNone);
}

Arena::Bin Arena::bin_of(std::uint64_t size) {
  // Sizes are multiples of kAlignment; count in units of it.
  const std::uint64_t units = size / kAlignment;
  const int first = std::bit_width(units) - 1;
  const int shift = first - kSubclassBits;
  const std::uint64_t second = shift >= 0 ? (units >> shift) & (kSubclasses - 1) : (units << -shift) & (kSubclasses - 1);
  return {first, static_cast<int>(second)};
}

Arena::BlockId Arena::new_block() {
  if (!unused_.empty()) {
    const BlockId block = unused_.back();
    unused_.pop_back();
    blocks_[block] = Block{};
    return block;
  }
  blocks_.emplace_back();
  return static_cast<BlockId>(blocks_.size() - 1);
}

void Arena::insert(BlockId id) {
  const Bin bin = bin_of(blocks_[id].size);
  BlockId& head = lists_[bin.first][bin.second];
  blocks_[id].is_free = true;
  blocks_[id].previous_free = kNone;
  blocks_[id].next_free = head;
  if (head != kNone) blocks_[head].previous_free = id;
  head = id;
  class_bits_ |= std::uint64_t{1} << bin.first;
  subclass_bits_[bin.first] |= 1u << bin.second;
}

void Arena::remove(BlockId id) {
  Block& block = blocks_[id];
  const Bin bin = bin_of(block.size);
  if (block.previous_free != kNone) {
    blocks_[block.previous_free].next_free = block.next_free;
  } else {
    lists_[bin.first][bin.second] = block.next_free;
    if (block.next_free == kNone) {
      subclass_bits_[bin.first] &= ~(1u << bin.second);
      if (subclass_bits_[bin.first] == 0) class_bits_ &= ~(std::uint64_t{1} << bin.first);
    }
  }
  if (block.next_free != kNone) blocks_[block.next_free].previous_free = block.previous_free;
  block.is_free = false;
}

Arena::BlockId Arena::take_fitting(std::uint64_t size) {
  // The own class first: in a training step sizes repeat, so its head usually fits exactly.
  Bin bin = bin_of(size);
  if (const BlockId head = lists_[bin.first][bin.second]; head != kNone && blocks_[head].size >= size) {
    remove(head);
    return head;
  }
  std::uint32_t subclasses =
      bin.second + 1 < kSubclasses ? subclass_bits_[bin.first] & (~0u << (bin.second + 1)) : 0u;
  if (subclasses == 0) {
    const std::uint64_t classes = class_bits_ & (~std::uint64_t{0} << (bin.first + 1));
    if (classes == 0) return kNone;
    bin.first = std::countr_zero(classes);
    subclasses = subclass_bits_[bin.first];
  }
  const BlockId block = lists_[bin.first][std::countr_zero(subclasses)];
  remove(block);
  return block;
}

Arena::BlockId Arena::grow(std::uint64_t size) {
  if (last_ != kNone && blocks_[last_].is_free) {  // stretch the free tail
    const BlockId tail = last_;
    remove(tail);
    blocks_[tail].size = size;
    extent_ = blocks_[tail].offset + size;
    return tail;
  }
  const BlockId block = new_block();
  blocks_[block].offset = last_ == kNone ? 0 : blocks_[last_].offset + blocks_[last_].size;
  blocks_[block].size = size;
  blocks_[block].previous = last_;
  if (last_ != kNone) blocks_[last_].next = block;
  last_ = block;
  extent_ = blocks_[block].offset + size;
  return block;
}

Arena::BlockId Arena::allocate(std::uint64_t bytes) {
  const std::uint64_t size = round_up(std::max<std::uint64_t>(bytes, 1), kAlignment);
  CHECK(size < (std::uint64_t{1} << (kClasses - 1)) * kAlignment) << bytes << " bytes in one buffer";
  BlockId id = take_fitting(size);
  if (id == kNone) return grow(size);
  if (blocks_[id].size > size) {  // give the rest back
    const BlockId rest = new_block();
    blocks_[rest].offset = blocks_[id].offset + size;
    blocks_[rest].size = blocks_[id].size - size;
    blocks_[rest].previous = id;
    blocks_[rest].next = blocks_[id].next;
    blocks_[rest].last_uses = blocks_[id].last_uses;
    if (blocks_[rest].next != kNone) {
      blocks_[blocks_[rest].next].previous = rest;
    } else {
      last_ = rest;
    }
    blocks_[id].next = rest;
    blocks_[id].size = size;
    insert(rest);
  }
  return id;
}

void Arena::absorb_next(BlockId id) {
  const BlockId next = blocks_[id].next;
  blocks_[id].size += blocks_[next].size;
  blocks_[id].next = blocks_[next].next;
  blocks_[id].last_uses.merge(blocks_[next].last_uses);
  if (blocks_[id].next != kNone) {
    blocks_[blocks_[id].next].previous = id;
  } else {
    last_ = id;
  }
  unused_.push_back(next);
}

void Arena::free(BlockId id, const LastUses& last_uses) {
  CHECK(!blocks_[id].is_free) << "block at offset " << blocks_[id].offset << " is freed twice";
  blocks_[id].last_uses = last_uses;
  if (const BlockId next = blocks_[id].next; next != kNone && blocks_[next].is_free) {
    remove(next);
    absorb_next(id);
  }
  if (const BlockId previous = blocks_[id].previous; previous != kNone && blocks_[previous].is_free) {
    remove(previous);
    absorb_next(previous);
    id = previous;
  }
  insert(id);
}

}  // namespace benchsuite
