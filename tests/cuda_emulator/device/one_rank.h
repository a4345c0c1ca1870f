// One rank of the emulated device, stepped by hand.
#pragma once

#include "engine/device/cuda/cuda_rank.h"
#include "engine/train/cpu_host.h"
#include "tests/cuda_emulator/device/emulated_training.h"

namespace benchsuite::testing_cuda {

class OneRank {
 public:
  explicit OneRank(const TrainConfig& config, cuda_emulator::Settings settings = {}, cuda::Options options = {})
      : recorded_(record_step(config, 0)), config_(config), world_(1) {
    settings.devices = 1;
    cuda_emulator::reset(settings);
    options.gemm_workspace = kGemmWorkspace;
    rank_.emplace(recorded_.program, algorithms_, options);
    rank_->connect(world_);
    initialise_parameters(*rank_, recorded_.bindings, config.model.layers, 1234);
  }

  void start(int step) {
    const TokenSource source = [&](std::int64_t sample, std::span<std::int32_t> tokens) {
      for (std::size_t i = 0; i < tokens.size(); ++i) {
        tokens[i] = synthetic_token(1234, sample, static_cast<std::int64_t>(i), config_.model.vocab);
      }
    };
    fill_inputs(*rank_, recorded_.bindings, config_, {}, step, 1234, source, {});
    rank_->start_step(world_);
  }
  void finish() { rank_->finish_step(world_); }
  float loss() { return rank_->view<float>(recorded_.bindings.loss)[0]; }

  const Program& program() const { return recorded_.program; }
  cuda::CudaRank& rank() { return *rank_; }
  cuda::GemmAlgorithms& algorithms() { return algorithms_; }

 private:
  RecordedStep recorded_;
  const TrainConfig config_;
  cuda::GemmAlgorithms algorithms_;
  NcclWorld world_;
  std::optional<cuda::CudaRank> rank_;
};

}  // namespace benchsuite::testing_cuda
