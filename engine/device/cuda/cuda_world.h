// The GPUs of a world of ranks that are threads of this process: makes the ranks, connects them, and watches that none waits for
// its peers for ever.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "engine/comm/nccl/nccl_world.h"
#include "engine/device/cuda/cuda_device.h"
#include "engine/device/cuda/cuda_rank.h"

namespace benchsuite::cuda {

class World;

/// A rank of a world.
class WorldRank final : public StepRank {
 public:
  WorldRank(const Program& program, World& world);

  const Program& program() const override { return cuda_.program(); }
  std::span<std::byte> bytes(const Operand& operand) override { return cuda_.bytes(operand); }
  /// The first also joins the communicators.
  void run_step(Communicator& peers) override;
  const CudaRank& cuda() const { return cuda_; }

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

  std::unique_ptr<StepRank> make_rank(const Program& program) override;
  void end(const std::string& why) override { nccl_.abort(why); }

 private:
  friend class WorldRank;
  static constexpr int kConnecting = -1;
  static constexpr std::chrono::milliseconds kLook{50};

  struct Progress {
    int stage = kConnecting - 1;  ///< the step, or kConnecting
    bool inside = false;          ///< the stage has begun and not ended
    std::chrono::steady_clock::time_point since;
  };

  /// What ranks do together: nobody ends it before all have begun.
  template <class Body>
  void together(int rank, int stage, Body body) {
    Progress& mine = progress_[static_cast<std::size_t>(rank)];
    {
      const std::lock_guard lock(mutex_);
      mine = {stage, true, std::chrono::steady_clock::now()};
    }
    body();
    const std::lock_guard lock(mutex_);
    mine.inside = false;
  }

  /// Ends communication when a rank is with its peers for longer than the patience.
  void watch(const std::stop_token& stop);
  std::string overdue(std::size_t rank) const;

  const Options options_;
  NcclWorld nccl_;
  GemmAlgorithms algorithms_;
  std::mutex mutex_;  // guards `progress_`
  std::condition_variable_any wake_;
  std::vector<Progress> progress_;  // by rank
  std::jthread watch_;              // last: it uses all of the above
};

}  // namespace benchsuite::cuda
