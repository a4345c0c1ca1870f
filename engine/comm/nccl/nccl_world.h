// NCCL between the ranks of one process, a thread and a GPU each: one communicator for every group of the Programs.
//
// Communicators do not block the host: a call that is still in progress is polled, so that `abort` reaches a rank wherever it
// waits for its peers, also while it connects (NCCL user guide, "Fault tolerance").
//
// Reductions add in an order that NCCL chooses, so results agree with those of device cpu within rounding, not bit for bit; the
// gradient norm, whose digits add exactly, does.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "engine/comm/communicator.h"
#include "engine/program/program.h"

namespace benchsuite {

class NcclWorld {
 public:
  explicit NcclWorld(int ranks);
  ~NcclWorld();
  NcclWorld(const NcclWorld&) = delete;
  NcclWorld& operator=(const NcclWorld&) = delete;

  /// Bytes of scratch that `connect` needs for these groups.
  static std::size_t scratch_bytes(const std::vector<Group>& groups);

  /// Joins the communicators of all groups (of Program::groups) that `rank` belongs to, with the rank's GPU current. All ranks
  /// call it, each on its own thread. A few bytes go through every communicator, so that no later call waits for a peer to connect:
  /// calls of several groups may then come in any order. Waits for `stream`. Throws Error (run) once the world is aborted.
  void connect(int rank, const std::vector<Group>& groups, std::span<std::byte> scratch, cudaStream_t stream);

  /// Launches `rank`'s part of a collective of its group number `group`; waits for nothing. `call` holds device addresses. Throws
  /// Error (run) once the world is aborted.
  void launch(int rank, std::uint32_t group, const CollectiveCall& call, cudaStream_t stream);

  /// Throws Error (run) when one of the rank's communicators has failed, or the world is aborted.
  void check(int rank);

  /// From any thread: ends all communicators, so that nobody waits for a rank that is gone. `why` ("rank 3 failed") is what the
  /// others then say; the first call's counts.
  void abort(const std::string& why);

 private:
  struct Channel {
    ncclComm_t comm = nullptr;
    int members = 0, place = 0;  ///< place of the rank among the members
  };
  struct Member {
    std::mutex mutex;  // against `abort`
    std::vector<Channel> channels;  // by group of the Program
    std::string aborted;            // why; empty: it is not
  };

  ncclUniqueId id_of(const Group& group);
  /// One NCCL call, or a group of them, on the rank's channel of a group; returns when NCCL has taken it in.
  template <class Call>
  void call(int rank, std::size_t group, Call call);
  static void throw_if_aborted(const Member& member, int rank);
  static void start(const Channel& channel, const CollectiveCall& call, cudaStream_t stream);

  std::mutex mutex_;
  std::vector<std::pair<Group, ncclUniqueId>> ids_;
  std::vector<std::unique_ptr<Member>> members_;
};

}  // namespace benchsuite
