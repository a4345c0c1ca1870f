// Communicators between threads, and their operations as tasks of streams. Private to the emulated NCCL.
#pragma once

#include <nccl.h>

#include <atomic>
#include <cstddef>
#include <deque>
#include <memory>
#include <vector>

#include "machine.h"

namespace cuda_emulator::nccl {

enum class Kind { all_reduce, all_gather, reduce_scatter, broadcast, point_to_point };

struct Call {
  Kind kind{};
  const void* send = nullptr;  ///< null: receives only
  void* receive = nullptr;
  std::size_t count = 0;
  ncclDataType_t type{};
  ncclRedOp_t op{};
  int root = 0;  ///< or the peer
};

std::size_t size_of(ncclDataType_t type);

/// One operation, while its members come together.
struct Meeting {
  std::vector<Call> calls;
  std::vector<bool> here;
  std::size_t arrived = 0;
  bool done = false;
};

}  // namespace cuda_emulator::nccl

namespace cuda_emulator {

/// All members of one communicator.
class Clique {
 public:
  explicit Clique(int ranks) : next(static_cast<std::size_t>(ranks)), pairs(static_cast<std::size_t>(ranks * ranks)), size(ranks) {}

  /// Collectives by sequence; `first` is the sequence of the oldest one kept.
  std::deque<std::shared_ptr<nccl::Meeting>> meetings;
  std::size_t first = 0;
  std::vector<std::size_t> next;  ///< by member: the sequence of its next collective
  /// By source and destination: sends and receives that wait for the other.
  struct Pair {
    std::deque<std::shared_ptr<nccl::Meeting>> sends, receives;
  };
  std::vector<Pair> pairs;
  const int size;
  std::atomic<int> joined = 0;
  std::atomic<bool> aborted = false;
};

/// What ncclComm_t stands for.
class CliqueMember {
 public:
  std::shared_ptr<Clique> clique;
  int rank = 0;
  int device = 0;
  Stream* stream = nullptr;
  std::unique_ptr<Task> pending;  ///< a call that was begun, and is not yet on `stream`

  bool connected() const { return clique->joined == clique->size; }
};

}  // namespace cuda_emulator

namespace cuda_emulator::nccl {

std::unique_ptr<Task> operation(std::shared_ptr<Clique> clique, int rank, const Call& call);
/// Operations of one group call on one stream: at the same time.
std::unique_ptr<Task> together(std::vector<std::unique_ptr<Task>> tasks);

}  // namespace cuda_emulator::nccl
