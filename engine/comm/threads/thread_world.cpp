#include "engine/comm/threads/thread_world.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "engine/core/error.h"

namespace benchsuite {
namespace {

std::string in_words(const Group& group) {
  return fmt::format("{} group {{{}}}", name_of(group.kind), fmt::join(group.ranks, ", "));
}

std::string in_words(int rank, const CollectiveCall& call) {
  const std::string_view reduction = call.reduction == Reduction::sum ? " (sum)"
                                     : call.reduction == Reduction::max ? " (max)"
                                                                        : "";
  return fmt::format("rank {} posts {}{} of {} {} (op {})", rank, name_of(call.kind), reduction, call.elements,
                     name_of(call.dtype), call.op);
}

}  // namespace

ThreadWorld::ThreadWorld(int ranks) : ranks_(ranks) {
  CHECK(ranks > 0) << ranks << " ranks";
  for (int rank = 0; rank < ranks; ++rank) members_.push_back(std::make_unique<Member>());
}

ThreadWorld::GroupId ThreadWorld::join(const Group& group) {
  CHECK(!group.ranks.empty()) << "an empty " << name_of(group.kind) << " group";
  for (std::size_t i = 0; i < group.ranks.size(); ++i) {
    CHECK(group.ranks[i] >= 0 && group.ranks[i] < ranks_) << in_words(group) << " in a world of " << ranks_ << " ranks";
    CHECK(std::count(group.ranks.begin(), group.ranks.end(), group.ranks[i]) == 1)
        << in_words(group) << " holds a rank twice";
  }
  const std::lock_guard lock(mutex_);
  const auto found = std::find(groups_.begin(), groups_.end(), group);
  const auto id = static_cast<GroupId>(found - groups_.begin());
  if (found == groups_.end()) groups_.push_back(group);
  return id;
}

ThreadWorld::Ticket ThreadWorld::arrive(int rank, GroupId group, std::uint32_t sequence, const CollectiveCall& call) {
  std::unique_lock lock(mutex_);
  throw_if_failed(rank);
  const std::vector<int>& ranks = groups_[group].ranks;
  const auto place = std::find(ranks.begin(), ranks.end(), rank);
  CHECK(place != ranks.end()) << "rank " << rank << " is not in " << in_words(groups_[group]);
  const auto member = static_cast<std::size_t>(place - ranks.begin());

  Slot& slot = slots_[{group, sequence}];
  for (std::shared_ptr<Meeting>& meeting : slot.meetings) {
    if (meeting) continue;
    meeting = std::make_shared<Meeting>();
    meeting->calls_.resize(ranks.size());
    meeting->here_.resize(ranks.size());
    meeting->group_ = group;
    meeting->sequence_ = sequence;
  }
  const std::shared_ptr<Meeting> ticket = slot.meetings[slot.turn];
  if (ticket->done()) ticket->reset();
  check_agreement(*ticket, member, call);
  ticket->calls_[member] = call;
  ticket->here_[member] = true;
  if (++ticket->arrived_ < ranks.size()) return ticket;

  // All are here. The next step's collective of the same sequence is another rendezvous.
  slot.turn = 1 - slot.turn;
  ticket->started_ = Clock::now();
  lock.unlock();
  run_collective(ticket->calls_);
  lock.lock();
  ticket->ended_ = Clock::now();
  ticket->done_.store(true, std::memory_order_release);
  for (const int other : ranks) {
    Member& peer = *members_[static_cast<std::size_t>(other)];
    ++peer.completions;
    peer.asleep = false;
    if (other != rank) peer.wake.notify_one();
  }
  return ticket;
}

void ThreadWorld::check_agreement(const Meeting& meeting, std::size_t member, const CollectiveCall& call) const {
  const Group& group = groups_[meeting.group_];
  const auto refuse = [&](const std::string& why) {
    throw Error(Error::Kind::run,
                fmt::format("collective {} of {}: {}", meeting.sequence_, in_words(group), why));
  };
  const int rank = group.ranks[member];
  if (meeting.here_[member]) refuse(fmt::format("rank {} arrives twice (op {})", rank, call.op));
  if (is_point_to_point(call.kind)) {
    if (group.ranks.size() != 2) refuse(in_words(rank, call) + ", but a channel has two members");
    if ((call.kind == OpKind::send) != (member == 0)) {
      refuse(in_words(rank, call) + ", but a channel is {source, destination}");
    }
  }
  for (std::size_t other = 0; other < group.ranks.size(); ++other) {
    if (!meeting.here_[other]) continue;
    const CollectiveCall& theirs = meeting.calls_[other];
    const bool same_kind = is_point_to_point(call.kind) ? is_point_to_point(theirs.kind) : theirs.kind == call.kind;
    if (!same_kind || theirs.elements != call.elements || theirs.dtype != call.dtype ||
        theirs.reduction != call.reduction || theirs.distance != call.distance) {
      refuse(in_words(group.ranks[other], theirs) + ", but " + in_words(rank, call));
    }
  }
}

void ThreadWorld::wait(int rank, std::uint64_t seen, std::function<std::string()> describe) {
  std::unique_lock lock(mutex_);
  Member& self = *members_[static_cast<std::size_t>(rank)];
  while (true) {
    throw_if_failed(rank);
    if (self.completions.load() != seen) break;
    self.asleep = true;
    if (!self.waits_for) self.waits_for = std::move(describe);
    if (all_stuck()) {
      declare_deadlock(rank);
      continue;
    }
    self.wake.wait(lock);
  }
  self.asleep = false;
  self.waits_for = nullptr;
}

std::vector<Communicator::Bytes> ThreadWorld::exchange(int rank, Bytes part) {
  std::unique_lock lock(mutex_);
  Member& self = *members_[static_cast<std::size_t>(rank)];
  const std::size_t index = self.rounds++;
  Round& round = rounds_[index];  // stays in place until the last rank has left it
  round.parts.resize(static_cast<std::size_t>(ranks_));
  round.parts[static_cast<std::size_t>(rank)] = std::move(part);
  if (++round.arrived == ranks_) {
    for (const auto& member : members_) {
      member->asleep = false;
      member->wake.notify_one();
    }
  }
  while (true) {
    throw_if_failed(rank);
    if (round.arrived == ranks_) break;
    self.asleep = true;
    if (!self.waits_for) self.waits_for = [] { return std::string("waits for the others between steps"); };
    if (all_stuck()) {
      declare_deadlock(rank);
      continue;
    }
    self.wake.wait(lock);
  }
  self.asleep = false;
  self.waits_for = nullptr;
  std::vector<Bytes> parts = round.parts;
  if (++round.left == ranks_) rounds_.erase(index);
  return parts;
}

std::string ThreadWorld::missing(const Rendezvous& rendezvous) const {
  const auto& meeting = static_cast<const Meeting&>(rendezvous);
  const Group& group = groups_[meeting.group_];
  std::vector<int> absent;
  std::size_t present = 0;
  for (std::size_t member = 0; member < group.ranks.size(); ++member) {
    if (meeting.here_[member]) {
      present = member;
    } else {
      absent.push_back(group.ranks[member]);
    }
  }
  const std::string_view kind = name_of(meeting.calls_[present].kind);
  return fmt::format("{} {} of {}, where rank{} {} {} not arrived", kind, meeting.sequence_, in_words(group),
                     absent.size() == 1 ? "" : "s", fmt::join(absent, ", "), absent.size() == 1 ? "has" : "have");
}

bool ThreadWorld::all_stuck() const {
  bool any_asleep = false;
  for (const auto& member : members_) {
    if (!member->asleep && !member->left) return false;
    any_asleep = any_asleep || member->asleep;
  }
  return any_asleep;
}

void ThreadWorld::declare_deadlock(int noticed_by) {
  std::string message = "deadlock: no rank can go on.";
  for (int rank = 0; rank < ranks_; ++rank) {
    const Member& member = *members_[static_cast<std::size_t>(rank)];
    message += fmt::format("\n  rank {} {}", rank, member.left ? "has finished" : member.waits_for());
  }
  failed_rank_ = noticed_by;
  deadlocked_ = true;
  failure_ = message;
  for (const auto& member : members_) member->wake.notify_all();
}

void ThreadWorld::throw_if_failed(int rank) const {
  if (failed_rank_ < 0) return;
  if (deadlocked_) throw Error(Error::Kind::run, failure_);
  throw Error(Error::Kind::run, fmt::format("rank {} stops because rank {} failed: {}", rank, failed_rank_, failure_));
}

void ThreadWorld::fail(int rank, const std::string& message) {
  const std::lock_guard lock(mutex_);
  if (failed_rank_ >= 0) return;
  failed_rank_ = rank;
  failure_ = message;
  for (const auto& member : members_) member->wake.notify_all();
}

void ThreadWorld::leave(int rank) {
  const std::lock_guard lock(mutex_);
  members_[static_cast<std::size_t>(rank)]->left = true;
  if (failed_rank_ >= 0 || !all_stuck()) return;
  // A deadlock fails a rank that sleeps, never the one that has finished.
  for (int other = 0; other < ranks_; ++other) {
    if (members_[static_cast<std::size_t>(other)]->asleep) return declare_deadlock(other);
  }
}

int ThreadWorld::failed_rank() const {
  const std::lock_guard lock(mutex_);
  return failed_rank_;
}

ThreadWorld::Clock::time_point ThreadWorld::begin_step(int rank) {
  const std::lock_guard lock(mutex_);
  const std::size_t step = members_[static_cast<std::size_t>(rank)]->steps++;
  if (step == first_step_ + step_starts_.size()) step_starts_.push_back(Clock::now());
  const Clock::time_point start = step_starts_[step - first_step_];
  std::size_t begun_by_all = step + 1;
  for (const auto& member : members_) begun_by_all = std::min(begun_by_all, member->steps);
  if (begun_by_all > first_step_) {
    step_starts_.erase(step_starts_.begin(), step_starts_.begin() + static_cast<std::ptrdiff_t>(begun_by_all - first_step_));
    first_step_ = begun_by_all;
  }
  return start;
}

void ThreadWorld::run_as(int rank, const std::function<void()>& body) {
  {
    const std::lock_guard lock(mutex_);
    members_[static_cast<std::size_t>(rank)]->left = false;
  }
  try {
    body();
  } catch (const std::exception& error) {
    fail(rank, error.what());
    throw;
  } catch (...) {
    fail(rank, "an exception of unknown type");
    throw;
  }
  leave(rank);
}

}  // namespace benchsuite
