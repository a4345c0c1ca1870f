// Independent work on a few threads.
#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <thread>
#include <vector>

namespace benchsuite {

/// Calls work(i) for every i below `count`, on this thread and `threads` - 1 others, in no order. When calls throw, all others
/// still run, and the exception of the lowest i is thrown.
template <class Work>
void for_each_index(std::size_t count, int threads, const Work& work) {
  std::vector<std::exception_ptr> failures(count);
  std::atomic<std::size_t> next = 0;
  const auto take = [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        work(i);
      } catch (...) {
        failures[i] = std::current_exception();
      }
    }
  };
  {
    std::vector<std::jthread> helpers;
    for (int i = 1; i < threads && static_cast<std::size_t>(i) < count; ++i) helpers.emplace_back(take);
    take();
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

}  // namespace benchsuite
