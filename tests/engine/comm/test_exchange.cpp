// The host's exchange between steps, over threads: everyone gets everything, and nobody waits for the dead.
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "engine/comm/threads/thread_world.h"
#include "engine/core/error.h"

namespace benchsuite {
namespace {

/// Runs `body` as every rank of a world of three; what each threw, by rank.
template <class Body>
std::vector<std::string> run_three(ThreadWorld& world, Body body) {
  std::vector<std::string> errors(3);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        world.run_as(rank, [&] { body(rank); });
      } catch (const std::exception& error) {
        errors[static_cast<std::size_t>(rank)] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

Communicator::Bytes bytes_of(int rank, int round) {
  return Communicator::Bytes(static_cast<std::size_t>(rank + 1), static_cast<std::byte>(10 * round + rank));
}

TEST(Exchange, EveryRankGetsThePartsOfAllInOrder) {
  ThreadWorld world(3);
  const auto errors = run_three(world, [&](int rank) {
    for (int round = 0; round < 50; ++round) {
      const auto parts = world.exchange(rank, bytes_of(rank, round));
      ASSERT_EQ(parts.size(), 3u);
      for (int other = 0; other < 3; ++other) EXPECT_EQ(parts[static_cast<std::size_t>(other)], bytes_of(other, round));
    }
  });
  EXPECT_EQ(errors, std::vector<std::string>(3));
}

TEST(Exchange, AThrowingRankReleasesThoseThatWait) {
  ThreadWorld world(3);
  const auto errors = run_three(world, [&](int rank) {
    if (rank == 1) throw std::runtime_error("no space left");
    world.exchange(rank, {});
  });
  EXPECT_EQ(errors[1], "no space left");
  for (const std::size_t rank : {0, 2}) EXPECT_NE(errors[rank].find("rank 1 failed: no space left"), std::string::npos);
}

TEST(Exchange, ARankThatLeavesWithoutComingIsADeadlock) {
  ThreadWorld world(3);
  const auto errors = run_three(world, [&](int rank) {
    if (rank != 1) world.exchange(rank, {});
  });
  EXPECT_EQ(errors[1], "");
  for (const std::size_t rank : {0, 2}) {
    EXPECT_NE(errors[rank].find("rank 1 has finished"), std::string::npos) << errors[rank];
    EXPECT_NE(errors[rank].find("waits for the others between steps"), std::string::npos) << errors[rank];
  }
}

}  // namespace
}  // namespace benchsuite
