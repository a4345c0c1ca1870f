// Communication: arrivals, transfers in progress, ends.
#include <algorithm>
#include <sstream>

#include "engine/core/error.h"
#include "engine/device/sim/deadlock.h"
#include "engine/device/sim/replay_run.h"

namespace benchsuite::replay_state {

void ReplayRun::arrive(std::uint32_t r, std::uint32_t stream, OpId id, Picoseconds now) {
  RoleState& role = roles_[r];
  const PricedTransfer& cost = transfer_of(role, id);
  const std::uint32_t g = flow_of(role, id);
  const auto member = static_cast<std::size_t>(role.priced->member_of[cost.local]);
  FlowState& flow = flows_[g];
  check_match(flow, r, id);
  hold_sms(r, cost.sm_permille);
  flow.streams[member] = static_cast<std::uint8_t>(stream);
  flow.here[member] = 1;
  if (flow.shared) role.open.push_back(g);
  fetch(role, role.ops[id].next);
  if (flow.group->owner == static_cast<int>(r)) flow.cost = &cost;
  if (++flow.arrived < flow.group->roles.size()) return;

  for (std::size_t i = 0; i < flow.streams.size(); ++i) {
    RoleState& other = roles_[static_cast<std::size_t>(flow.group->roles[i])];
    other.spans[other.head[flow.streams[i]]].start = now;
  }
  if (flow.cost->duration == 0) {
    finish_flow(g, now);
    return;
  }
  flow.home_role = r;
  flow.home_stream = static_cast<std::uint8_t>(stream);
  begin_flow(g, now);
}

void ReplayRun::check_match(FlowState& flow, std::uint32_t r, OpId id) {
  const PricedTransfer& own = transfer_of(roles_[r], id);
  if (flow.arrived == 0) {
    flow.kind = own.kind;
    flow.elements = own.elements;
  }
  const bool channel = is_point_to_point(own.kind);
  const bool kind_fits =
      flow.arrived == 0 || (channel ? is_point_to_point(flow.kind) && flow.kind != own.kind : flow.kind == own.kind);
  if (kind_fits && flow.elements == own.elements &&
      (!channel || (own.kind == OpKind::send) == (flow.group->owner == static_cast<int>(r)))) {
    return;
  }
  const Program& program = *roles_[r].priced->program;
  std::ostringstream text;
  text << "rank " << program.rank << " posts " << describe_op(program, id) << " of " << own.elements
       << " elements as operation " << flow.sequence << " of a " << name_of(flow.group->group.kind)
       << " group, which is " << name_of(flow.kind) << " of " << flow.elements << " elements";
  throw Error(Error::Kind::run, text.str());
}

void ReplayRun::finish_flow(std::uint32_t g, Picoseconds now) {
  FlowState& flow = flows_[g];
  if (flow.stretch != 0) stop_flow(g);
  for (std::size_t i = 0; i < flow.streams.size(); ++i) {
    const auto r = static_cast<std::uint32_t>(flow.group->roles[i]);
    RoleState& role = roles_[r];
    const PricedOp& op = role.ops[role.head[flow.streams[i]]];
    hold_sms(r, -role.priced->transfers[op.cost].sm_permille);
    if (flow.shared) role.open.erase(std::find(role.open.begin(), role.open.end(), g));
    finish_op(r, flow.streams[i], now);
    flow.here[i] = 0;
  }
  flow.arrived = 0;
  ++flow.sequence;
}

void ReplayRun::begin_flow(std::uint32_t g, Picoseconds now) {
  FlowState& flow = flows_[g];
  flow.remaining = Wide{flow.cost->duration} << kFlowBits;
  flow.rate = kFlowRate;
  flow.stretch = 0;
  flow.updated = now;
  for (const LinkLoad& load : flow.cost->loads) {
    LinkState& link = links_[static_cast<std::size_t>(load.link)];
    link.weight += load.weight;
    link.flows.push_back(g);
    for (const std::uint32_t other : link.flows) unsettle_flow(other);
  }
  for (const int member : flow.group->roles) {
    const auto r = static_cast<std::uint32_t>(member);
    roles_[r].transfers.push_back(g);
    if (flow.cost->memory_permille == 0) continue;
    roles_[r].moved_memory += flow.cost->memory_permille;
    unsettle_role(r);
  }
  unsettle_flow(g);
}

void ReplayRun::stop_flow(std::uint32_t g) {
  FlowState& flow = flows_[g];
  for (const LinkLoad& load : flow.cost->loads) {
    LinkState& link = links_[static_cast<std::size_t>(load.link)];
    link.weight -= load.weight;
    link.flows.erase(std::find(link.flows.begin(), link.flows.end(), g));
    for (const std::uint32_t other : link.flows) unsettle_flow(other);
  }
  for (const int member : flow.group->roles) {
    const auto r = static_cast<std::uint32_t>(member);
    auto& transfers = roles_[r].transfers;
    transfers.erase(std::find(transfers.begin(), transfers.end(), g));
    if (flow.cost->memory_permille == 0) continue;
    roles_[r].moved_memory -= flow.cost->memory_permille;
    unsettle_role(r);
  }
  flow.stretch = 0;
  flow.cost = nullptr;
}

void ReplayRun::settle_flow(std::uint32_t g, Picoseconds now) {
  FlowState& flow = flows_[g];
  flow.unsettled = false;
  if (!flow.cost || flow.arrived < flow.group->roles.size()) return;  // it ended in this instant
  std::int64_t stretch = kWhole;
  for (const LinkLoad& load : flow.cost->loads) {
    stretch = std::max(stretch, kWhole * links_[static_cast<std::size_t>(load.link)].weight);
  }
  for (const int member : flow.group->roles) {
    stretch = std::max(stretch, roles_[static_cast<std::size_t>(member)].demand);
  }
  if (stretch == flow.stretch) return;
  if (flow.stretch != 0) flow.remaining = left<Wide>(flow.remaining, flow.rate, now - flow.updated);
  flow.stretch = stretch;
  flow.updated = now;
  const PricedTransfer& cost = *flow.cost;
  const Wide shared = Wide{cost.latency} * kWhole + Wide{cost.duration - cost.latency} * stretch;
  // Rounded up, as ends are: under one constant load the two cancel and the flow takes exactly `shared`.
  flow.rate = ((Wide{cost.duration} << kFlowBits) * kWhole + shared - 1) / shared;
  roles_[flow.home_role].end[flow.home_stream] = now + time_for(flow.remaining, flow.rate);
  touch(flow.home_role);
}

}  // namespace benchsuite::replay_state
