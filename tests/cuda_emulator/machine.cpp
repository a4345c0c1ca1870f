#include "machine.h"

#include <algorithm>
#include <cstdio>

namespace cuda_emulator {

Machine& Machine::get() {
  static Machine machine;
  static const bool started = (machine.reset({}), true);
  (void)started;
  return machine;
}

void Machine::reset(const Settings& chosen) {
  const std::unique_lock lock(mutex);
  settings = chosen;
  streams.clear();
  defaults.clear();
  for (int device = 0; device < settings.devices; ++device) {
    streams.push_back(std::make_unique<Stream>());
    streams.back()->device = device;
    defaults.push_back(streams.back().get());
  }
  random.seed(settings.seed);
  counts = {};
  failure.clear();
  error_ = cudaSuccess;
  faults_.clear();
  fail_kernel_in = 0;
  observer = nullptr;
}

Stream* Machine::stream_or_default(Stream* stream, int device) {
  return stream ? stream : defaults[static_cast<std::size_t>(device)];
}

bool Machine::known(const Stream* stream) const {
  return std::any_of(streams.begin(), streams.end(), [&](const auto& each) { return each.get() == stream; });
}

void Machine::fail(cudaError_t error, const std::string& why) {
  const std::unique_lock lock(mutex);
  if (error_ == cudaSuccess) {
    error_ = error;
    failure = why;
  }
}

cudaError_t Machine::injected(const char* function) {
  const std::unique_lock lock(mutex);
  const auto found = faults_.find(function);
  if (found == faults_.end()) return cudaSuccess;
  cudaError_t error = cudaSuccess;
  for (auto& [left, what] : found->second) {
    if (left > 0 && --left == 0) error = what;
  }
  return error;
}

void Machine::inject(const std::string& function, int nth, cudaError_t error) {
  const std::unique_lock lock(mutex);
  faults_[function].emplace_back(nth, error);
}

bool Machine::kernel_fails() {
  const std::unique_lock lock(mutex);
  return fail_kernel_in > 0 && --fail_kernel_in == 0;
}

cudaError_t Machine::queue(Stream* stream, std::unique_ptr<Task> task) {
  std::unique_lock lock(mutex);
  if (error_ != cudaSuccess) return error_;
  task->label = current_range();
  task->label.device = stream->device;
  if (stream->capture) {
    stream->capture->nodes.push_back({std::move(task), stream->tail});
    stream->tail = {stream->capture->nodes.size() - 1};
    return cudaSuccess;
  }
  stream->queue.push_back(std::move(task));
  if (settings.pace == Pace::early) {
    nudge();
  } else if (settings.pace == Pace::mixed && random() % 8 == 0) {
    nudge();
  } else if (!driving_) {
    wake();  // somebody may wait for just this
  }
  return cudaSuccess;
}

Stream* Machine::pick() {
  // Priorities last for a while, so that one stream may run far ahead of another.
  const bool redraw = random() % 16 == 0;
  Stream* best = nullptr;
  for (const auto& stream : streams) {
    if (redraw || stream->priority == 0) stream->priority = random() | 1;
    if (stream->busy || stream->queue.empty() || !stream->queue.front()->ready()) continue;
    if (!best || stream->priority > best->priority) best = stream.get();
  }
  return best;
}

void Machine::step(Stream* stream, std::unique_lock<std::recursive_mutex>& lock) {
  Task* task = stream->queue.front().get();
  const Observer watch = observer;
  stream->busy = true;
  lock.unlock();
  if (watch) watch(task->label, true);
  const bool done = task->run();
  if (watch) watch(task->label, false);
  lock.lock();
  stream->busy = false;
  std::unique_ptr<Task> finished;
  if (done) {
    finished = std::move(stream->queue.front());
    stream->queue.pop_front();
  }
  for (Waiter* waiter : waiters_) {
    if (error_ != cudaSuccess || (*waiter->met)()) waiter->wake.notify_one();
  }
}

void Machine::wake() {
  if (!waiters_.empty()) waiters_.front()->wake.notify_one();
}

cudaError_t Machine::drive_until(const std::function<bool()>& met) {
  std::unique_lock lock(mutex);
  Waiter self{&met, {}};
  const auto place = waiters_.insert(waiters_.end(), &self);
  cudaError_t result = cudaSuccess;
  while (true) {
    if (error_ != cudaSuccess) {
      result = error_;
      if (!driving_) break;
      self.wake.wait_for(lock, std::chrono::milliseconds(1));  // who comes back may free what the running operation uses
      continue;
    }
    if (met()) break;
    if (!driving_) {
      if (Stream* stream = pick()) {
        driving_ = true;
        step(stream, lock);
        driving_ = false;
        continue;
      }
    }
    const auto patience = std::chrono::duration<double>(settings.patience_s);
    const bool idle = !driving_;
    if (self.wake.wait_for(lock, patience) == std::cv_status::timeout && idle && !driving_ && !met() && !pick()) {
      fail(cudaErrorLaunchTimeout, "nothing moves:" + describe_queues());
    }
  }
  waiters_.erase(place);
  if (!driving_) wake();
  return result;
}

void Machine::nudge() {
  std::unique_lock lock(mutex);
  if (driving_) return;
  for (std::uint64_t left = settings.pace == Pace::early ? 1u << 20 : 1 + random() % 4; left > 0; --left) {
    if (error_ != cudaSuccess) break;
    Stream* stream = pick();
    if (!stream) break;
    driving_ = true;
    step(stream, lock);
    driving_ = false;
  }
  wake();
}

std::string Machine::describe_queues() const {
  std::string text;
  for (const auto& stream : streams) {
    if (stream->queue.empty()) continue;
    const Operation& head = stream->queue.front()->label;
    text += " device " + std::to_string(stream->device) + " has " + std::to_string(stream->queue.size()) +
            " operations behind one of range '" + head.range + "';";
  }
  return text;
}

// The controls of emulator.h.

void reset(const Settings& settings) {
  Machine::get().reset(settings);
  if (settings.devices > 0) cudaSetDevice(0);
}
const Settings& settings() { return Machine::get().settings; }
void fail_call(const std::string& function, int nth, cudaError_t error) { Machine::get().inject(function, nth, error); }
void fail_kernel(int nth) { Machine::get().fail_kernel_in = nth; }
std::string failure() {
  Machine& machine = Machine::get();
  const std::unique_lock lock(machine.mutex);
  return machine.failure;
}
Counts counts() {
  Machine& machine = Machine::get();
  const std::unique_lock lock(machine.mutex);
  return machine.counts;
}
void observe(Observer observer) {
  Machine& machine = Machine::get();
  const std::unique_lock lock(machine.mutex);
  machine.observer = std::move(observer);
}

}  // namespace cuda_emulator
