// Moves activations and their gradients between pipeline stages (megatron-core p2p_communication.py).
//
// A send and its receive are a rendezvous: the transfer starts when both are posted. Receives are posted one step ahead.
//
//   blocking    (1F1B in megatron-core) After the compute of a step its result is sent and the next input received; compute
//               waits for both. Interleaved: for the receive only, since a rank's next receive need not be the one its
//               neighbour's send waits for.
//   overlapped  The next receive is posted before the compute of a step and waited for where its tensor is used; sends are
//               not waited for.
//
// Where the stack scatters (Narayanan et al. 2021, section 4.1) and tensor ranks hold the same whole tensor, each sends its 1/t of
// the elements to the rank at its own place in the next stage, which gathers them over its tensor group before use.
//
// Where the stack says so (HostWaits), the host waits for what a pass waits for before it launches the pass: behind a blocking
// exchange, for the inputs of a micro-batch, to learn how a tensor's pieces are joined, to read what came beside it; and before it
// sends, where something goes beside.
//
// Compute must never wait for a send whose receive is not sure to be posted without it, not even to reuse the sent tensor's
// memory: that would deadlock. So a sent tensor is released only at a step that cannot come before the step at which the other
// rank posts the receive; ScheduleTimes knows. Overlapped, it also lives through the next step, or reusing its memory would make that
// step wait for the transfer it should hide.
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "engine/model/model_context.h"
#include "engine/parallel/schedule_times.h"

namespace benchsuite {

class Transport {
 public:
  Transport(ModelContext& context, const ScheduleTimes& times);

  bool overlapped() const { return overlapped_; }

  /// Step `index` of this rank begins: compute waits for what blocks it, sent tensors that are surely taken are released.
  void begin(std::size_t index);
  /// All steps are recorded: releases what is left.
  void finish();

  /// Whether `step` takes a tensor from another stage; posts the receive if so and keeps it until `take`.
  void post_receive(const Step& step);
  /// The tensor received for `step`, which is about to run (invalid if it needs none). A backward starts, with whatever it
  /// recomputes first, when its output gradient is there.
  Tensor take(const Step& step);
  /// Sends the result of `step` on, if another stage needs it, and releases it, or keeps it until the micro-batch comes back
  /// (Stack::keeps_stage_outputs).
  void send(const Step& step, const Tensor& result);
 private:
  bool needs_input(const Step& step) const;
  std::array<std::int64_t, 4> whole_shape() const { return {1, context_.s_local, context_.b, context_.h}; }
  void settle();
  /// The host waits before it launches the pass of `step`, whose tensor is `received`.
  bool host_waits_before(const Step& step, const Tensor& received) const;
  std::int64_t taken_at(const Step& step) const;

  struct Sent {
    Tensor tensor;
    std::int64_t taken_at = 0;  ///< no step that starts from this time on is needed for the receive to be posted
    std::size_t free_from = 0;  ///< first step that may release it
  };

  ModelContext& context_;
  const ScheduleTimes& times_;
  bool overlapped_;
  bool sends_block_;
  bool scatters_;
  HostWaits host_waits_;
  std::optional<Tensor> received_;
  std::vector<Sent> sent_;
  std::map<std::pair<std::int64_t, std::int64_t>, Tensor> outputs_;  // kept, by chunk and micro-batch
  std::size_t index_ = 0;  // of the step being recorded
  bool exchanged_ = false;  // with another stage, since the host last waited
};

}  // namespace benchsuite
