// One rank of device cuda: its Program's memory on a GPU and its execution on streams.
//
// Memory is one allocation: the arenas of all purposes at the Program's offsets, one behind the other, then a workspace for each
// stream. A stream of the Program is a CUDA stream; a wait for an op of another stream is a wait for its event. The first step is
// launched op by op; the second is captured, and from then on a step is one graph launch. Between the start of a step and its end
// the host waits for nothing.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/comm/nccl/nccl_world.h"
#include "engine/device/cuda/compute.h"
#include "engine/device/cuda/cuda_device.h"
#include "engine/device/cuda/handles.h"
#include "engine/device/cuda/host_mirror.h"
#include "engine/device/rank_memory.h"
#include "engine/program/timeline.h"

namespace benchsuite::cuda {

class CudaRank final : public RankMemory {
 public:
  /// Allocates memory on the current GPU, zeroes what lives longer than a step, and gets every product ready. The Program must
  /// outlive the rank. Throws on operands outside their buffers and on buffers outside their arenas.
  CudaRank(const Program& program, GemmAlgorithms& algorithms, const Options& options);

  const Program& program() const override { return program_; }
  std::span<std::byte> bytes(const Operand& operand) override;

  /// Joins the communicators. All ranks call it, each on its own thread.
  void connect(NcclWorld& world);

  /// Queues a step: the host's inputs, every op, the outputs. Waits for nothing once the streams are captured.
  void start_step(NcclWorld& world);
  /// Waits for it. Throws Error (run) when something in it failed.
  void finish_step(NcclWorld& world);

  /// Of the last finished step, when Options::spans is set; the origin is the step's start on this GPU. `ready` of a
  /// collective is its start: the moment its stream reached it.
  const Timeline& timeline() const { return timeline_; }

  // Device addresses, for tests.
  std::span<std::byte> pool() const { return whole_; }
  std::span<std::byte> arena(Purpose purpose) const { return arenas_[static_cast<std::size_t>(purpose)]; }
  std::span<std::byte> workspace(StreamKind kind) const { return workspaces_[static_cast<std::size_t>(kind)]; }

 private:
  void lay_out_memory();
  void prepare_products();
  KernelCall call_of(OpId id) const;
  CollectiveCall collective_of(OpId id) const;
  /// Queues all ops, from a fork off the compute stream to a join with it.
  void queue_step(NcclWorld& world);
  void queue_op(OpId id, NcclWorld& world);
  void mark(const Event& event, cudaStream_t stream) const;
  void read_spans();
  cudaStream_t stream(StreamKind kind) const { return streams_[static_cast<std::size_t>(kind)].get(); }
  cudaStream_t compute_stream() const { return stream(StreamKind::compute); }
  std::string describe(OpId id) const;

  const Program& program_;
  const Options options_;
  Compute compute_;
  DeviceMemory pool_;
  std::span<std::byte> whole_;
  std::array<std::span<std::byte>, kPurposes> arenas_;
  std::array<std::span<std::byte>, kStreams> workspaces_;
  std::vector<std::span<std::byte>> operands_;  // device addresses, by operand of the Program
  std::array<Stream, kStreams> streams_;        // those the Program uses, and compute
  std::array<Event, kStreams> ends_;            // of the other streams' parts of a step
  std::vector<Event> done_;                     // by op: where another stream waits for it
  struct Times {
    Event start, end;
  };
  std::vector<Times> times_;  // by op, when spans are on
  Event fork_, step_start_, step_end_;
  GraphExec graph_;
  bool capturing_ = false;
  int steps_ = 0;
  std::optional<HostMirror> host_;
  Timeline timeline_;
};

}  // namespace benchsuite::cuda
