// The operations of streams that need no library: kernels, copies, event records and waits, graphs.
#pragma once

#include "machine.h"

namespace cuda_emulator {

/// Anything that runs at once.
class Work final : public Task {
 public:
  explicit Work(std::function<void()> body) : body_(std::move(body)) {}
  bool run() override {
    body_();
    return true;
  }
  std::unique_ptr<Task> clone() const override { return labelled(std::make_unique<Work>(body_)); }

 private:
  std::unique_ptr<Task> labelled(std::unique_ptr<Task> copy) const {
    copy->label = label;
    return copy;
  }
  std::function<void()> body_;
};

/// Queues `body` on the stream (the default one of the calling thread's device when null).
cudaError_t queue_work(cudaStream_t stream, std::function<void()> body);

}  // namespace cuda_emulator
