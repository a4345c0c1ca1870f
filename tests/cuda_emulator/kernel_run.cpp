#include "kernel_run.h"

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "fiber.h"

// Bounds of the section of shared arrays; absent in a program without any.
extern "C" {
__attribute__((weak)) extern char __start_cuda_shared[];
__attribute__((weak)) extern char __stop_cuda_shared[];
}

uint3 threadIdx{}, blockIdx{};
dim3 blockDim, gridDim;

namespace cuda_emulator {

namespace {

constexpr int kWarp = 32;

enum class State : std::uint8_t { unstarted, ready, running, at_barrier, at_warp, ended };

struct Thread {
  uint3 index{};
  int fiber = -1;  // on whose stack it is, once started
  State state = State::unstarted;
  // What it waits at.
  const char* file = nullptr;
  int line = 0;
  WarpKind kind{};
  unsigned mask = 0;
  std::uint64_t value = 0;
  int argument = 0, width = kWarp;
  std::uint64_t result = 0;
};

/// The block that runs. One at a time in the process, as its shared arrays are.
class Block {
 public:
  std::string run(dim3 grid, dim3 block, const KernelBody& body, const KernelOrder& order) {
    body_ = &body;
    order_ = order.order;
    random_.seed(order.seed);
    blockDim = block;
    gridDim = grid;
    failure_.clear();
    const unsigned count = block.x * block.y * block.z;
    if (count == 0 || count > 1024 || grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.y > 65535 || grid.z > 65535) {
      return "a grid or block of a size that does not exist";
    }
    threads_.resize(count);
    std::vector<std::uint64_t> blocks(std::uint64_t{grid.x} * grid.y * grid.z);
    std::iota(blocks.begin(), blocks.end(), std::uint64_t{0});
    permute(blocks);
    for (const std::uint64_t at : blocks) {
      blockIdx = {static_cast<unsigned>(at % grid.x), static_cast<unsigned>(at / grid.x % grid.y),
                  static_cast<unsigned>(at / grid.x / grid.y)};
      fill_shared(static_cast<char>(order.fill));
      run_block();
      if (!failure_.empty()) break;
    }
    return failure_;
  }

  void barrier(const char* file, int line) {
    Thread& self = threads_[current_];
    self.file = file;
    self.line = line;
    wait_in(State::at_barrier);
  }

  int vote(BlockVote kind, bool value, const char* file, int line) {
    threads_[current_].value = value;
    threads_[current_].argument = static_cast<int>(kind);
    barrier(file, line);
    return static_cast<int>(threads_[current_].result);
  }

  std::uint64_t warp(WarpKind kind, unsigned mask, std::uint64_t value, int argument, int width, const char* file, int line) {
    Thread& self = threads_[current_];
    self.kind = kind;
    self.mask = mask;
    self.value = value;
    self.argument = argument;
    self.width = width;
    self.file = file;
    self.line = line;
    if ((mask >> (current_ % kWarp) & 1u) == 0) fail(place(self) + ": a lane that is not in its own mask");
    wait_in(State::at_warp);
    return threads_[current_].result;
  }

 private:
  template <class T>
  void permute(std::vector<T>& list) {
    if (order_ == ThreadOrder::reverse) std::reverse(list.begin(), list.end());
    if (order_ == ThreadOrder::shuffled) std::shuffle(list.begin(), list.end(), random_);
  }

  // The bytes between arrays, too, which AddressSanitizer guards.
  __attribute__((no_sanitize("address"))) static void fill_shared(char value) {
    for (volatile char* at = __start_cuda_shared; at < __stop_cuda_shared; ++at) *at = value;
  }

  void run_block() {
    std::vector<std::size_t> all(threads_.size());
    std::iota(all.begin(), all.end(), std::size_t{0});
    for (const std::size_t i : all) {
      const auto at = static_cast<unsigned>(i);
      threads_[i] = Thread{};
      threads_[i].index = {at % blockDim.x, at / blockDim.x % blockDim.y, at / blockDim.x / blockDim.y};
    }
    alive_ = threads_.size();
    waiting_ = 0;
    permute(all);
    ready_.assign(all.begin(), all.end());
    idle_.clear();
    for (int i = static_cast<int>(fibers_.size()) - 1; i >= 0; --i) idle_.push_back(i);
    go_on(own_);
    // Back here when no thread can run.
    if (failure_.empty() && alive_ > 0) fail(stuck());
  }

  /// Leaves `from` for whatever runs next.
  void go_on(Fiber& from) {
    Fiber* to = &own_;
    if (failure_.empty() && !ready_.empty()) {
      const std::size_t next = ready_.front();
      if (threads_[next].state == State::unstarted) {
        // The fiber takes it from the queue.
        if (idle_.empty()) {
          fibers_.push_back(std::make_unique<Fiber>());
          idle_.push_back(static_cast<int>(fibers_.size()) - 1);
        }
        starting_ = idle_.back();
        idle_.pop_back();
        to = fibers_[static_cast<std::size_t>(starting_)].get();
        to->begin(&Block::entry);
      } else {
        ready_.pop_front();
        resume(next);
        to = fibers_[static_cast<std::size_t>(threads_[next].fiber)].get();
      }
    }
    if (to != &from) Fiber::change(from, *to);
  }

  void resume(std::size_t thread) {
    current_ = thread;
    threads_[thread].state = State::running;
    threadIdx = threads_[thread].index;
  }

  static void entry();

  /// Runs unstarted threads one after the other on one stack, as long as none of them has to wait.
  void run_fiber() {
    const int fiber = starting_;
    while (true) {
      while (failure_.empty() && !ready_.empty() && threads_[ready_.front()].state == State::unstarted) {
        const std::size_t thread = ready_.front();
        ready_.pop_front();
        threads_[thread].fiber = fiber;
        resume(thread);
        (*body_)();
        threads_[current_].state = State::ended;
        --alive_;
        release();
      }
      idle_.push_back(fiber);
      go_on(*fibers_[static_cast<std::size_t>(fiber)]);
    }
  }

  void wait_in(State state) {
    Thread& self = threads_[current_];
    self.state = state;
    if (state == State::at_barrier) ++waiting_;
    release();
    go_on(*fibers_[static_cast<std::size_t>(self.fiber)]);
  }

  /// Lets go on whoever has all it waits for, after thread `current_` has come to wait or ended.
  void release() {
    const std::size_t first = current_ / kWarp * kWarp, last = std::min(first + kWarp, threads_.size());
    const Thread& self = threads_[current_];
    if (self.state == State::at_warp) {
      release_lanes(first, last, self.mask);
    } else if (self.state == State::ended) {
      for (std::size_t i = first; i < last; ++i) {
        if (threads_[i].state == State::at_warp) release_lanes(first, last, threads_[i].mask);
      }
    }
    if (alive_ > 0 && waiting_ == alive_) release_barrier();
  }

  void release_lanes(std::size_t first, std::size_t last, unsigned mask) {
    std::array<Thread*, kWarp> lanes{};
    const Thread* some = nullptr;
    for (std::size_t i = first; i < last; ++i) {
      Thread& thread = threads_[i];
      if ((mask >> (i - first) & 1u) == 0 || thread.state == State::ended) continue;
      if (thread.state != State::at_warp || thread.mask != mask) return;
      lanes[i - first] = &thread;
      some = &thread;
    }
    if (!some) return;
    std::uint64_t ballot = 0;
    bool all = true;
    std::vector<std::size_t> freed;
    for (std::size_t lane = 0; lane < kWarp; ++lane) {
      const Thread* thread = lanes[lane];
      if (!thread) continue;
      if (thread->kind != some->kind || thread->line != some->line || thread->file != some->file) {
        return fail(place(*thread) + " and " + place(*some) + ": lanes of one warp at two operations");
      }
      ballot |= (thread->value & 1u) << lane;
      all = all && thread->value != 0;
      freed.push_back(first + lane);
    }
    for (std::size_t lane = 0; lane < kWarp; ++lane) {
      if (lanes[lane]) lanes[lane]->result = result_of(lanes, static_cast<int>(lane), ballot, all);
    }
    make_ready(freed);
  }

  static std::uint64_t result_of(const std::array<Thread*, kWarp>& lanes, int lane, std::uint64_t ballot, bool all) {
    const Thread& thread = *lanes[static_cast<std::size_t>(lane)];
    const int start = lane / thread.width * thread.width;
    int source = lane;
    switch (thread.kind) {
      case WarpKind::sync: return 0;
      case WarpKind::ballot: return ballot;
      case WarpKind::any: return ballot != 0;
      case WarpKind::all: return all;
      case WarpKind::shuffle: source = start + (thread.argument & (thread.width - 1)); break;
      case WarpKind::shuffle_up: source = lane - thread.argument < start ? lane : lane - thread.argument; break;
      case WarpKind::shuffle_down:
        source = lane + thread.argument >= start + thread.width ? lane : lane + thread.argument;
        break;
      case WarpKind::shuffle_xor: source = (lane ^ thread.argument) >= start + thread.width ? lane : lane ^ thread.argument; break;
    }
    const Thread* from = source >= 0 && source < kWarp ? lanes[static_cast<std::size_t>(source)] : nullptr;
    return from ? from->value : ~std::uint64_t{0};  // undefined on a GPU: NaN here
  }

  void release_barrier() {
    const Thread* some = nullptr;
    std::uint64_t count = 0;
    std::vector<std::size_t> freed;
    for (std::size_t i = 0; i < threads_.size(); ++i) {
      const Thread& thread = threads_[i];
      if (thread.state != State::at_barrier) continue;
      if (!some) some = &thread;
      if (thread.line != some->line || thread.file != some->file) {
        return fail(place(thread) + " and " + place(*some) + ": threads of one block at two barriers");
      }
      count += thread.value != 0;
      freed.push_back(i);
    }
    for (const std::size_t i : freed) {
      const auto kind = static_cast<BlockVote>(threads_[i].argument);
      threads_[i].result = kind == BlockVote::count         ? count
                           : kind == BlockVote::conjunction ? count == freed.size()
                                                            : count != 0;
    }
    waiting_ = 0;
    make_ready(freed);
  }

  void make_ready(std::vector<std::size_t>& threads) {
    permute(threads);
    for (const std::size_t i : threads) threads_[i].state = State::ready;
    // Backwards, whoever was let go runs on first: a warp gets as far ahead of the others as barriers allow. Shuffled, it
    // mixes with those that wait for their turn.
    ready_.insert(order_ == ThreadOrder::reverse ? ready_.begin() : ready_.end(), threads.begin(), threads.end());
    if (order_ == ThreadOrder::shuffled) std::shuffle(ready_.begin(), ready_.end(), random_);
  }

  static std::string place(const Thread& thread) { return std::string(thread.file) + ":" + std::to_string(thread.line); }

  std::string stuck() const {
    for (const Thread& thread : threads_) {
      if (thread.state == State::at_barrier) return place(thread) + ": a barrier that not all threads of the block reach";
    }
    for (const Thread& thread : threads_) {
      if (thread.state == State::at_warp) return place(thread) + ": a warp operation that not all lanes of its mask reach";
    }
    return "threads that wait for nothing";
  }

  void fail(const std::string& why) {
    if (!failure_.empty()) return;
    failure_ = why + " (block " + std::to_string(blockIdx.x) + ", " + std::to_string(blockIdx.y) + ", " +
               std::to_string(blockIdx.z) + ")";
  }

  const KernelBody* body_ = nullptr;
  ThreadOrder order_{};
  std::mt19937_64 random_;
  std::vector<Thread> threads_;
  std::deque<std::size_t> ready_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<int> idle_;  // fibers that hold no thread
  Fiber own_;              // the stack that called run
  std::size_t current_ = 0;
  std::size_t alive_ = 0, waiting_ = 0;
  int starting_ = -1;
  std::string failure_;
};

Block the_block;

void Block::entry() {
  arrived_on_fiber();
  the_block.run_fiber();
}

}  // namespace

void block_barrier(const char* file, int line) { the_block.barrier(file, line); }
int block_vote(BlockVote kind, bool value, const char* file, int line) { return the_block.vote(kind, value, file, line); }
std::uint64_t warp_operation(WarpKind kind, unsigned mask, std::uint64_t value, int argument, int width, const char* file,
                             int line) {
  return the_block.warp(kind, mask, value, argument, width, file, line);
}

std::string run_kernel(dim3 grid, dim3 block, const KernelBody& body, const KernelOrder& order) {
  return the_block.run(grid, block, body, order);
}

}  // namespace cuda_emulator
