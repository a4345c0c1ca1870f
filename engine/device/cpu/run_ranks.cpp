#include "engine/device/cpu/run_ranks.h"

#include <exception>
#include <thread>

#include "engine/comm/threads/thread_world.h"
#include "engine/core/error.h"

namespace benchsuite {

std::vector<std::unique_ptr<CpuRank>> run_ranks(const std::vector<const Program*>& programs, const HostWork& host,
                                                int steps, Poison poison) {
  std::vector<std::unique_ptr<CpuRank>> ranks;
  for (std::size_t i = 0; i < programs.size(); ++i) {
    CHECK(programs[i]->rank == static_cast<int>(i)) << "program " << i << " is of rank " << programs[i]->rank;
    ranks.push_back(std::make_unique<CpuRank>(*programs[i], poison));
  }
  ThreadWorld world(static_cast<int>(programs.size()));
  std::vector<std::exception_ptr> errors(programs.size());
  std::vector<std::thread> threads;
  const auto live = [&](std::size_t index) noexcept {
    try {
      world.run_as(static_cast<int>(index), [&] {
        CpuRank& rank = *ranks[index];
        if (host.init) host.init(rank);
        for (int step = 0; step < steps; ++step) {
          if (host.before_step) host.before_step(rank, step);
          rank.run_step(world);
          if (host.after_step) host.after_step(rank, step);
        }
      });
    } catch (...) {
      errors[index] = std::current_exception();
    }
  };
  for (std::size_t i = 0; i < programs.size(); ++i) threads.emplace_back(live, i);
  for (std::thread& thread : threads) thread.join();
  if (const int failed = world.failed_rank(); failed >= 0) {
    std::rethrow_exception(errors[static_cast<std::size_t>(failed)]);
  }
  return ranks;
}

}  // namespace benchsuite
