// Streams, events and graphs.
#include <algorithm>

#include "machine.h"
#include "tasks.h"

namespace cuda_emulator {

namespace {

class Record final : public Task {
 public:
  explicit Record(std::shared_ptr<Mark> mark, Event* event = nullptr) : mark_(std::move(mark)), event_(event) {}
  bool run() override {
    mark_->time = Clock::now();
    mark_->done = true;
    return true;
  }
  /// In a graph: every launch records the event anew.
  std::unique_ptr<Task> clone() const override {
    auto mark = std::make_shared<Mark>();
    event_->mark = mark;
    auto copy = std::make_unique<Record>(std::move(mark), event_);
    copy->label = label;
    return copy;
  }

 private:
  std::shared_ptr<Mark> mark_;
  Event* event_;
};

class Wait final : public Task {
 public:
  explicit Wait(std::shared_ptr<const Mark> mark) : mark_(std::move(mark)) {}
  bool ready() const override { return mark_->done; }
  bool run() override { return true; }
  std::unique_ptr<Task> clone() const override { return std::make_unique<Wait>(mark_); }

 private:
  std::shared_ptr<const Mark> mark_;
};

/// One launch of a graph: its nodes in any order that their edges allow.
class GraphRun final : public Task {
 public:
  explicit GraphRun(std::shared_ptr<const Graph> graph) : graph_(std::move(graph)), done_(graph_->nodes.size()) {
    for (const Graph::Node& node : graph_->nodes) tasks_.push_back(node.task->clone());
    left_ = tasks_.size();
  }
  bool ready() const override {
    if (left_ == 0) return true;
    for (std::size_t i = first_; i < tasks_.size(); ++i) {
      if (may_run(i)) return true;
    }
    return false;
  }
  bool run() override {
    if (left_ == 0) return true;
    std::vector<std::size_t> ready;
    for (std::size_t i = first_; i < tasks_.size(); ++i) {
      if (may_run(i)) ready.push_back(i);
    }
    if (ready.empty()) return false;
    const std::size_t chosen = ready[draw() % ready.size()];
    Machine& machine = Machine::get();
    if (machine.observer) machine.observer(tasks_[chosen]->label, true);
    const bool finished = tasks_[chosen]->run();
    if (machine.observer) machine.observer(tasks_[chosen]->label, false);
    if (finished) {
      done_[chosen] = true;
      --left_;
      while (first_ < tasks_.size() && done_[first_]) ++first_;
    }
    return left_ == 0;
  }
  std::unique_ptr<Task> clone() const override { return std::make_unique<GraphRun>(graph_); }

 private:
  bool may_run(std::size_t i) const {
    if (done_[i]) return false;
    const auto& after = graph_->nodes[i].after;
    return std::all_of(after.begin(), after.end(), [&](std::size_t node) { return done_[node]; }) && tasks_[i]->ready();
  }
  static std::uint64_t draw() {
    Machine& machine = Machine::get();
    const std::unique_lock lock(machine.mutex);
    return machine.random();
  }

  std::shared_ptr<const Graph> graph_;
  std::vector<std::unique_ptr<Task>> tasks_;
  std::vector<bool> done_;
  std::size_t first_ = 0, left_ = 0;
};

/// Nodes of the graph that come before one of `tail`, or are of it.
std::vector<bool> ancestors(const Graph& graph, const std::vector<std::size_t>& tail) {
  std::vector<bool> seen(graph.nodes.size());
  for (const std::size_t node : tail) seen[node] = true;
  for (std::size_t i = graph.nodes.size(); i-- > 0;) {
    if (!seen[i]) continue;
    for (const std::size_t before : graph.nodes[i].after) seen[before] = true;
  }
  return seen;
}

}  // namespace

}  // namespace cuda_emulator

using namespace cuda_emulator;

namespace {

/// The stream, or null when there is none such.
Stream* find(cudaStream_t stream) {
  Machine& machine = Machine::get();
  Stream* found = machine.stream_or_default(stream, current_device());
  return machine.known(found) ? found : nullptr;
}

}  // namespace

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  Machine& machine = Machine::get();
  if (const cudaError_t error = machine.injected("cudaStreamCreateWithFlags")) return note(error);
  const std::unique_lock lock(machine.mutex);
  machine.streams.push_back(std::make_unique<Stream>());
  machine.streams.back()->device = current_device();
  *stream = machine.streams.back().get();
  return cudaSuccess;
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithFlags(stream, cudaStreamDefault); }
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  return cudaStreamCreateWithFlags(stream, flags);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  Machine& machine = Machine::get();
  {
    const std::unique_lock lock(machine.mutex);
    if (!machine.known(stream) || stream->capture) return note(cudaErrorInvalidResourceHandle);
  }
  machine.drive_until([&] { return stream->queue.empty(); });  // not with the lock held: others drive, too
  const std::unique_lock lock(machine.mutex);
  std::erase_if(machine.streams, [&](const auto& each) { return each.get() == stream; });
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  Machine& machine = Machine::get();
  if (const cudaError_t error = machine.injected("cudaStreamSynchronize")) return note(error);
  Stream* const found = find(stream);
  if (!found) return note(cudaErrorInvalidResourceHandle);
  {
    const std::unique_lock lock(machine.mutex);
    ++machine.counts.waits;
    if (found->capture) return note(cudaErrorStreamCaptureUnsupported);
  }
  return note(machine.drive_until([&] { return found->queue.empty(); }));
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  Machine& machine = Machine::get();
  if (const cudaError_t error = machine.injected("cudaStreamQuery")) return note(error);
  Stream* const found = find(stream);
  if (!found) return note(cudaErrorInvalidResourceHandle);
  machine.nudge();
  const std::unique_lock lock(machine.mutex);
  if (machine.failed() != cudaSuccess) return note(machine.failed());
  return found->queue.empty() ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  Machine& machine = Machine::get();
  if (const cudaError_t error = machine.injected("cudaStreamWaitEvent")) return note(error);
  const std::unique_lock lock(machine.mutex);
  Stream* const found = find(stream);
  if (!found || !event) return note(cudaErrorInvalidResourceHandle);
  if (event->graph) {
    // The stream joins the capture, or goes on in it.
    if (found->capture && found->capture != event->graph) return note(cudaErrorStreamCaptureUnsupported);
    if (!found->capture) {
      found->capture = event->graph;
      found->tail.clear();
      for (const auto& each : machine.streams) {
        if (each->capture == event->graph && each->origin == each.get()) found->origin = each.get();
      }
    }
    for (const std::size_t node : event->nodes) {
      if (std::find(found->tail.begin(), found->tail.end(), node) == found->tail.end()) found->tail.push_back(node);
    }
    return cudaSuccess;
  }
  if (found->capture) return note(cudaErrorStreamCaptureUnsupported);
  if (!event->mark) return cudaSuccess;  // never recorded: nothing to wait for
  return note(machine.queue(found, std::make_unique<Wait>(event->mark)));
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  Machine& machine = Machine::get();
  if (const cudaError_t error = machine.injected("cudaStreamBeginCapture")) return note(error);
  const std::unique_lock lock(machine.mutex);
  Stream* const found = find(stream);
  if (!found || !stream || found->capture) return note(cudaErrorStreamCaptureUnsupported);
  found->capture = new Graph;
  found->origin = found;
  found->tail.clear();
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  Machine& machine = Machine::get();
  const std::unique_lock lock(machine.mutex);
  Stream* const found = find(stream);
  if (!found || !found->capture || found->origin != found) return note(cudaErrorStreamCaptureInvalidated);
  Graph* const captured = found->capture;
  const std::vector<bool> joined = ancestors(*captured, found->tail);
  bool unjoined = false;
  for (const auto& each : machine.streams) {
    if (each->capture != captured) continue;
    for (const std::size_t node : each->tail) unjoined = unjoined || !joined[node];
    each->capture = nullptr;
    each->origin = nullptr;
    each->tail.clear();
  }
  *graph = nullptr;
  cudaError_t error = machine.injected("cudaStreamEndCapture");
  if (error == cudaSuccess && unjoined) error = cudaErrorStreamCaptureUnjoined;
  if (error != cudaSuccess) {
    delete captured;
    return note(error);
  }
  *graph = captured;
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  Machine& machine = Machine::get();
  const std::unique_lock lock(machine.mutex);
  Stream* const found = find(stream);
  if (!found) return note(cudaErrorInvalidResourceHandle);
  *status = found->capture ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  if (const cudaError_t error = Machine::get().injected("cudaEventCreateWithFlags")) return note(error);
  *event = new Event;
  (*event)->timing = (flags & cudaEventDisableTiming) == 0;
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  Machine& machine = Machine::get();
  if (const cudaError_t error = machine.injected("cudaEventRecord")) return note(error);
  const std::unique_lock lock(machine.mutex);
  Stream* const found = find(stream);
  if (!found || !event) return note(cudaErrorInvalidResourceHandle);
  if (found->capture && (flags & cudaEventRecordExternal) == 0) {
    event->graph = found->capture;
    event->nodes = found->tail;
    event->mark = nullptr;
    return cudaSuccess;
  }
  if (found->capture) {  // a node that records at every launch
    return note(machine.queue(found, std::make_unique<Record>(std::make_shared<Mark>(), event)));
  }
  if ((flags & cudaEventRecordExternal) != 0) return note(cudaErrorInvalidValue);
  event->graph = nullptr;
  event->nodes.clear();
  event->mark = std::make_shared<Mark>();
  return note(machine.queue(found, std::make_unique<Record>(event->mark)));
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, cudaEventRecordDefault);
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  Machine& machine = Machine::get();
  if (const cudaError_t error = machine.injected("cudaEventQuery")) return note(error);
  machine.nudge();
  const std::unique_lock lock(machine.mutex);
  if (machine.failed() != cudaSuccess) return note(machine.failed());
  if (event->graph) return note(cudaErrorStreamCaptureUnsupported);
  return !event->mark || event->mark->done ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  Machine& machine = Machine::get();
  if (const cudaError_t error = machine.injected("cudaEventSynchronize")) return note(error);
  std::shared_ptr<Mark> mark;
  {
    const std::unique_lock lock(machine.mutex);
    ++machine.counts.waits;
    if (event->graph) return note(cudaErrorStreamCaptureUnsupported);
    mark = event->mark;
  }
  if (!mark) return cudaSuccess;
  return note(machine.drive_until([&] { return mark->done.load(); }));
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  if (const cudaError_t error = Machine::get().injected("cudaEventElapsedTime")) return note(error);
  if (!start->timing || !end->timing || !start->mark || !end->mark) return note(cudaErrorInvalidResourceHandle);
  if (!start->mark->done || !end->mark->done) return note(cudaErrorNotReady);
  *milliseconds = std::chrono::duration<float, std::milli>(end->mark->time - start->mark->time).count();
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  if (const cudaError_t error = Machine::get().injected("cudaGraphInstantiate")) return note(error);
  auto copy = std::make_shared<Graph>();
  for (const Graph::Node& node : graph->nodes) copy->nodes.push_back({node.task->clone(), node.after});
  *exec = new GraphExec{std::move(copy)};
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  Machine& machine = Machine::get();
  if (const cudaError_t error = machine.injected("cudaGraphLaunch")) return note(error);
  const std::unique_lock lock(machine.mutex);
  Stream* const found = find(stream);
  if (!found) return note(cudaErrorInvalidResourceHandle);
  ++machine.counts.graph_launches;
  return note(machine.queue(found, std::make_unique<GraphRun>(exec->graph)));
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  delete exec;
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
