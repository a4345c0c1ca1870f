#include "engine/device/cuda/cuda_device.h"

#include <fmt/format.h>

#include <exception>
#include <memory>
#include <thread>

#include "engine/comm/threads/thread_world.h"
#include "engine/core/error.h"
#include "engine/device/cuda/cuda_world.h"

namespace benchsuite::cuda {

namespace {

constexpr int kOldestMajor = 8;  // A100

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
          if (timeline) timeline(index, step, static_cast<const WorldRank&>(*rank).cuda().timeline());
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
