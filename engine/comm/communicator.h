// Communication between the ranks of one world, as a rank sees it: ranks may be threads (comm/threads) or processes (comm/mpi).
//
// A collective is a state machine: `arrive` posts a member's part of (group, sequence) and returns at once with a ticket;
// the ticket is done when the operation is. Nothing blocks inside an op: a rank with nothing to run sleeps in `wait` until
// one of its tickets may be done. Reductions add in rank order, so that every implementation gives the same bits.
//
// When a rank fails, its peers stop with an Error (run) that names it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/program/program.h"

namespace benchsuite {

/// What one member brings to a collective. `elements` is the op table's n: of y for all_gather, of x otherwise.
struct CollectiveCall {
  OpKind kind{};
  DType dtype{};
  Reduction reduction = Reduction::none;
  std::int64_t elements = 0;
  const std::byte* input = nullptr;  ///< x; for all_reduce also the output; null for receive
  std::byte* output = nullptr;       ///< y; null for send
  OpId op = 0;                       ///< for messages
  std::int64_t distance = 0;         ///< shift only
};

class Communicator {
 public:
  using Clock = std::chrono::steady_clock;
  using GroupId = std::uint32_t;
  using Bytes = std::vector<std::byte>;

  /// One collective in the making. Its members hold it until they have seen `done`.
  class Rendezvous {
   public:
    virtual ~Rendezvous() = default;
    bool done() const { return done_.load(std::memory_order_acquire); }
    /// When the last member arrived (of processes: when this one did), and when the operation ended. Only once done.
    Clock::time_point started() const { return started_; }
    Clock::time_point ended() const { return ended_; }

   protected:
    Clock::time_point started_, ended_;
    std::atomic<bool> done_ = false;
  };
  using Ticket = std::shared_ptr<Rendezvous>;

  Communicator() = default;
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  virtual int ranks() const = 0;

  /// The id under which equal groups meet. Throws when a rank lies outside the world or stands in it twice.
  virtual GroupId join(const Group& group) = 0;

  /// Posts `rank`'s part of collective `sequence` of `group`. Memory in `call` must stay valid until all ranks have left
  /// or failed. Throws Error (run) when the members are seen to disagree, and when a peer has failed.
  virtual Ticket arrive(int rank, GroupId group, std::uint32_t sequence, const CollectiveCall& call) = 0;

  /// Moves what is under way and counts the collectives of `rank` that are done. Read before polling tickets, and handed to
  /// `wait`. Throws Error (run) when a peer has failed, if that shows here.
  virtual std::uint64_t completions(int rank) = 0;

  /// Sleeps until completions(rank) differs from `seen`. `describe` says what the rank waits for, for messages; it may be
  /// called from another thread while this one sleeps, and may call `missing`, but nothing else here. Throws Error (run)
  /// when the ranks are seen to be stuck and when a peer has failed.
  virtual void wait(int rank, std::uint64_t seen, std::function<std::string()> describe) = 0;

  /// "all_reduce 3 of tensor group {0, 1}, where rank 1 has not arrived". Only from inside a `describe`.
  virtual std::string missing(const Rendezvous& rendezvous) const = 0;

  /// The start of `rank`'s next step, origin of its timeline.
  virtual Clock::time_point begin_step(int rank) = 0;

  /// For the host, between steps: every rank brings bytes and gets those of all, by rank. Ranks must call it equally often;
  /// it sleeps until all have. Throws Error (run) like `wait`.
  virtual std::vector<Bytes> exchange(int rank, Bytes part) = 0;

  /// Runs `body` as rank `rank`: a throw fails the world for all and is passed on. What `body` uses in `arrive` must outlive
  /// this call, not only the body. May be nested.
  virtual void run_as(int rank, const std::function<void()>& body) = 0;
};

}  // namespace benchsuite
