#include "engine/program/caching_allocator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "engine/core/error.h"

// Every sequence is worked by hand along c10/cuda/CUDACachingAllocator.cpp.
namespace benchsuite {
namespace {

constexpr std::uint64_t kKiB = 1024, kMiB = 1024 * kKiB;
constexpr std::uint64_t kPlenty = 1'000'000 * kMiB;

TEST(CachingAllocator, SizesAreRoundedTo512Bytes) {
  CachingAllocator allocator(kPlenty);
  allocator.allocate(1);
  EXPECT_EQ(allocator.allocated(), 512u);
  allocator.allocate(513);
  EXPECT_EQ(allocator.allocated(), 512u + 1024u);
  EXPECT_EQ(allocator.reserved(), 2 * kMiB);
}

TEST(CachingAllocator, SmallOnesShareSegmentsOf2MiB) {
  CachingAllocator allocator(kPlenty);
  for (int i = 0; i < 2; ++i) allocator.allocate(kMiB);  // 1 MiB is small
  EXPECT_EQ(allocator.reserved(), 2 * kMiB);
  allocator.allocate(512);
  EXPECT_EQ(allocator.reserved(), 4 * kMiB);
  allocator.allocate(512 * kKiB);
  EXPECT_EQ(allocator.reserved(), 4 * kMiB);
}

TEST(CachingAllocator, MiddleOnesShareSegmentsOf20MiB) {
  CachingAllocator allocator(kPlenty);
  allocator.allocate(kMiB + 1);
  EXPECT_EQ(allocator.allocated(), kMiB + 512);
  EXPECT_EQ(allocator.reserved(), 20 * kMiB);
  allocator.allocate(10 * kMiB - 512);  // under 10 MiB, and fits the rest
  EXPECT_EQ(allocator.reserved(), 20 * kMiB);
  allocator.allocate(9 * kMiB);  // the rest is 9 MiB
  EXPECT_EQ(allocator.reserved(), 20 * kMiB);
  EXPECT_EQ(allocator.allocated(), 20 * kMiB);
  allocator.allocate(2 * kMiB);
  EXPECT_EQ(allocator.reserved(), 40 * kMiB);
}

TEST(CachingAllocator, From10MiBSegmentsAreOfTheSizeWanted) {
  CachingAllocator allocator(kPlenty);
  allocator.allocate(10 * kMiB);
  EXPECT_EQ(allocator.reserved(), 10 * kMiB);
  allocator.allocate(10 * kMiB + 1);
  EXPECT_EQ(allocator.reserved(), 22 * kMiB);
  allocator.allocate(3 * kMiB / 2);  // out of the 2 MiB - 512 that are left
  EXPECT_EQ(allocator.reserved(), 22 * kMiB);
}

TEST(CachingAllocator, OfALargeBlockNoMoreThan1MiBStaysUnsplit) {
  CachingAllocator allocator(kPlenty);
  allocator.allocate(11 * kMiB);  // of 12: 1 MiB is not split off
  EXPECT_EQ(allocator.allocated(), 12 * kMiB);
  const auto block = allocator.allocate(20 * kMiB);
  allocator.free(block);
  allocator.allocate(19 * kMiB - 512);  // 1 MiB + 512 is
  EXPECT_EQ(allocator.allocated(), 12 * kMiB + 19 * kMiB - 512);
}

TEST(CachingAllocator, TheSmallestCachedBlockThatFitsIsTaken) {
  CachingAllocator allocator(kPlenty);
  const auto forty = allocator.allocate(40 * kMiB), thirty = allocator.allocate(30 * kMiB);
  allocator.free(forty);
  allocator.free(thirty);
  allocator.allocate(25 * kMiB);  // out of the 30
  allocator.allocate(40 * kMiB);  // so the 40 is whole
  EXPECT_EQ(allocator.reserved(), 70 * kMiB);
}

TEST(CachingAllocator, OfEqualBlocksTheOneAtTheLowestAddressIsTaken) {
  CachingAllocator allocator(kPlenty);
  allocator.free(allocator.allocate(40 * kMiB));
  allocator.allocate(20 * kMiB);
  const auto low = allocator.allocate(20 * kMiB);
  const auto second = allocator.allocate(40 * kMiB);
  allocator.free(second);
  const auto first_half = allocator.allocate(20 * kMiB), high = allocator.allocate(20 * kMiB);
  allocator.free(high);
  allocator.free(low);
  allocator.allocate(20 * kMiB);  // where `low` was
  allocator.free(first_half);
  allocator.allocate(40 * kMiB);  // so the second segment is whole
  EXPECT_EQ(allocator.reserved(), 80 * kMiB);
}

TEST(CachingAllocator, FreeNeighboursJoinInAnyOrder) {
  std::array<int, 3> order{0, 1, 2};
  do {
    CachingAllocator allocator(kPlenty);
    allocator.free(allocator.allocate(60 * kMiB));
    std::array<CachingAllocator::BlockId, 3> thirds{};
    for (auto& third : thirds) third = allocator.allocate(20 * kMiB);
    for (const int i : order) allocator.free(thirds[static_cast<std::size_t>(i)]);
    allocator.allocate(60 * kMiB);
    EXPECT_EQ(allocator.reserved(), 60 * kMiB) << order[0] << order[1] << order[2];
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(CachingAllocator, WhatASplitLeavesJoinsTheBlockBehindIt) {
  CachingAllocator allocator(kPlenty);
  allocator.free(allocator.allocate(60 * kMiB));
  allocator.allocate(20 * kMiB);
  const auto middle = allocator.allocate(20 * kMiB), last = allocator.allocate(20 * kMiB);
  allocator.free(middle);
  allocator.allocate(10 * kMiB);
  allocator.free(last);
  allocator.allocate(30 * kMiB);
  EXPECT_EQ(allocator.reserved(), 60 * kMiB);
}

TEST(CachingAllocator, SegmentsNeverJoin) {
  CachingAllocator allocator(kPlenty);
  const auto a = allocator.allocate(20 * kMiB), b = allocator.allocate(20 * kMiB);
  allocator.free(a);
  allocator.free(b);
  allocator.allocate(40 * kMiB);
  EXPECT_EQ(allocator.reserved(), 80 * kMiB);
}

TEST(CachingAllocator, RefusedItGivesBackWhatIsCachedAndAsksAgain) {
  CachingAllocator allocator(100 * kMiB);
  allocator.free(allocator.allocate(60 * kMiB));
  EXPECT_NE(allocator.allocate(80 * kMiB), kNone);
  EXPECT_EQ(allocator.reserved(), 80 * kMiB);
  EXPECT_EQ(allocator.peak_reserved(), 80 * kMiB);
}

TEST(CachingAllocator, ThePeakIsTheMostThatWasEverReserved) {
  CachingAllocator allocator(100 * kMiB);
  const auto a = allocator.allocate(60 * kMiB), b = allocator.allocate(30 * kMiB);
  allocator.free(a);
  allocator.free(b);
  EXPECT_NE(allocator.allocate(70 * kMiB), kNone);
  EXPECT_EQ(allocator.reserved(), 70 * kMiB);
  EXPECT_EQ(allocator.peak_reserved(), 90 * kMiB);
  EXPECT_EQ(allocator.peak_allocated(), 90 * kMiB);
}

TEST(CachingAllocator, ASegmentWithOneBlockInUseStays) {
  CachingAllocator allocator(100 * kMiB);
  allocator.free(allocator.allocate(60 * kMiB));
  const auto piece = allocator.allocate(20 * kMiB);
  EXPECT_EQ(allocator.allocate(80 * kMiB), kNone) << "20 MiB in use, but 60 MiB reserved";
  EXPECT_EQ(allocator.allocated(), 20 * kMiB);
  EXPECT_EQ(allocator.reserved(), 60 * kMiB);
  allocator.free(piece);
  EXPECT_NE(allocator.allocate(80 * kMiB), kNone);
}

TEST(CachingAllocator, FragmentsMakeItReserveMoreThanWasEverInUse) {
  CachingAllocator allocator(kPlenty);
  const auto large = allocator.allocate(100 * kMiB);
  allocator.free(large);
  allocator.allocate(30 * kMiB);   // stays, in the large one's segment
  allocator.allocate(100 * kMiB);  // needs a segment of its own
  EXPECT_EQ(allocator.peak_allocated(), 130 * kMiB);
  EXPECT_EQ(allocator.peak_reserved(), 200 * kMiB);
}

TEST(CachingAllocator, ABlockIsFreedOnce) {
  CachingAllocator allocator(kPlenty);
  const auto block = allocator.allocate(kMiB);
  allocator.free(block);
  EXPECT_THROW(allocator.free(block), Error);
}

}  // namespace
}  // namespace benchsuite
