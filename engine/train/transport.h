// Moves activations and their gradients between pipeline stages (megatron-core p2p_communication.py).
//
// Receives are posted one step ahead. Blocking (1F1B in megatron-core): after the compute of a step its result is sent and the
// next input received, and compute waits for both. Overlapped (interleaved): the next receive is posted before the compute of
// a step and waited for where its tensor is used; sends are not waited for.
#pragma once

#include <optional>

#include "engine/model/model_context.h"
#include "engine/parallel/schedule.h"

namespace benchsuite {

class Transport {
 public:
  explicit Transport(ModelContext& context);

  bool overlapped() const { return overlapped_; }

  /// Whether `step` takes a tensor from another stage; posts the receive if so and keeps it until `take`.
  void post_receive(const Step& step);
  /// The tensor received for the step being run (invalid if it needs none).
  Tensor take();
  /// Sends the result of `step` on, if another stage needs it, and releases it.
  void send(const Step& step, const Tensor& result);
  /// Blocking only: compute waits for what was sent and received so far.
  void settle();

 private:
  bool needs_input(const Step& step) const;
  bool has_successor(const Step& step) const;

  ModelContext& context_;
  bool overlapped_;
  std::optional<Tensor> received_;
};

}  // namespace benchsuite
