// Host copies of a rank's arenas, for the host's work around steps: fetched when the host looks, sent back with the next step
// where the host may write (inputs, parameters, masters, moments).
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "engine/device/cuda/handles.h"
#include "engine/program/program.h"

namespace benchsuite::cuda {

class HostMirror {
 public:
  /// `arenas`: device memory by purpose. Inputs and outputs get pinned memory, which copies need to run beside the host.
  explicit HostMirror(std::array<std::span<std::byte>, kPurposes> arenas);

  /// The host's copy. Waits for the device when it has to fetch it.
  std::span<std::byte> arena(Purpose purpose, cudaStream_t stream);

  /// Queues what the host may have written since the last step. The host must not write again before the step has ended.
  void upload(cudaStream_t stream);
  /// Queues the fetch of `outputs`; to be read once the stream has got there.
  void download_outputs(cudaStream_t stream);
  /// The device has changed everything but the inputs.
  void step_ended();

 private:
  enum class State : std::uint8_t { stale, equal, maybe_written };
  struct Copy {
    std::span<std::byte> device;
    std::vector<std::byte> pageable;
    PinnedMemory pinned;
    State state = State::stale;
  };
  std::span<std::byte> host(Copy& copy) const;

  std::array<Copy, kPurposes> copies_;
};

}  // namespace benchsuite::cuda
