#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "engine/program/verifier_checks.h"

namespace benchsuite {

namespace {

/// Where a role's stream stands.
struct Place {
  int role = 0;
  int stream = 0;
  friend bool operator==(const Place&, const Place&) = default;
};

/// Streams as queues: a head goes when what it waits for has ended and, for communication, all members stand there.
class AbstractRun {
 public:
  AbstractRun(const Roles& roles, const Communicators& communicators, FindingLog& log)
      : roles_(roles),
        communicators_(communicators),
        log_(log),
        states_(roles.programs.size()),
        arrived_(communicators.channels.size()) {
    for (std::size_t role = 0; role < states_.size(); ++role) {
      const auto& ops = program(static_cast<int>(role)).ops;
      for (OpId id = 0; id < ops.size(); ++id) states_[role].queue[static_cast<int>(ops[id].stream)].push_back(id);
      awake_.push_back(static_cast<int>(role));
    }
  }

  void run() {
    while (!awake_.empty()) {
      const int role = awake_.back();
      awake_.pop_back();
      bool moved = true;
      while (moved) {
        moved = false;
        for (int stream = 0; stream < kStreams; ++stream) {
          while (advance({role, stream})) moved = true;
        }
      }
    }
    for (int role = 0; role < static_cast<int>(states_.size()); ++role) {
      for (int stream = 0; stream < kStreams; ++stream) {
        if (head({role, stream}) == kNone) continue;
        report({role, stream});
        return;
      }
    }
  }

 private:
  struct State {
    std::array<std::vector<OpId>, kStreams> queue;
    std::array<std::size_t, kStreams> next{};
    std::array<std::uint32_t, kStreams> ended{};  // ops of the stream with an id below this have ended
    std::array<bool, kStreams> arrived{};         // the head stands at its collective
  };

  const Program& program(int role) const { return *roles_.programs[role]; }

  OpId head(Place at) const {
    const State& state = states_[at.role];
    const auto& queue = state.queue[at.stream];
    return state.next[at.stream] < queue.size() ? queue[state.next[at.stream]] : kNone;
  }

  /// The first op that the head of a stream still waits for, or kNone.
  OpId unmet_wait(Place at) const {
    const Program& one = program(at.role);
    for (const OpId wait : one.waits_of(one.ops[head(at)])) {
      if (states_[at.role].ended[static_cast<int>(one.ops[wait].stream)] <= wait) return wait;
    }
    return kNone;
  }

  void end(Place at) {
    State& state = states_[at.role];
    state.ended[at.stream] = head(at) + 1;
    state.arrived[at.stream] = false;
    ++state.next[at.stream];
  }

  bool advance(Place at) {
    const OpId id = head(at);
    if (id == kNone || states_[at.role].arrived[at.stream] || unmet_wait(at) != kNone) return false;
    const Op& op = program(at.role).ops[id];
    if (!is_communication(op.kind)) {
      end(at);
      return true;
    }
    const int channel = communicators_.channel_of[at.role][op.group];
    std::vector<Place>& here = arrived_[channel];
    here.push_back(at);
    states_[at.role].arrived[at.stream] = true;
    if (here.size() < communicators_.channels[channel].members.size()) return false;
    for (const Place& member : here) {
      end(member);
      if (member.role != at.role) awake_.push_back(member.role);
    }
    here.clear();
    return true;
  }

  /// The stream that holds up `at`, and why in words.
  Place blocker(Place at, std::string& why) const {
    const Program& one = program(at.role);
    const OpId id = head(at);
    if (const OpId wait = unmet_wait(at); wait != kNone) {
      why = fmt::format("rank {}'s {} waits for {}", one.rank, describe(one, id), describe(one, wait));
      return {at.role, static_cast<int>(one.ops[wait].stream)};
    }
    const Op& op = one.ops[id];
    const int channel = communicators_.channel_of[at.role][op.group];
    for (const Channel::Member& member : communicators_.channels[channel].members) {
      const auto& here = arrived_[channel];
      if (std::any_of(here.begin(), here.end(), [&](const Place& p) { return p.role == member.role; })) continue;
      const Program& other = program(member.role);
      const OpId theirs = communicators_.ops[member.role][member.group][op.group_sequence];
      why = fmt::format("rank {}'s {} waits for rank {} to reach its {}", one.rank, describe(one, id), other.rank,
                        describe(other, theirs));
      return {member.role, static_cast<int>(other.ops[theirs].stream)};
    }
    return at;
  }

  /// Every stuck stream is held up by a stuck one, so following them leads into a ring.
  void report(Place at) {
    std::vector<Place> path;
    std::vector<std::string> reasons;
    auto start = path.end();
    while ((start = std::find(path.begin(), path.end(), at)) == path.end()) {
      path.push_back(at);
      at = blocker(at, reasons.emplace_back());
    }
    reasons.erase(reasons.begin(), reasons.begin() + (start - path.begin()));
    log_.add({.kind = Finding::Kind::deadlock,
              .rank = program(at.role).rank,
              .op = head(at),
              .text = fmt::format("a ring of waits: {}", fmt::join(reasons, "; "))});
  }

  const Roles& roles_;
  const Communicators& communicators_;
  FindingLog& log_;
  std::vector<State> states_;                // by role
  std::vector<std::vector<Place>> arrived_;  // by channel: who stands at its next op
  std::vector<int> awake_;                   // roles that may be able to go on
};

}  // namespace

void check_deadlock(const Roles& roles, const Communicators& communicators, FindingLog& log) {
  AbstractRun(roles, communicators, log).run();
}

}  // namespace benchsuite
