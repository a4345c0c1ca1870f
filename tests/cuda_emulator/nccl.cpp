// NCCL between threads: communicators and calls. A communicator that does not block takes some calls in only when it is asked how
// they stand, as the real one hands them to a thread of its own.
#include <nccl.h>

#include <algorithm>
#include <cstring>

#include "machine.h"
#include "nccl_operations.h"

namespace cuda_emulator {

namespace {

using nccl::Call;
using nccl::Kind;
using nccl::size_of;

struct World {
  std::mutex mutex;
  std::map<std::uint64_t, std::shared_ptr<Clique>> cliques;  // by unique id, until all have joined
  std::uint64_t ids = 0;
};
World& world() {
  static World the_world;
  return the_world;
}

struct Grouped {
  ncclComm_t comm;
  Stream* stream;
  std::unique_ptr<Task> task;
};
struct Group {
  int depth = 0;
  std::vector<Grouped> tasks;
};
thread_local Group group;

ncclResult_t injected(const char* function) {
  return Machine::get().injected(function) == cudaSuccess ? ncclSuccess : ncclSystemError;
}

/// At once, or when the communicator is next asked how it stands.
ncclResult_t take_in(ncclComm_t comm, Stream* stream, std::unique_ptr<Task> task) {
  Machine& machine = Machine::get();
  {
    const std::unique_lock lock(machine.mutex);
    if (machine.random() % 2 == 0) {
      comm->stream = stream;
      comm->pending = std::move(task);
      return ncclInProgress;
    }
  }
  return machine.queue(stream, std::move(task)) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t enqueue(const char* function, const Call& call, ncclComm_t comm, cudaStream_t stream) {
  if (const ncclResult_t error = injected(function)) return error;
  if (!comm || comm->clique->aborted || !comm->connected() || comm->pending) return ncclInvalidUsage;
  const auto size = static_cast<std::size_t>(comm->clique->size);
  const std::size_t bytes = call.count * size_of(call.type);
  const std::size_t sent = call.kind == Kind::reduce_scatter ? bytes * size : bytes;
  const std::size_t received = call.kind == Kind::all_gather ? bytes * size : bytes;
  if (call.send && !on_device(call.send, sent)) return ncclInvalidArgument;
  if (call.receive && !on_device(call.receive, received)) return ncclInvalidArgument;
  if (call.root < 0 || call.root >= comm->clique->size) return ncclInvalidArgument;
  Stream* const where = Machine::get().stream_or_default(stream, comm->device);
  if (where->device != comm->device) return ncclInvalidArgument;
  std::unique_ptr<Task> task = nccl::operation(comm->clique, comm->rank, call);
  if (group.depth == 0) return take_in(comm, where, std::move(task));
  group.tasks.push_back({comm, where, std::move(task)});
  return ncclSuccess;
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

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  if (const ncclResult_t error = injected("ncclCommInitRankConfig")) return error;
  if (rank < 0 || rank >= ranks || config->blocking != 0) return ncclInvalidArgument;
  std::uint64_t number = 0;
  std::memcpy(&number, id.internal, sizeof number);
  const std::lock_guard lock(world().mutex);
  std::shared_ptr<Clique>& slot = world().cliques[number];
  if (!slot) slot = std::make_shared<Clique>(ranks);
  const std::shared_ptr<Clique> clique = slot;
  if (clique->size != ranks) return ncclInvalidArgument;
  if (++clique->joined == ranks) world().cliques.erase(number);
  *comm = new CliqueMember{clique, rank, current_device(), nullptr, nullptr};
  return ncclInProgress;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) { return comm->pending ? ncclInvalidUsage : ncclInProgress; }

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
  *error = ncclSuccess;
  if (injected("ncclCommGetAsyncError") != ncclSuccess || comm->clique->aborted) {
    *error = ncclRemoteError;
  } else if (!comm->connected()) {
    *error = ncclInProgress;
  } else if (comm->pending) {
    if (Machine::get().queue(comm->stream, std::move(comm->pending)) != cudaSuccess) *error = ncclUnhandledCudaError;
  }
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  ++group.depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (group.depth == 0) return ncclInvalidUsage;
  if (--group.depth > 0) return ncclSuccess;
  auto tasks = std::exchange(group.tasks, {});
  ncclResult_t result = ncclSuccess;
  while (!tasks.empty()) {
    const ncclComm_t comm = tasks.front().comm;
    Stream* const stream = tasks.front().stream;
    std::vector<std::unique_ptr<Task>> at_once;
    for (Grouped& each : tasks) {
      if (each.stream == stream) at_once.push_back(std::move(each.task));
    }
    std::erase_if(tasks, [&](const Grouped& each) { return each.stream == stream; });
    const ncclResult_t taken = take_in(comm, stream, nccl::together(std::move(at_once)));
    if (taken != ncclSuccess && taken != ncclInProgress) return taken;
    if (taken == ncclInProgress) result = taken;
  }
  return result;
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
