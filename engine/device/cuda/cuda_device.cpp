#include "engine/device/cuda/cuda_device.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>

#include "engine/comm/agreement.h"
#include "engine/comm/threads/thread_world.h"
#include "engine/core/error.h"
#include "engine/device/cuda/cuda_rank.h"

namespace benchsuite::cuda {

namespace {

constexpr int kOldestMajor = 8;  // A100

using Clock = std::chrono::steady_clock;

/// A world of ranks that live on threads of this process.
class World {
 public:
  World(const std::vector<const Program*>& programs, const HostWorkOn<RankMemory>& host, const Options& options,
        const StepTimeline& timeline)
      : programs_(programs), host_(host), options_(options), timeline_(timeline), threads_(static_cast<int>(programs.size())),
        nccl_(static_cast<int>(programs.size())), ranks_(programs.size()), progress_(programs.size()) {}

  /// Everything rank `index` does, on its thread.
  void live(std::size_t index, int steps) {
    const int rank = static_cast<int>(index);
    try {
      threads_.run_as(rank, [&] {
        CUDA_CHECK(cudaSetDevice(rank));
        ranks_[index] = std::make_unique<CudaRank>(*programs_[index], algorithms_, options_);
        agree_on_collectives(threads_, *programs_[index], 0);  // all are there, and have their memory
        CudaRank& self = *ranks_[index];
        together(index, kConnecting, [&] { self.connect(nccl_); });
        if (host_.init) host_.init(self);
        for (int step = 0; step < steps; ++step) {
          if (host_.before_step) host_.before_step(self, step);
          together(index, step, [&] {
            self.start_step(nccl_);
            self.finish_step(nccl_);
          });
          if (timeline_) timeline_(rank, step, self.timeline());
          if (host_.after_step) host_.after_step(self, step);
        }
      });
    } catch (...) {
      nccl_.abort(fmt::format("rank {} failed", rank));  // peers wait in collectives for this rank
      end_one();
      throw;
    }
    end_one();
  }

  /// Sleeps until all ranks have ended; meanwhile ends communication when one is with its peers for longer than the patience.
  void watch() {
    std::unique_lock lock(mutex_);
    while (!all_ended_.wait_for(lock, kLook, [&] { return ended_ == progress_.size(); })) {
      for (std::size_t rank = 0; rank < progress_.size(); ++rank) {
        const Progress& at = progress_[rank];
        if (at.inside && Clock::now() - at.since > std::chrono::duration<double>(options_.patience_s)) nccl_.abort(overdue(rank));
      }
    }
  }

  int failed_rank() const { return threads_.failed_rank(); }

 private:
  static constexpr int kConnecting = -1;
  static constexpr std::chrono::milliseconds kLook{50};

  struct Progress {
    int stage = kConnecting - 1;  ///< the step, or kConnecting
    bool inside = false;          ///< the stage has begun and not ended
    Clock::time_point since;
  };

  /// What ranks do together: nobody ends it before all have begun.
  template <class Body>
  void together(std::size_t index, int stage, Body body) {
    {
      const std::lock_guard lock(mutex_);
      progress_[index] = {stage, true, Clock::now()};
    }
    body();
    const std::lock_guard lock(mutex_);
    progress_[index].inside = false;
  }

  void end_one() {
    const std::lock_guard lock(mutex_);
    ++ended_;
    all_ended_.notify_one();
  }

  std::string overdue(std::size_t rank) const {
    const int stage = progress_[rank].stage;
    std::vector<std::size_t> missing;
    for (std::size_t other = 0; other < progress_.size(); ++other) {
      if (progress_[other].stage < stage) missing.push_back(other);
    }
    return fmt::format("rank {} has been {} for more than {} s, and {}", rank,
                       stage == kConnecting ? "connecting" : fmt::format("in step {}", stage), options_.patience_s,
                       missing.empty() ? "so have its peers" : fmt::format("rank {} has not come there", fmt::join(missing, ", ")));
  }

  const std::vector<const Program*>& programs_;
  const HostWorkOn<RankMemory>& host_;
  const Options& options_;
  const StepTimeline& timeline_;
  ThreadWorld threads_;
  NcclWorld nccl_;
  GemmAlgorithms algorithms_;
  std::vector<std::unique_ptr<CudaRank>> ranks_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable all_ended_;
  std::vector<Progress> progress_;  // by rank
  std::size_t ended_ = 0;
};

}  // namespace

std::string why_unavailable(int ranks) {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaErrorInsufficientDriver) {
    int driver = 0;
    cudaDriverGetVersion(&driver);
    return driver == 0 ? "device cuda: no NVIDIA driver here; install one, or run on a machine with GPUs"
                       : fmt::format("device cuda: the NVIDIA driver is for CUDA {}.{}, older than this program's CUDA {}.{}; update "
                                     "the driver",
                                     driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
  }
  if (status == cudaErrorNoDevice || (status == cudaSuccess && count == 0)) {
    return "device cuda: no GPU here; run on a machine with GPUs, or check CUDA_VISIBLE_DEVICES";
  }
  if (status != cudaSuccess) return fmt::format("device cuda: {} ({})", cudaGetErrorString(status), cudaGetErrorName(status));
  if (count < ranks) {
    return fmt::format("device cuda: {} ranks need as many GPUs, and {} here; choose a smaller layout", ranks,
                       count == 1 ? "one is" : fmt::format("{} are", count));
  }
  for (int gpu = 0; gpu < ranks; ++gpu) {
    cudaDeviceProp properties{};
    CUDA_CHECK(cudaGetDeviceProperties(&properties, gpu));
    if (properties.major < kOldestMajor) {
      return fmt::format("device cuda: GPU {} ({}) has compute capability {}.{}; kernels are built for 8.0 and later", gpu,
                         properties.name, properties.major, properties.minor);
    }
  }
  return "";
}

void run_ranks(const std::vector<const Program*>& programs, const HostWorkOn<RankMemory>& host, int steps, const Options& options,
               const StepTimeline& timeline) {
  for (std::size_t i = 0; i < programs.size(); ++i) {
    CHECK(programs[i]->rank == static_cast<int>(i)) << "program " << i << " is of rank " << programs[i]->rank;
  }
  if (const std::string why = why_unavailable(static_cast<int>(programs.size())); !why.empty()) {
    throw Error(Error::Kind::unavailable, why);
  }
  World world(programs, host, options, timeline);
  std::vector<std::exception_ptr> errors(programs.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < programs.size(); ++i) {
    threads.emplace_back([&, i]() noexcept {
      try {
        world.live(i, steps);
      } catch (...) {
        errors[i] = std::current_exception();
      }
    });
  }
  world.watch();
  for (std::thread& thread : threads) thread.join();
  if (const int failed = world.failed_rank(); failed >= 0) std::rethrow_exception(errors[static_cast<std::size_t>(failed)]);
}

}  // namespace benchsuite::cuda
