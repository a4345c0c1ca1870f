// Telling how far many jobs on several threads are.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <mutex>
#include <string>
#include <utility>

namespace benchsuite {

/// Called with what is counted ("rows"), how many are finished and how many there are; by one thread at a time.
using AccuracyProgress = std::function<void(const std::string&, std::size_t, std::size_t)>;

class ProgressCount {
 public:
  ProgressCount(const AccuracyProgress& progress, std::string what, std::size_t all)
      : progress_(progress), what_(std::move(what)), all_(all) {}

  /// One more is finished. Any thread; tells at most ten times a second.
  void tick() {
    const std::lock_guard lock(mutex_);
    ++done_;
    const auto now = std::chrono::steady_clock::now();
    if (!progress_ || (now < next_ && done_ < all_)) return;
    next_ = now + std::chrono::milliseconds(100);
    progress_(what_, done_, all_);
  }

 private:
  const AccuracyProgress& progress_;
  std::string what_;
  std::size_t all_, done_ = 0;
  std::chrono::steady_clock::time_point next_{};
  std::mutex mutex_;
};

}  // namespace benchsuite
