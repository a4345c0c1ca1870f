// Communication between ranks that are threads of one process.
//
// A collective is a rendezvous of its group's members, keyed by (group, group_sequence). `arrive` posts a member's part
// and returns at once; the last member to arrive carries the operation out for all (in rank order, see collectives.h)
// and marks it done. Nobody blocks inside an op: a rank with nothing to run sleeps in `wait` until one of its
// collectives is done. A send and its receive are a rendezvous of the two members of a channel.
//
// When a rank fails, its peers stop with an Error (run) that names it. When every rank sleeps, that is a deadlock:
// all of them stop with an Error (run) that says who waits for what.
//
// Memory handed to `arrive` must stay valid until all ranks have left or failed.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "engine/comm/threads/collectives.h"
#include "engine/program/program.h"

namespace benchsuite {

class ThreadWorld final : public Communicator {
 public:
  explicit ThreadWorld(int ranks);

  int ranks() const override { return ranks_; }
  GroupId join(const Group& group) override;
  /// Also throws Error (run) when the members disagree on what they are doing, naming ranks and ops.
  Ticket arrive(int rank, GroupId group, std::uint32_t sequence, const CollectiveCall& call) override;
  std::uint64_t completions(int rank) override { return members_[static_cast<std::size_t>(rank)]->completions.load(); }
  /// `describe` is called only in a deadlock.
  void wait(int rank, std::uint64_t seen, std::function<std::string()> describe) override;
  std::string missing(const Rendezvous& rendezvous) const override;
  /// The instant the first rank began it, so that all timelines have one origin.
  Clock::time_point begin_step(int rank) override;
  std::vector<Bytes> exchange(int rank, Bytes part) override;

  /// On this thread.
  void run_as(int rank, const std::function<void()>& body) override;

  /// The rank that failed first, or -1. A deadlock fails the rank that noticed it.
  int failed_rank() const;

 private:
  struct Meeting final : Rendezvous {
    friend class ThreadWorld;
    std::vector<CollectiveCall> calls_;  // by member
    std::vector<bool> here_;             // by member
    GroupId group_ = 0;
    std::uint32_t sequence_ = 0;
    std::size_t arrived_ = 0;

    void reset() {
      done_.store(false, std::memory_order_relaxed);
      here_.assign(here_.size(), false);
      arrived_ = 0;
    }
  };
  /// The rendezvous of one (group, sequence) in this step and in the next, in turn: whoever arrives for the step after the next
  /// has seen all members in the next, so all have left this one. Kept, so that only the first step allocates.
  struct Slot {
    std::array<std::shared_ptr<Meeting>, 2> meetings;
    std::size_t turn = 0;
  };
  /// One exchange of host bytes.
  struct Round {
    std::vector<Bytes> parts;  // by rank
    int arrived = 0, left = 0;
  };
  struct Member {
    std::atomic<std::uint64_t> completions = 0;
    std::condition_variable wake;
    std::function<std::string()> waits_for;  // set while asleep
    std::size_t steps = 0, rounds = 0;
    bool asleep = false;
    bool left = false;
  };

  void fail(int rank, const std::string& message);
  void leave(int rank);
  void throw_if_failed(int rank) const;
  void check_agreement(const Meeting& meeting, std::size_t member, const CollectiveCall& call) const;
  bool all_stuck() const;
  void declare_deadlock(int noticed_by);

  const int ranks_;
  mutable std::mutex mutex_;  // guards everything below but the atomics
  std::vector<std::unique_ptr<Member>> members_;
  std::deque<Group> groups_;  // grows without moving what is there
  std::map<std::pair<GroupId, std::uint32_t>, Slot> slots_;
  std::map<std::size_t, Round> rounds_;
  std::vector<Clock::time_point> step_starts_;  // of steps first_step_ and later; those all have begun are forgotten
  std::size_t first_step_ = 0;
  int failed_rank_ = -1;
  bool deadlocked_ = false;
  std::string failure_;
};

}  // namespace benchsuite
