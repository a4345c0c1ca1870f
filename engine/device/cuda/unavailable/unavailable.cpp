// Device cuda of a build without it.
#include "engine/core/error.h"
#include "engine/device/cuda/cuda_device.h"

namespace benchsuite::cuda {

std::string why_unavailable(int) {
  return "device cuda: there was no NVIDIA driver, or no CUDA toolkit with NCCL, where this program was built; build it where both are";
}

std::unique_ptr<StepDevice> open_device(int ranks, const Options&) {
  throw Error(Error::Kind::unavailable, why_unavailable(ranks));
}

void run_ranks(const std::vector<const Program*>& programs, const HostWorkOn<RankMemory>&, int, const Options&,
               const StepTimeline&) {
  open_device(static_cast<int>(programs.size()));
}

}  // namespace benchsuite::cuda
