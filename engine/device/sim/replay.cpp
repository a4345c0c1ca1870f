// The event loop.
//
// Events are the ends of compute ops and flows, taken in order of (time, rank, stream). Whatever happens at one instant
// happens after no time at all, and rates only act over time: so the order inside an instant decides nothing, provided
// that work left is counted exactly. It is: remaining work and progress are integers, and an end is rounded up, so that
// at its own end no work is left whoever asks first. Demands on shared resources change as ops come and go; paces are
// set once an instant has settled, from the demands alone.
//
// A role's events touch nobody else's state but where it arrives at, or ends, an operation that it shares. So a role whose
// turn it is goes on alone, past the clocks of others, up to the first instant at which they could do something to it: the
// earliest at which a role it waits for can arrive, which the compute that role must do before tells (`may_go_on_until`). Its own
// arrivals at shared operations wait until all clocks have come there. Each role sees the same events at the same times, in whatever order
// roles take turns; dozens of Programs no longer pass through the cache for every op.
#include "engine/device/sim/replay.h"

#include <bit>

#include "engine/core/error.h"
#include "engine/core/parallel.h"
#include "engine/device/sim/deadlock.h"
#include "engine/device/sim/replay_run.h"

namespace benchsuite {
namespace replay_state {

ReplayRun::ReplayRun(const PricedWorld& world, ReplayOrder order, int threads)
    : world_(world),
      order_(order),
      earliest_(world.roles.size()),
      roles_(world.roles.size()),
      flows_(world.groups.size()),
      links_(static_cast<std::size_t>(world.links)) {
  result_.timelines.resize(roles_.size());
  for_each_index(roles_.size(), threads,
                 [&](std::size_t r) { result_.timelines[r].spans.resize(world.roles[r].ops.size()); });
  for (std::size_t r = 0; r < roles_.size(); ++r) {
    const PricedRole& priced = world.roles[r];
    RoleState& role = roles_[r];
    role.priced = &priced;
    role.ops = priced.ops.data();
    role.waits = priced.waits.data();
    role.compute = priced.compute.data();
    role.launched_at = priced.launched_at.empty() ? nullptr : priced.launched_at.data();
    role.host_wait = priced.host_waits.data();
    role.spans = result_.timelines[r].spans.data();
    role.end.fill(kNever);
    role.head = priced.first_on_stream;
  }
  for (std::size_t g = 0; g < flows_.size(); ++g) {
    flows_[g].group = &world.groups[g];
    const std::size_t members = world.groups[g].roles.size();
    flows_[g].shared = members > 1;
    flows_[g].streams.resize(members);
    flows_[g].here.resize(members);
    flows_[g].local.resize(members);
  }
  for (const PricedRole& priced : world.roles) {
    const std::size_t shapes = priced.program->shapes.size();
    for (std::size_t local = 0; local < priced.group_of.size(); ++local) {
      if (priced.group_of[local] < 0) continue;
      FlowState& flow = flows_[static_cast<std::size_t>(priced.group_of[local])];
      flow.local[static_cast<std::size_t>(priced.member_of[local])] = static_cast<std::uint32_t>(local);
      for (std::size_t shape = 0; shape < shapes; ++shape) {
        const std::int32_t transfer = priced.transfer_of[local * shapes + shape];
        flow.shared = flow.shared || (transfer >= 0 && !priced.transfers[static_cast<std::size_t>(transfer)].loads.empty());
      }
    }
  }
}

ReplayResult ReplayRun::run() {
  for (auto r = static_cast<std::uint32_t>(roles_.size()); r-- > 0;) {  // the last put in is the first tried
    for (std::uint32_t stream = kStreams; stream-- > 0;) try_later(r, stream);
  }
  settle(0);
  while (earliest_.time() != kNever) take_turn(static_cast<std::uint32_t>(earliest_.player()), earliest_.time());
  throw_if_stuck();
  for (std::size_t r = 0; r < roles_.size(); ++r) {
    result_.timelines[r].end = roles_[r].last_end;
    result_.step = std::max(result_.step, roles_[r].last_end);
  }
  return std::move(result_);
}

void ReplayRun::take_turn(std::uint32_t r, Picoseconds now) {
  RoleState& role = roles_[r];
  now_ = now;
  turn_ = r;
  bool alone = false;  // the instant all clocks have come to is over
  for (Picoseconds next = now, until = now; next <= until && next != kNever;) {
    now = next;
    std::uint32_t stream = 0;
    while (role.end[stream] != now) ++stream;
    if (role.unlaunched & (1u << stream)) {
      role.unlaunched &= ~(1u << stream);
      role.end[stream] = kNever;
      touch(r);
      try_later(r, stream);
    } else if (stream == kCompute) {
      finish_op(r, stream, now);
    } else {
      finish_flow(flow_of(role, role.head[stream]), now);
    }
    settle(now);
    if (role.parked) break;
    next = first_end(role);
    if (!alone && next > now_) {
      alone = true;
      if (order_ == ReplayOrder::by_role) until = may_go_on_until(r);
    }
    if (until > now_ && role.running && role.transfers.empty()) next = run_on(role, until);
  }
  role.parked = false;
  earliest_.set(r, first_end(role));
}

Picoseconds ReplayRun::run_on(RoleState& role, Picoseconds until) {
  Picoseconds others = until;  // the first event that is not the end of a compute op
  for (std::size_t stream = kCompute + 1; stream < kStreams; ++stream) others = std::min(others, role.end[stream]);
  for (;;) {
    const Picoseconds now = role.end[kCompute];
    const OpId id = role.head[kCompute], next = role.ops[id].next;
    if (now >= others || next == kNone || waits_for(role, id)) break;
    const PricedOp& op = role.ops[next];
    const ComputeCost& cost = role.compute[op.cost];
    if (cost.duration == 0 || first_open_wait(role, op) != kNone) break;
    if (role.launched_at && (*role.host_wait <= next || launch_of(role, next) > now)) break;
    role.spans[id].end = role.last_end = now;
    role.done += role.running->duration;
    role.head[kCompute] = next;
    role.spans[next].ready = role.spans[next].start = now;
    start_running(role, cost);
    const Demand demand = demand_of(role);
    role.demand = demand.most;
    role.rate = demand.rate;
    role.updated = now;
    role.end[kCompute] = now + (role.rate == kFullRate ? cost.duration : time_for(role.remaining, role.rate));
  }
  return first_end(role);
}

Picoseconds ReplayRun::may_go_on_until(std::uint32_t r) const {
  Picoseconds until = kNever;
  for (const std::uint32_t g : roles_[r].open) {
    const FlowState& flow = flows_[g];
    const auto missing = static_cast<std::size_t>(std::find(flow.here.begin(), flow.here.end(), 0) - flow.here.begin());
    if (missing == flow.here.size()) return now_;  // in progress: its pace depends on all its members and links
    until = std::min(until, earliest_arrival(roles_[static_cast<std::size_t>(flow.group->roles[missing])],
                                             flow.local[missing], flow.sequence));
  }
  return until;
}

Picoseconds ReplayRun::earliest_arrival(const RoleState& role, std::uint32_t local, std::uint32_t sequence) const {
  const std::vector<Picoseconds>& work_before = role.priced->work_before[local];
  const Picoseconds missing = sequence < work_before.size() ? work_before[sequence] - role.done : 0;
  if (missing <= 0) return now_;
  if (!role.running) return now_ + missing;
  return std::max(now_, role.updated + role.remaining / kFullRate) + missing - role.running->duration;
}

void ReplayRun::settle(Picoseconds now) {
  while (!todo_.empty()) {
    const std::uint32_t entry = todo_.back();
    todo_.pop_back();
    try_start(entry / 16, entry % 16, now);
  }
  for (const std::uint32_t r : unsettled_roles_) settle_role(r, now);
  unsettled_roles_.clear();
  for (const std::uint32_t g : unsettled_flows_) settle_flow(g, now);
  unsettled_flows_.clear();
  for (const std::uint32_t r : touched_) {
    roles_[r].touched = false;
    if (r != turn_) earliest_.set(r, first_end(roles_[r]));
  }
  touched_.clear();
}

void ReplayRun::try_start(std::uint32_t r, std::uint32_t stream, Picoseconds now) {
  RoleState& role = roles_[r];
  const OpId id = role.head[stream];
  if (id == kNone) return;
  if (const OpId wait = first_open_wait(role, role.ops[id]); wait != kNone) return block(role, stream, wait);
  if (role.launched_at) {
    if (const OpId wait = wait_on_host(role, id, now); wait != kNone) return block(role, stream, wait);
    if (const Picoseconds launch = launch_of(role, id); now < launch) {
      role.unlaunched |= 1u << stream;
      role.end[stream] = launch;
      touch(r);
      return;
    }
  }
  if (stream == kCompute) {
    role.spans[id].ready = now;
    start_compute(r, id, now);
    return;
  }
  if (now > now_ && flows_[flow_of(role, id)].shared) {
    role.unlaunched |= 1u << stream;
    role.end[stream] = now;
    role.parked = true;
    touch(r);
    return;
  }
  role.spans[id].ready = now;
  arrive(r, stream, id, now);
}

void ReplayRun::start_compute(std::uint32_t r, OpId id, Picoseconds now) {
  RoleState& role = roles_[r];
  role.spans[id].start = now;
  const ComputeCost& cost = role.compute[role.ops[id].cost];
  if (cost.duration == 0) {
    finish_op(r, kCompute, now);
    return;
  }
  start_running(role, cost);
  unsettle_role(r);
}

void ReplayRun::settle_role(std::uint32_t r, Picoseconds now) {
  RoleState& role = roles_[r];
  role.unsettled = false;
  const Demand demand = demand_of(role);
  if (role.running && demand.rate != role.rate) {
    if (role.rate > 0) role.remaining = left<std::int64_t>(role.remaining, role.rate, now - role.updated);
    role.rate = demand.rate;
    role.updated = now;
    role.end[kCompute] = now + time_for(role.remaining, role.rate);
    touch(r);
  }
  if (demand.most == role.demand) return;
  role.demand = demand.most;
  for (const std::uint32_t g : role.transfers) unsettle_flow(g);
}

void ReplayRun::finish_op(std::uint32_t r, std::uint32_t stream, Picoseconds now) {
  RoleState& role = roles_[r];
  const OpId id = role.head[stream];
  role.spans[id].end = now;
  role.last_end = now;
  fetch(role, id + kOpsAhead);
  role.end[stream] = kNever;
  role.head[stream] = role.ops[id].next;
  if (stream == kCompute && role.running) {
    role.done += role.running->duration;
    role.running = nullptr;
    unsettle_role(r);
  }
  for (std::uint32_t mask = role.blocked; mask != 0; mask &= mask - 1) {
    const auto other = static_cast<std::uint32_t>(std::countr_zero(mask));
    if (role.blocked_on[other] != id) continue;
    role.blocked &= ~(1u << other);
    try_later(r, other);
  }
  try_later(r, stream);
  touch(r);
}

void ReplayRun::throw_if_stuck() const {
  std::vector<StuckOp> stuck;
  for (std::size_t r = 0; r < roles_.size(); ++r) {
    const RoleState& role = roles_[r];
    for (std::size_t stream = 0; stream < kStreams; ++stream) {
      const OpId id = role.head[stream];
      if (id == kNone) continue;
      StuckOp entry{static_cast<int>(r), id, role.spans[id].ready >= 0, kNone, {}};
      if (entry.arrived) {
        const FlowState& flow = flows_[flow_of(role, id)];
        for (std::size_t i = 0; i < flow.here.size(); ++i) {
          if (!flow.here[i]) entry.missing_roles.push_back(flow.group->roles[i]);
        }
      } else {
        entry.waits_for = role.blocked_on[stream];
      }
      stuck.push_back(std::move(entry));
    }
  }
  if (!stuck.empty()) throw Error(Error::Kind::run, describe_deadlock(world_, stuck));
}

}  // namespace replay_state

ReplayResult replay(const PricedWorld& world, ReplayOrder order, int threads) {
  return replay_state::ReplayRun(world, order, threads).run();
}

}  // namespace benchsuite
