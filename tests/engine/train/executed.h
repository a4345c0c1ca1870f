// What really ran: every rank of a configuration for a few steps on device cpu, with the spans of its ops and every call to the
// communicator noted as it was made.
#pragma once

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "engine/comm/threads/thread_world.h"
#include "engine/device/cpu/run_ranks.h"
#include "engine/train/cpu_host.h"
#include "engine/train/cpu_training.h"

namespace benchsuite::testing_train {

/// A communicator that notes what is posted and passes everything on.
class NotingWorld final : public Communicator {
 public:
  struct Note {
    Group group;
    std::uint32_t sequence = 0;
    CollectiveCall call;
  };

  explicit NotingWorld(ThreadWorld& world) : notes(static_cast<std::size_t>(world.ranks())), world_(world), groups_(notes.size()) {}

  int ranks() const override { return world_.ranks(); }
  GroupId join(const Group& group) override { return world_.join(group); }
  Ticket arrive(int rank, GroupId group, std::uint32_t sequence, const CollectiveCall& call) override {
    const auto at = static_cast<std::size_t>(rank);
    notes[at].push_back({groups_[at].at(group), sequence, call});
    return world_.arrive(rank, group, sequence, call);
  }
  std::uint64_t completions(int rank) override { return world_.completions(rank); }
  void wait(int rank, std::uint64_t seen, std::function<std::string()> describe) override {
    world_.wait(rank, seen, std::move(describe));
  }
  std::string missing(const Rendezvous& rendezvous) const override { return world_.missing(rendezvous); }
  Clock::time_point begin_step(int rank) override { return world_.begin_step(rank); }
  std::vector<Bytes> exchange(int rank, Bytes part) override { return world_.exchange(rank, std::move(part)); }

  void run_as(int rank, const std::function<void()>& body) override { world_.run_as(rank, body); }

  /// Tells which group an id of this rank means.
  void name_group(int rank, GroupId id, const Group& group) { groups_[static_cast<std::size_t>(rank)][id] = group; }

  std::vector<std::vector<Note>> notes;  // by rank; each rank writes its own

 private:
  ThreadWorld& world_;
  std::vector<std::map<GroupId, Group>> groups_;  // by rank
};

struct Executed {
  std::vector<RecordedStep> recorded;              // by rank
  std::vector<Timeline> timelines;                 // of the last step
  std::vector<std::vector<NotingWorld::Note>> notes;  // of the last step
  std::vector<float> loss;                         // of the last step, by rank
};

/// Trains `steps` steps of a valid configuration on threads.
Executed execute(const TrainConfig& config, int steps, Poison poison);

}  // namespace benchsuite::testing_train
