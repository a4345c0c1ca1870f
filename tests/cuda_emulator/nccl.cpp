// NCCL between threads: an operation of a communicator occupies its stream from the moment it is reached until all members
// have reached theirs; the last one moves the data. Operations of one communicator meet in the order in which the streams reach
// them, as NCCL requires; members that disagree on what they do are a failure here, and a hang or garbage there.
#include <cuda_bf16.h>
#include <nccl.h>

#include <algorithm>
#include <cstring>

#include "machine.h"
#include "tasks.h"

namespace cuda_emulator {

namespace {

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

std::size_t size_of(ncclDataType_t type) { return type == ncclBfloat16 ? 2 : type <= ncclUint8 ? 1 : 4; }

struct Meeting {
  std::vector<Call> calls;
  std::vector<bool> here;
  std::size_t arrived = 0;
  bool done = false;
};

}  // namespace

/// All members of one communicator.
class Clique {
 public:
  explicit Clique(int ranks) : next(static_cast<std::size_t>(ranks)), pairs(static_cast<std::size_t>(ranks * ranks)), size(ranks) {}

  /// Collectives by sequence; `first` is the sequence of the oldest one kept.
  std::deque<std::shared_ptr<Meeting>> meetings;
  std::size_t first = 0;
  std::vector<std::size_t> next;  ///< by member: the sequence of its next collective
  /// By source and destination: sends and receives that wait for the other.
  struct Pair {
    std::deque<std::shared_ptr<Meeting>> sends, receives;
  };
  std::vector<Pair> pairs;
  const int size;
  int joined = 0;
  std::atomic<bool> aborted = false;
};

class CliqueMember {
 public:
  std::shared_ptr<Clique> clique;
  int rank = 0;
  int device = 0;
};

namespace {

float load(const void* data, ncclDataType_t type, std::size_t i) {
  return type == ncclBfloat16 ? __bfloat162float(static_cast<const __nv_bfloat16*>(data)[i]) : static_cast<const float*>(data)[i];
}
void store(void* data, ncclDataType_t type, std::size_t i, float value) {
  if (type == ncclBfloat16) {
    static_cast<__nv_bfloat16*>(data)[i] = __float2bfloat16_rn(value);
  } else {
    static_cast<float*>(data)[i] = value;
  }
}

float reduced(const Meeting& meeting, std::size_t i) {
  const Call& first = meeting.calls[0];
  float value = load(first.send, first.type, i);
  for (std::size_t member = 1; member < meeting.calls.size(); ++member) {
    const float other = load(meeting.calls[member].send, first.type, i);
    value = first.op == ncclSum ? value + other : other > value || other != other ? other : value;
  }
  return value;
}

void carry_out(const Meeting& meeting) {
  const Call& first = meeting.calls[0];
  const std::size_t members = meeting.calls.size(), bytes = first.count * size_of(first.type);
  switch (first.kind) {
    case Kind::all_reduce:
      for (std::size_t i = 0; i < first.count; ++i) {
        const float value = reduced(meeting, i);
        for (const Call& call : meeting.calls) store(call.receive, first.type, i, value);
      }
      return;
    case Kind::reduce_scatter:
      // A result may lie in the place of its own slice, which no other member's slice needs.
      for (std::size_t member = 0; member < members; ++member) {
        for (std::size_t i = 0; i < first.count; ++i) {
          store(meeting.calls[member].receive, first.type, i, reduced(meeting, member * first.count + i));
        }
      }
      return;
    case Kind::all_gather:
      for (const Call& to : meeting.calls) {
        for (std::size_t from = 0; from < members; ++from) {
          std::memmove(static_cast<char*>(to.receive) + from * bytes, meeting.calls[from].send, bytes);
        }
      }
      return;
    case Kind::broadcast:
      for (const Call& to : meeting.calls) std::memmove(to.receive, meeting.calls[static_cast<std::size_t>(first.root)].send, bytes);
      return;
    case Kind::point_to_point: std::memmove(meeting.calls[1].receive, meeting.calls[0].send, bytes); return;
  }
}

class Collective final : public Task {
 public:
  Collective(std::shared_ptr<Clique> clique, int rank, Call call) : clique_(std::move(clique)), rank_(rank), call_(call) {}

  bool ready() const override { return !meeting_ || meeting_->done || clique_->aborted; }

  bool run() override {
    if (clique_->aborted) return true;
    if (meeting_) return meeting_->done;
    meeting_ = call_.kind == Kind::point_to_point ? meet_peer() : meet_all();
    if (!meeting_) return true;  // a disagreement; the machine has failed
    if (meeting_->arrived < meeting_->calls.size()) return false;
    carry_out(*meeting_);
    meeting_->done = true;
    return true;
  }

  std::unique_ptr<Task> clone() const override {
    auto copy = std::make_unique<Collective>(clique_, rank_, call_);
    copy->label = label;
    return copy;
  }

 private:
  std::shared_ptr<Meeting> meet_all() {
    Clique& clique = *clique_;
    const std::size_t sequence = clique.next[static_cast<std::size_t>(rank_)]++;
    while (clique.first + clique.meetings.size() <= sequence) {
      auto fresh = std::make_shared<Meeting>();
      fresh->calls.resize(static_cast<std::size_t>(clique.size));
      fresh->here.resize(static_cast<std::size_t>(clique.size));
      clique.meetings.push_back(std::move(fresh));
    }
    const std::shared_ptr<Meeting> meeting = clique.meetings[sequence - clique.first];
    for (std::size_t other = 0; other < meeting->calls.size(); ++other) {
      if (!meeting->here[other]) continue;
      const Call& theirs = meeting->calls[other];
      if (theirs.kind != call_.kind || theirs.count != call_.count || theirs.type != call_.type || theirs.op != call_.op ||
          theirs.root != call_.root) {
        Machine::get().fail(cudaErrorUnknown, "members of a communicator disagree on operation " + std::to_string(sequence) +
                                                  " (range '" + label.range + "')");
        return nullptr;
      }
    }
    meeting->calls[static_cast<std::size_t>(rank_)] = call_;
    meeting->here[static_cast<std::size_t>(rank_)] = true;
    ++meeting->arrived;
    while (!clique.meetings.empty() && clique.meetings.front()->arrived == static_cast<std::size_t>(clique.size)) {
      clique.meetings.pop_front();
      ++clique.first;
    }
    return meeting;
  }

  std::shared_ptr<Meeting> meet_peer() {
    Clique& clique = *clique_;
    const bool sends = call_.send != nullptr;
    const int source = sends ? rank_ : call_.root, destination = sends ? call_.root : rank_;
    Clique::Pair& pair = clique.pairs[static_cast<std::size_t>(source * clique.size + destination)];
    auto& theirs = sends ? pair.receives : pair.sends;
    std::shared_ptr<Meeting> meeting;
    if (theirs.empty()) {
      meeting = std::make_shared<Meeting>();
      meeting->calls.resize(2);
      (sends ? pair.sends : pair.receives).push_back(meeting);
    } else {
      meeting = theirs.front();
      theirs.pop_front();
      const Call& other = meeting->calls[sends ? 1 : 0];
      if (other.count != call_.count || other.type != call_.type) {
        Machine::get().fail(cudaErrorUnknown, "a send and its receive disagree (range '" + label.range + "')");
        return nullptr;
      }
    }
    meeting->calls[sends ? 0 : 1] = call_;
    ++meeting->arrived;
    return meeting;
  }

  std::shared_ptr<Clique> clique_;
  int rank_;
  Call call_;
  std::shared_ptr<Meeting> meeting_;
};

/// Operations of one group call on one stream: at the same time.
class Together final : public Task {
 public:
  explicit Together(std::vector<std::unique_ptr<Task>> tasks) : tasks_(std::move(tasks)), done_(tasks_.size()) {}
  bool ready() const override {
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      if (!done_[i] && tasks_[i]->ready()) return true;
    }
    return false;
  }
  bool run() override {
    bool all = true;
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      if (!done_[i] && tasks_[i]->ready()) done_[i] = tasks_[i]->run();
      all = all && done_[i];
    }
    return all;
  }
  std::unique_ptr<Task> clone() const override {
    std::vector<std::unique_ptr<Task>> copies;
    for (const auto& task : tasks_) copies.push_back(task->clone());
    auto copy = std::make_unique<Together>(std::move(copies));
    copy->label = label;
    return copy;
  }

 private:
  std::vector<std::unique_ptr<Task>> tasks_;
  std::vector<bool> done_;
};

struct World {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::uint64_t, std::shared_ptr<Clique>> cliques;  // by unique id, until all have joined
  std::uint64_t ids = 0;
};
World& world() {
  static World the_world;
  return the_world;
}

struct Group {
  int depth = 0;
  std::vector<std::pair<Stream*, std::unique_ptr<Task>>> tasks;
};
thread_local Group group;

ncclResult_t injected(const char* function) {
  return Machine::get().injected(function) == cudaSuccess ? ncclSuccess : ncclSystemError;
}

ncclResult_t enqueue(const char* function, const Call& call, ncclComm_t comm, cudaStream_t stream) {
  if (const ncclResult_t error = injected(function)) return error;
  if (!comm || comm->clique->aborted) return ncclInvalidUsage;
  const auto size = static_cast<std::size_t>(comm->clique->size);
  const std::size_t bytes = call.count * size_of(call.type);
  const std::size_t sent = call.kind == Kind::reduce_scatter ? bytes * size : bytes;
  const std::size_t received = call.kind == Kind::all_gather ? bytes * size : bytes;
  if ((call.send && !on_device(call.send, sent)) || (call.receive && !on_device(call.receive, received))) return ncclInvalidArgument;
  if (call.root < 0 || call.root >= comm->clique->size) return ncclInvalidArgument;
  Machine& machine = Machine::get();
  Stream* const where = machine.stream_or_default(stream, comm->device);
  if (where->device != comm->device) return ncclInvalidArgument;
  auto task = std::make_unique<Collective>(comm->clique, comm->rank, call);
  if (group.depth > 0) {
    group.tasks.emplace_back(where, std::move(task));
    return ncclSuccess;
  }
  return machine.queue(where, std::move(task)) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

}  // namespace

}  // namespace cuda_emulator

using namespace cuda_emulator;

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess: return "no error";
    case ncclUnhandledCudaError: return "unhandled cuda error";
    case ncclSystemError: return "unhandled system error";
    case ncclInternalError: return "internal error";
    case ncclInvalidArgument: return "invalid argument";
    case ncclInvalidUsage: return "invalid usage";
    case ncclRemoteError: return "remote process exited or there was a network error";
    case ncclInProgress: return "NCCL operation in progress";
  }
  return "unknown result code";
}

const char* ncclGetLastError(ncclComm_t) { return ""; }

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  if (const ncclResult_t error = injected("ncclGetUniqueId")) return error;
  const std::lock_guard lock(world().mutex);
  const std::uint64_t number = ++world().ids;
  std::memset(id, 0, sizeof *id);
  std::memcpy(id->internal, &number, sizeof number);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  if (const ncclResult_t error = injected("ncclCommInitRank")) return error;
  if (rank < 0 || rank >= ranks) return ncclInvalidArgument;
  std::uint64_t number = 0;
  std::memcpy(&number, id.internal, sizeof number);
  std::unique_lock lock(world().mutex);
  std::shared_ptr<Clique>& slot = world().cliques[number];
  if (!slot) slot = std::make_shared<Clique>(ranks);
  const std::shared_ptr<Clique> clique = slot;
  if (clique->size != ranks) return ncclInvalidArgument;
  ++clique->joined;
  world().changed.notify_all();
  const auto patience = std::chrono::duration<double>(Machine::get().settings.patience_s);
  if (!world().changed.wait_for(lock, patience, [&] { return clique->joined == ranks; })) return ncclRemoteError;
  world().cliques.erase(number);
  *comm = new CliqueMember{clique, rank, current_device()};
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  comm->clique->aborted = true;
  Machine::get().nudge();
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  *error = injected("ncclCommGetAsyncError") != ncclSuccess || comm->clique->aborted ? ncclRemoteError : ncclSuccess;
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  ++group.depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (group.depth == 0) return ncclInvalidUsage;
  if (--group.depth > 0) return ncclSuccess;
  auto tasks = std::move(group.tasks);
  group.tasks.clear();
  while (!tasks.empty()) {
    Stream* const stream = tasks.front().first;
    std::vector<std::unique_ptr<Task>> together;
    for (auto& [where, task] : tasks) {
      if (where == stream) together.push_back(std::move(task));
    }
    std::erase_if(tasks, [&](const auto& each) { return each.first == stream; });
    if (Machine::get().queue(stream, std::make_unique<Together>(std::move(together))) != cudaSuccess) return ncclUnhandledCudaError;
  }
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* send, void* receive, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  return enqueue("ncclAllReduce", {Kind::all_reduce, send, receive, count, type, op, 0}, comm, stream);
}
ncclResult_t ncclAllGather(const void* send, void* receive, std::size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  return enqueue("ncclAllGather", {Kind::all_gather, send, receive, count, type, ncclSum, 0}, comm, stream);
}
ncclResult_t ncclReduceScatter(const void* send, void* receive, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream) {
  return enqueue("ncclReduceScatter", {Kind::reduce_scatter, send, receive, count, type, op, 0}, comm, stream);
}
ncclResult_t ncclBroadcast(const void* send, void* receive, std::size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  return enqueue("ncclBroadcast", {Kind::broadcast, send, receive, count, type, ncclSum, root}, comm, stream);
}
ncclResult_t ncclSend(const void* send, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return enqueue("ncclSend", {Kind::point_to_point, send, nullptr, count, type, ncclSum, peer}, comm, stream);
}
ncclResult_t ncclRecv(void* receive, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
  return enqueue("ncclRecv", {Kind::point_to_point, nullptr, receive, count, type, ncclSum, peer}, comm, stream);
}
