// Communication between ranks that are processes, over MPI point-to-point messages only.
//
// Reductions are ours, not MPI's: member j receives slice j of every member's input, adds the slices in rank order and, for
// an all_reduce, sends the sum to all. So threads and processes give the same bits (comm/threads/collectives.h does the
// arithmetic of both). Every collective is a set of non-blocking messages that `completions` and `wait` move on; a waiting
// rank sleeps, it does not spin, so that more ranks than cores are fine.
//
// Messages are told apart by (kind of group, sequence): two groups of one kind never share two ranks, apart from channels
// that run in opposite directions.
//
// A rank that throws inside run_as tells the others why. A rank that dies is noticed by its missing process (on the same
// host; mpirun ends the job when one dies elsewhere). Either way the survivors throw Error (run) that names it.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "engine/comm/communicator.h"

namespace benchsuite {

class MpiWorld final : public Communicator {
 public:
  /// Whether this process was started by mpirun.
  static bool launched();

  /// Initialises MPI. One per process, used by one thread. Throws Error (run) when MPI can't start.
  MpiWorld();
  /// Ends MPI in good order when run_as came to its end on all ranks; after a failure the process must exit soon.
  ~MpiWorld() override;

  int rank() const;
  int ranks() const override;
  GroupId join(const Group& group) override;
  Ticket arrive(int rank, GroupId group, std::uint32_t sequence, const CollectiveCall& call) override;
  std::uint64_t completions(int rank) override;
  void wait(int rank, std::uint64_t seen, std::function<std::string()> describe) override;
  std::string missing(const Rendezvous& rendezvous) const override;
  Clock::time_point begin_step(int rank) override;
  std::vector<Bytes> exchange(int rank, Bytes part) override;

  /// Tells all other ranks what was thrown, once.
  void run_as(int rank, const std::function<void()>& body) override;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace benchsuite
