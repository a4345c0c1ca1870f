// Device cuda of a build without the CUDA toolkit.
#include "engine/core/error.h"
#include "engine/device/cuda/cuda_device.h"

namespace benchsuite::cuda {

std::string why_unavailable(int) {
  return "device cuda: this build has no CUDA; install the CUDA toolkit with NCCL and build again";
}

void run_ranks(const std::vector<const Program*>& programs, const HostWorkOn<RankMemory>&, int, const Options&,
               const StepTimeline&) {
  throw Error(Error::Kind::unavailable, why_unavailable(static_cast<int>(programs.size())));
}

}  // namespace benchsuite::cuda
