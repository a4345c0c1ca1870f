// One replay: its state, and what each event does to it. replay.cpp says in which order events are taken; replay_flows.cpp is what
// communication does.
#pragma once

#include <vector>

#include "engine/device/sim/replay_state.h"

namespace benchsuite::replay_state {

class ReplayRun {
 public:
  ReplayRun(const PricedWorld& world, ReplayOrder order, int threads);
  ReplayResult run();

 private:
  // replay.cpp
  /// All events of a role from `now`, the earliest of all, as far as nobody else can change them.
  void take_turn(std::uint32_t r, Picoseconds now);
  /// Compute ops one behind the other, while nothing else happens on the role: what events would do, without them. Returns the
  /// role's next event.
  Picoseconds run_on(RoleState& role, Picoseconds until);
  /// Until when no other role can do anything to this one.
  Picoseconds may_go_on_until(std::uint32_t r) const;
  /// A bound on when a role arrives at an operation: compute that must end before runs no faster than alone.
  Picoseconds earliest_arrival(const RoleState& role, std::uint32_t local, std::uint32_t sequence) const;
  /// Starts everything that can start at `now`, then tells the tournament.
  void settle(Picoseconds now);
  void try_start(std::uint32_t r, std::uint32_t stream, Picoseconds now);
  void start_compute(std::uint32_t r, OpId id, Picoseconds now);
  /// Paces the compute op by the demands on the resources it uses, and tells the transfers.
  void settle_role(std::uint32_t r, Picoseconds now);
  void finish_op(std::uint32_t r, std::uint32_t stream, Picoseconds now);
  void throw_if_stuck() const;

  // replay_flows.cpp
  void arrive(std::uint32_t r, std::uint32_t stream, OpId id, Picoseconds now);
  /// Members must do the same thing in the same order; the verifier says more, but a wrong match must never pass.
  void check_match(FlowState& flow, std::uint32_t r, OpId id);
  void finish_flow(std::uint32_t g, Picoseconds now);
  void begin_flow(std::uint32_t g, Picoseconds now);
  void stop_flow(std::uint32_t g);
  /// Paces a flow by its most loaded link and by the demands on its members' SMs and memory.
  void settle_flow(std::uint32_t g, Picoseconds now);

  void try_later(std::uint32_t role, std::uint32_t stream) { todo_.push_back(role * 16 + stream); }
  void touch(std::uint32_t r) {
    if (roles_[r].touched) return;
    roles_[r].touched = true;
    touched_.push_back(r);
  }
  void unsettle_role(std::uint32_t r) {
    if (roles_[r].unsettled) return;
    roles_[r].unsettled = true;
    unsettled_roles_.push_back(r);
  }
  void unsettle_flow(std::uint32_t g) {
    if (flows_[g].unsettled) return;
    flows_[g].unsettled = true;
    unsettled_flows_.push_back(g);
  }
  void hold_sms(std::uint32_t r, std::int64_t permille) {
    if (permille == 0) return;
    roles_[r].held_sms += permille;
    unsettle_role(r);
  }

  const PricedWorld& world_;
  ReplayOrder order_;
  std::uint32_t turn_ = kNone;  // the role that acts
  Picoseconds now_ = 0;         // when its turn began: no other clock is behind
  ReplayResult result_;
  Earliest earliest_;
  std::vector<RoleState> roles_;
  std::vector<FlowState> flows_;
  std::vector<LinkState> links_;
  std::vector<std::uint32_t> todo_;  // role * 16 + stream
  std::vector<std::uint32_t> touched_, unsettled_roles_, unsettled_flows_;
};

}  // namespace benchsuite::replay_state
