// The event loop.
//
// Events are the ends of compute ops and flows, taken in order of (time, rank, stream). Whatever happens at one instant
// happens after no time at all, and rates only act over time: so the order inside an instant decides nothing, provided
// that work left is counted exactly. It is: remaining work and progress are integers, and an end is rounded up, so that
// at its own end no work is left whoever asks first. Demands on shared resources change as ops come and go; paces are
// set once an instant has settled, from the demands alone.
#include "engine/device/sim/replay.h"

#include <bit>
#include <sstream>

#include "engine/core/error.h"
#include "engine/device/sim/deadlock.h"
#include "engine/device/sim/earliest.h"
#include "engine/device/sim/priced_world.h"
#include "engine/device/sim/replay_state.h"

namespace benchsuite {
namespace {

using namespace replay_state;

class Replay {
 public:
  explicit Replay(const PricedWorld& world)
      : world_(world),
        earliest_(world.roles.size()),
        roles_(world.roles.size()),
        flows_(world.groups.size()),
        links_(static_cast<std::size_t>(world.links)) {
    result_.timelines.resize(roles_.size());
    for (std::size_t r = 0; r < roles_.size(); ++r) {
      const PricedRole& priced = world.roles[r];
      RoleState& role = roles_[r];
      result_.timelines[r].spans.resize(priced.program->ops.size());
      role.priced = &priced;
      role.ops = priced.program->ops.data();
      role.waits = priced.program->waits.data();
      role.next = priced.next_on_stream.data();
      role.compute = priced.compute.data();
      role.spans = result_.timelines[r].spans.data();
      role.shapes = priced.program->shapes.size();
      role.end.fill(kNever);
      role.head = priced.first_on_stream;
    }
    for (std::size_t g = 0; g < flows_.size(); ++g) {
      flows_[g].group = &world.groups[g];
      flows_[g].streams.resize(world.groups[g].roles.size());
      flows_[g].here.resize(world.groups[g].roles.size());
    }
  }

  ReplayResult run() {
    for (auto r = static_cast<std::uint32_t>(roles_.size()); r-- > 0;) {  // the last put in is the first tried
      for (std::uint32_t stream = kStreams; stream-- > 0;) try_later(r, stream);
    }
    settle(0);
    while (earliest_.time() != kNever) {
      const Picoseconds now = earliest_.time();
      const auto r = static_cast<std::uint32_t>(earliest_.player());
      RoleState& role = roles_[r];
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
        const Op& op = role.ops[role.head[stream]];
        finish_flow(static_cast<std::uint32_t>(role.priced->group_of[op.group]), now);
      }
      settle(now);
    }
    throw_if_stuck();
    for (std::size_t r = 0; r < roles_.size(); ++r) {
      result_.timelines[r].end = roles_[r].last_end;
      result_.step = std::max(result_.step, roles_[r].last_end);
    }
    return std::move(result_);
  }

 private:
  void try_later(std::uint32_t role, std::uint32_t stream) { todo_.push_back(role * 16 + stream); }

  void touch(std::uint32_t r) {
    if (roles_[r].touched) return;
    roles_[r].touched = true;
    touched_.push_back(r);
  }

  /// Starts everything that can start at `now`, then tells the tournament.
  void settle(Picoseconds now) {
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
      RoleState& role = roles_[r];
      role.touched = false;
      Picoseconds first = role.end[0];
      for (std::size_t stream = 1; stream < kStreams; ++stream) first = std::min(first, role.end[stream]);
      earliest_.set(r, first);
    }
    touched_.clear();
  }

  void try_start(std::uint32_t r, std::uint32_t stream, Picoseconds now) {
    RoleState& role = roles_[r];
    const OpId id = role.head[stream];
    if (id == kNone) return;
    const Op& op = role.ops[id];
    for (const OpId *wait = role.waits + op.first_wait, *end = wait + op.wait_count; wait != end; ++wait) {
      if (role.spans[*wait].end >= 0) continue;
      role.blocked_on[stream] = *wait;
      role.blocked |= 1u << stream;
      return;
    }
    if (!role.priced->launched_at.empty()) {
      const Picoseconds launched = role.priced->launched_at[id];
      if (now < launched) {
        role.unlaunched |= 1u << stream;
        role.end[stream] = launched;
        touch(r);
        return;
      }
    }
    role.spans[id].ready = now;
    if (stream == kCompute) {
      start_compute(r, id, now);
    } else {
      arrive(r, stream, id, now);
    }
  }

  void start_compute(std::uint32_t r, OpId id, Picoseconds now) {
    RoleState& role = roles_[r];
    const Op& op = role.ops[id];
    role.spans[id].start = now;
    const ComputeCost& cost = role.compute[op.shape * kSites + static_cast<std::size_t>(op.site)];
    if (cost.duration == 0) {
      finish_op(r, kCompute, now);
      return;
    }
    role.running = &cost;
    role.remaining = cost.duration * kFullRate;
    role.rate = 0;
    unsettle_role(r);
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

  /// Paces the compute op by the demands on the resources it uses, and tells the transfers.
  void settle_role(std::uint32_t r, Picoseconds now) {
    RoleState& role = roles_[r];
    role.unsettled = false;
    std::int64_t sms = role.held_sms, memory = role.moved_memory;
    if (role.running) {
      sms += role.running->sm_permille;
      memory += role.running->memory_permille;
      std::int64_t wanted = kWhole;
      if (role.running->sm_permille > 0) wanted = std::max(wanted, sms);
      if (role.running->memory_permille > 0) wanted = std::max(wanted, memory);
      const std::int64_t rate = std::max<std::int64_t>(1, kFullRate * kWhole / wanted);
      if (rate != role.rate) {
        if (role.rate > 0) role.remaining = left<std::int64_t>(role.remaining, role.rate, now - role.updated);
        role.rate = rate;
        role.updated = now;
        role.end[kCompute] = now + time_for(role.remaining, rate);
        touch(r);
      }
    }
    const std::int64_t demand = std::max({kWhole, sms, memory});
    if (demand == role.demand) return;
    role.demand = demand;
    for (const std::uint32_t g : role.transfers) unsettle_flow(g);
  }

  void finish_op(std::uint32_t r, std::uint32_t stream, Picoseconds now) {
    RoleState& role = roles_[r];
    const OpId id = role.head[stream];
    role.spans[id].end = now;
    role.last_end = now;
    // Until this role's turn comes again, dozens of others pass through the cache.
    __builtin_prefetch(role.ops + id + kOpsAhead);
    __builtin_prefetch(role.spans + id + kOpsAhead, 1);
    role.end[stream] = kNever;
    role.head[stream] = role.next[id];
    if (stream == kCompute && role.running) {
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

  void hold_sms(std::uint32_t r, std::int64_t permille) {
    if (permille == 0) return;
    roles_[r].held_sms += permille;
    unsettle_role(r);
  }

  void arrive(std::uint32_t r, std::uint32_t stream, OpId id, Picoseconds now) {
    RoleState& role = roles_[r];
    const PricedRole& priced = *role.priced;
    const Op& op = role.ops[id];
    const PricedTransfer& cost =
        priced.transfers[static_cast<std::size_t>(priced.transfer_of[op.group * role.shapes + op.shape])];
    const auto g = static_cast<std::uint32_t>(priced.group_of[op.group]);
    const auto member = static_cast<std::size_t>(priced.member_of[op.group]);
    FlowState& flow = flows_[g];
    check_match(flow, r, id);
    hold_sms(r, cost.sm_permille);
    flow.streams[member] = static_cast<std::uint8_t>(stream);
    flow.here[member] = 1;
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

  /// Members must do the same thing in the same order; the verifier says more, but a wrong match must never pass.
  void check_match(FlowState& flow, std::uint32_t r, OpId id) {
    const Program& program = *roles_[r].priced->program;
    const Op& op = program.ops[id];
    const std::int64_t elements = program.shapes[op.shape].dims[0];
    if (flow.arrived == 0) {
      flow.kind = op.kind;
      flow.elements = elements;
    }
    const bool channel = is_point_to_point(op.kind);
    const bool kind_fits =
        flow.arrived == 0 || (channel ? is_point_to_point(flow.kind) && flow.kind != op.kind : flow.kind == op.kind);
    if (kind_fits && flow.elements == elements && op.group_sequence == flow.sequence &&
        (!channel || (op.kind == OpKind::send) == (flow.group->owner == static_cast<int>(r)))) {
      return;
    }
    std::ostringstream text;
    text << "rank " << program.rank << " posts " << describe_op(program, id) << " of " << elements
         << " elements as operation " << op.group_sequence << " of a " << name_of(flow.group->group.kind)
         << " group, where operation " << flow.sequence << " is open: " << name_of(flow.kind) << " of " << flow.elements
         << " elements";
    throw Error(Error::Kind::run, text.str());
  }

  void finish_flow(std::uint32_t g, Picoseconds now) {
    FlowState& flow = flows_[g];
    if (flow.stretch != 0) stop_flow(g);
    for (std::size_t i = 0; i < flow.streams.size(); ++i) {
      const auto r = static_cast<std::uint32_t>(flow.group->roles[i]);
      RoleState& role = roles_[r];
      const Op& op = role.ops[role.head[flow.streams[i]]];
      const PricedRole& priced = *role.priced;
      const std::int32_t transfer = priced.transfer_of[op.group * role.shapes + op.shape];
      hold_sms(r, -priced.transfers[static_cast<std::size_t>(transfer)].sm_permille);
      finish_op(r, flow.streams[i], now);
      flow.here[i] = 0;
    }
    flow.arrived = 0;
    ++flow.sequence;
  }

  void begin_flow(std::uint32_t g, Picoseconds now) {
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

  void stop_flow(std::uint32_t g) {
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

  /// Paces a flow by its most loaded link and by the demands on its members' SMs and memory.
  void settle_flow(std::uint32_t g, Picoseconds now) {
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

  void throw_if_stuck() const {
    std::vector<StuckOp> stuck;
    for (std::size_t r = 0; r < roles_.size(); ++r) {
      const RoleState& role = roles_[r];
      for (std::size_t stream = 0; stream < kStreams; ++stream) {
        const OpId id = role.head[stream];
        if (id == kNone) continue;
        StuckOp entry{static_cast<int>(r), id, role.spans[id].ready >= 0, kNone, {}};
        if (entry.arrived) {
          const Op& op = role.ops[id];
          const FlowState& flow = flows_[static_cast<std::size_t>(role.priced->group_of[op.group])];
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

  const PricedWorld& world_;
  ReplayResult result_;
  Earliest earliest_;
  std::vector<RoleState> roles_;
  std::vector<FlowState> flows_;
  std::vector<LinkState> links_;
  std::vector<std::uint32_t> todo_;  // role * 16 + stream
  std::vector<std::uint32_t> touched_, unsettled_roles_, unsettled_flows_;
};

}  // namespace

ReplayResult replay(const PricedWorld& world) { return Replay(world).run(); }

}  // namespace benchsuite
