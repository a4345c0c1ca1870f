#include "engine/program/arena.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "engine/core/error.h"

namespace benchsuite {
namespace {

LastUses used_by(StreamKind stream, std::uint32_t op_plus_one) {
  LastUses uses{};
  uses.note(stream, op_plus_one);
  return uses;
}

TEST(Arena, LiveBlocksNeverOverlapAndStayInsideTheExtent) {
  std::mt19937 random(7);
  Arena arena;
  std::map<std::uint64_t, std::pair<std::uint64_t, Arena::BlockId>> live;  // by offset
  for (int round = 0; round < 20000; ++round) {
    if (live.size() < 40 || random() % 2 == 0) {
      const std::uint64_t bytes = random() % 3 == 0 ? random() % 100000 : 4096;
      const Arena::BlockId block = arena.allocate(bytes);
      const std::uint64_t offset = arena.offset_of(block);
      ASSERT_EQ(offset % Arena::kAlignment, 0u);
      ASSERT_LE(offset + bytes, arena.extent());
      const auto next = live.lower_bound(offset);
      if (next != live.end()) {
        ASSERT_LE(offset + bytes, next->first);
      }
      if (next != live.begin()) {
        ASSERT_LE(std::prev(next)->first + std::prev(next)->second.first, offset);
      }
      live[offset] = {bytes, block};
    } else {
      const auto victim = std::next(live.begin(), static_cast<long>(random() % live.size()));
      arena.free(victim->second.second, {});
      live.erase(victim);
    }
  }
}

TEST(Arena, FreedNeighboursBecomeOneBlock) {
  Arena arena;
  const auto a = arena.allocate(1024), b = arena.allocate(1024), c = arena.allocate(1024);
  arena.allocate(256);  // keeps the tail in use
  const std::uint64_t extent = arena.extent();
  arena.free(a, {});
  arena.free(c, {});
  arena.free(b, {});
  const auto whole = arena.allocate(3072);
  EXPECT_EQ(arena.offset_of(whole), 0u);
  EXPECT_EQ(arena.extent(), extent);
}

TEST(Arena, ARangeRemembersTheLastUsesOfAllItsParts) {
  Arena arena;
  const auto a = arena.allocate(1024), b = arena.allocate(1024);
  arena.allocate(256);
  arena.free(a, used_by(StreamKind::compute, 5));
  arena.free(b, used_by(StreamKind::tensor, 9));
  const auto both = arena.allocate(2048);
  EXPECT_EQ(arena.last_uses_of(both)[StreamKind::compute], 5u);
  EXPECT_EQ(arena.last_uses_of(both)[StreamKind::tensor], 9u);
  arena.free(both, used_by(StreamKind::data, 12));
  const auto part = arena.allocate(512), rest = arena.allocate(1536);
  for (const auto block : {part, rest}) EXPECT_EQ(arena.last_uses_of(block)[StreamKind::data], 12u);
}

TEST(Arena, RefusesASecondFree) {
  Arena arena;
  const auto a = arena.allocate(100);
  arena.allocate(100);
  arena.free(a, {});
  EXPECT_THROW(arena.free(a, {}), Error);
}

}  // namespace
}  // namespace benchsuite
