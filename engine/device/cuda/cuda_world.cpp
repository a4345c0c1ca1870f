#include "engine/device/cuda/cuda_world.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/comm/agreement.h"

namespace benchsuite::cuda {

std::unique_ptr<StepRank> World::make_rank(const Program& program) {
  CUDA_CHECK(cudaSetDevice(program.rank));
  return std::make_unique<WorldRank>(program, *this);
}

void World::watch(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    wake_.wait_for(lock, stop, kLook, [] { return false; });
    for (std::size_t rank = 0; rank < progress_.size(); ++rank) {
      const Progress& at = progress_[rank];
      const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - at.since;
      if (at.inside && spent.count() > options_.patience_s) nccl_.abort(overdue(rank));
    }
  }
}

std::string World::overdue(std::size_t rank) const {
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

WorldRank::WorldRank(const Program& program, World& world) : world_(world), cuda_(program, world.algorithms_, world.options_) {}

void WorldRank::run_step(Communicator& peers) {
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

}  // namespace benchsuite::cuda
