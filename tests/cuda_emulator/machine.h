// The emulated machine: devices with memory, streams with queued operations, events, and the scheduler that decides which
// stream goes on.
//
// A host call only queues. Operations run on a host thread that waits for something (or, by Settings::pace, on the one that
// queues), one at a time, those of all devices in an order drawn from the seed: a stream may lie still for long while others run
// far ahead, as on a busy GPU.
#pragma once

#include <cuda_runtime.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "emulator.h"

namespace cuda_emulator {

using Clock = std::chrono::steady_clock;

/// One thing a stream does.
class Task {
 public:
  virtual ~Task() = default;
  /// Whether `run` can go on now.
  virtual bool ready() const { return true; }
  /// Does it, or a part; true when all is done. Only the driver calls it.
  virtual bool run() = 0;
  /// A second task of the same meaning, for a graph that is launched again.
  virtual std::unique_ptr<Task> clone() const = 0;

  Operation label{};  ///< the device and the NVTX range it was queued in
};

/// What an event stands for after it was recorded.
struct Mark {
  std::atomic<bool> done = false;
  Clock::time_point time;
};

class Event {
 public:
  std::shared_ptr<Mark> mark;  ///< of the last record; null before
  bool timing = true;
  // Recorded in a stream that captures: the nodes it stands for.
  Graph* graph = nullptr;
  std::vector<std::size_t> nodes;
};

class Graph {
 public:
  struct Node {
    std::unique_ptr<Task> task;
    std::vector<std::size_t> after;
  };
  std::vector<Node> nodes;
};

class GraphExec {
 public:
  std::shared_ptr<const Graph> graph;
};

class Stream {
 public:
  int device = 0;
  std::deque<std::unique_ptr<Task>> queue;
  bool busy = false;  ///< its head is running
  std::uint64_t priority = 0;  ///< of the moment
  // While capturing.
  Graph* capture = nullptr;
  Stream* origin = nullptr;
  std::vector<std::size_t> tail;  ///< nodes that the next one comes after
};

class Machine {
 public:
  static Machine& get();

  void reset(const Settings& settings);

  /// Puts a task at the end of a stream, or into the graph that the stream captures.
  cudaError_t queue(Stream* stream, std::unique_ptr<Task> task);
  /// Runs work until `met` (called with the lock held). cudaErrorLaunchTimeout when nothing moves for Settings::patience_s.
  cudaError_t drive_until(const std::function<bool()>& met);
  /// Lets some work run, for a host that polls.
  void nudge();

  Stream* stream_or_default(Stream* stream, int device);
  bool known(const Stream* stream) const;
  cudaError_t failed() const { return error_; }
  void fail(cudaError_t error, const std::string& why);
  /// An error that `fail_call` asked for, or success.
  cudaError_t injected(const char* function);
  void inject(const std::string& function, int nth, cudaError_t error);
  bool kernel_fails();
  std::string describe_queues() const;

  std::recursive_mutex mutex;  ///< guards all but what only the driver touches
  Settings settings;
  std::list<std::unique_ptr<Stream>> streams;
  std::vector<Stream*> defaults;  ///< by device: stream 0
  std::mt19937_64 random;
  Counts counts;
  std::string failure;
  Observer observer;
  int fail_kernel_in = 0;

 private:
  Stream* pick();
  void step(Stream* stream, std::unique_lock<std::recursive_mutex>& lock);
  void wake();

  struct Waiter {
    const std::function<bool()>* met;
    std::condition_variable_any wake;
  };
  std::list<Waiter*> waiters_;
  bool driving_ = false;
  cudaError_t error_ = cudaSuccess;
  std::map<std::string, std::vector<std::pair<int, cudaError_t>>> faults_;
};

/// Keeps an error for cudaGetLastError and hands it on.
cudaError_t note(cudaError_t error);

// Memory (memory.cpp). A host thread's current device:
int current_device();
void* allocate_device(int device, std::size_t bytes);
bool free_device(void* pointer);
/// On which device it was allocated, or -1.
int device_of(const void* pointer);
/// Whether [pointer, pointer + bytes) lies inside one allocation of a device.
bool on_device(const void* pointer, std::size_t bytes);
bool is_pinned(const void* pointer, std::size_t bytes);
std::size_t device_bytes(int device);

/// The NVTX range the calling thread is in (nvtx.cpp).
Operation current_range();

}  // namespace cuda_emulator
