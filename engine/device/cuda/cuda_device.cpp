#include "engine/device/cuda/cuda_device.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>

#include "engine/comm/agreement.h"
#include "engine/comm/threads/thread_world.h"
#include "engine/core/error.h"
#include "engine/device/cuda/cuda_rank.h"

namespace benchsuite::cuda {

namespace {

constexpr int kOldestMajor = 8;  // A100

using Clock = std::chrono::steady_clock;

class World;

/// A rank of a world.
class Rank final : public StepRank {
 public:
  Rank(const Program& program, World& world);

  const Program& program() const override { return cuda_.program(); }
  std::span<std::byte> bytes(const Operand& operand) override { return cuda_.bytes(operand); }
  void run_step(Communicator& peers) override;
  const Timeline& timeline() const { return cuda_.timeline(); }

 private:
  World& world_;
  CudaRank cuda_;
  int step_ = 0;
};

class World final : public StepDevice {
 public:
  World(int ranks, const Options& options)
      : options_(options),
        nccl_(ranks),
        progress_(static_cast<std::size_t>(ranks)),
        watch_([this](const std::stop_token& stop) { watch(stop); }) {}

  std::unique_ptr<StepRank> make_rank(const Program& program) override {
    CUDA_CHECK(cudaSetDevice(program.rank));
    return std::make_unique<Rank>(program, *this);
  }
  void end(const std::string& why) override { nccl_.abort(why); }

 private:
  friend class Rank;
  static constexpr int kConnecting = -1;
  static constexpr std::chrono::milliseconds kLook{50};

  struct Progress {
    int stage = kConnecting - 1;  ///< the step, or kConnecting
    bool inside = false;          ///< the stage has begun and not ended
    Clock::time_point since;
  };

  /// What ranks do together: nobody ends it before all have begun.
  template <class Body>
  void together(int rank, int stage, Body body) {
    Progress& mine = progress_[static_cast<std::size_t>(rank)];
    {
      const std::lock_guard lock(mutex_);
      mine = {stage, true, Clock::now()};
    }
    body();
    const std::lock_guard lock(mutex_);
    mine.inside = false;
  }

  /// Ends communication when a rank is with its peers for longer than the patience.
  void watch(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (!stop.stop_requested()) {
      wake_.wait_for(lock, stop, kLook, [] { return false; });
      for (std::size_t rank = 0; rank < progress_.size(); ++rank) {
        const Progress& at = progress_[rank];
        const std::chrono::duration<double> spent = Clock::now() - at.since;
        if (at.inside && spent.count() > options_.patience_s) nccl_.abort(overdue(rank));
      }
    }
  }

  std::string overdue(std::size_t rank) const {
    const int stage = progress_[rank].stage;
    std::vector<std::size_t> missing;
    for (std::size_t other = 0; other < progress_.size(); ++other) {
      if (progress_[other].stage < stage) missing.push_back(other);
    }
    const std::string where = stage == kConnecting ? "connecting" : fmt::format("in step {}", stage);
    const std::string peers =
        missing.empty() ? "so have its peers" : fmt::format("rank {} has not come there", fmt::join(missing, ", "));
    return fmt::format("rank {} has been {} for more than {} s, and {}", rank, where, options_.patience_s, peers);
  }

  const Options options_;
  NcclWorld nccl_;
  GemmAlgorithms algorithms_;
  std::mutex mutex_;  // guards `progress_`
  std::condition_variable_any wake_;
  std::vector<Progress> progress_;  // by rank
  std::jthread watch_;              // last: it uses all of the above
};

Rank::Rank(const Program& program, World& world) : world_(world), cuda_(program, world.algorithms_, world.options_) {}

void Rank::run_step(Communicator& peers) {
  if (step_ == 0) {
    agree_on_collectives(peers, program(), 0);  // all are there, and have their memory
    world_.together(rank(), World::kConnecting, [&] { cuda_.connect(world_.nccl_); });
  }
  world_.together(rank(), step_, [&] {
    cuda_.start_step(world_.nccl_);
    cuda_.finish_step(world_.nccl_);
  });
  ++step_;
}

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

std::unique_ptr<StepDevice> open_device(int ranks, const Options& options) {
  if (const std::string why = why_unavailable(ranks); !why.empty()) throw Error(Error::Kind::unavailable, why);
  return std::make_unique<World>(ranks, options);
}

void run_ranks(const std::vector<const Program*>& programs, const HostWorkOn<RankMemory>& host, int steps, const Options& options,
               const StepTimeline& timeline) {
  for (std::size_t i = 0; i < programs.size(); ++i) {
    CHECK(programs[i]->rank == static_cast<int>(i)) << "program " << i << " is of rank " << programs[i]->rank;
  }
  const std::unique_ptr<StepDevice> device = open_device(static_cast<int>(programs.size()), options);
  ThreadWorld peers(static_cast<int>(programs.size()));
  const auto live = [&](int index) {
    std::unique_ptr<StepRank> rank;
    try {
      peers.run_as(index, [&] {
        rank = device->make_rank(*programs[static_cast<std::size_t>(index)]);
        if (host.init) host.init(*rank);
        for (int step = 0; step < steps; ++step) {
          if (host.before_step) host.before_step(*rank, step);
          rank->run_step(peers);
          if (timeline) timeline(index, step, static_cast<const Rank&>(*rank).timeline());
          if (host.after_step) host.after_step(*rank, step);
        }
      });
    } catch (...) {
      device->end(fmt::format("rank {} failed", index));
      throw;
    }
  };
  std::vector<std::exception_ptr> errors(programs.size());
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < programs.size(); ++i) {
    threads.emplace_back([&, i]() noexcept {
      try {
        live(static_cast<int>(i));
      } catch (...) {
        errors[i] = std::current_exception();
      }
    });
  }
  threads.clear();
  if (const int failed = peers.failed_rank(); failed >= 0) std::rethrow_exception(errors[static_cast<std::size_t>(failed)]);
}

}  // namespace benchsuite::cuda
