// What a replay keeps of every rank's role, of every group's open operation and of every link; and its exact arithmetic.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "engine/device/sim/earliest.h"
#include "engine/device/sim/priced_world.h"
#include "engine/program/timeline.h"

namespace benchsuite::replay_state {

__extension__ using Wide = __int128;

inline constexpr std::size_t kCompute = static_cast<std::size_t>(StreamKind::compute);
inline constexpr std::int64_t kFullRate = 1000;  // permille of its own pace
inline constexpr std::int64_t kWhole = 1000;     // permille of a resource
inline constexpr OpId kOpsAhead = 6;             // how far ahead of a role's clock its ops and spans are fetched
inline constexpr int kFlowBits = 60;             // a flow alone progresses by 2^60 a picosecond
inline constexpr Wide kFlowRate = Wide{1} << kFlowBits;

/// What is left of `remaining` after `elapsed` at `rate`, never below zero.
template <class Work>
Work left(Work remaining, Work rate, Picoseconds elapsed) {
  return std::max<Work>(0, remaining - rate * elapsed);
}

template <class Work>
Picoseconds time_for(Work remaining, Work rate) {
  return static_cast<Picoseconds>((remaining + rate - 1) / rate);
}

struct RoleState {
  const PricedRole* priced = nullptr;
  const PricedOp* ops = nullptr;
  const PricedWait* waits = nullptr;
  const ComputeCost* compute = nullptr;
  const Picoseconds* launched_at = nullptr;  // by a host that never waits; nullptr where launching costs nothing
  Span* spans = nullptr;

  std::array<Picoseconds, kStreams> end;  // of the op that runs on the stream and that this role will end, else kNever
  std::array<OpId, kStreams> head;        // first op not ended; kNone when the stream is done
  std::array<OpId, kStreams> blocked_on;  // valid where `blocked` has the stream's bit
  std::uint32_t blocked = 0;
  std::uint32_t unlaunched = 0;  // streams whose `end` is the instant the host launches their head
  const OpId* host_wait = nullptr;  // the op before which the host waits next, kNone behind the last; ids ascend
  Picoseconds behind = 0;    // how much later the host is for its waits
  bool touched = false, unsettled = false;
  bool parked = false;  // an arrival that others see stands in `unlaunched` until all clocks have come there

  // The running compute op; nullptr when there is none.
  const ComputeCost* running = nullptr;
  std::int64_t remaining = 0;  // permille x picoseconds
  std::int64_t rate = 0;       // 0: not yet set
  Picoseconds updated = 0;
  Picoseconds last_end = 0;

  // Demands of communication, in permille: SMs of resident kernels, memory bandwidth of transfers in progress.
  std::int64_t held_sms = 0, moved_memory = 0;
  std::int64_t demand = kWhole;           // on the more wanted of the two, compute included, at least all of it
  std::vector<std::uint32_t> transfers;   // flows in progress

  Picoseconds done = 0;             // compute that has ended, each op as long as it is alone
  std::vector<std::uint32_t> open;  // shared flows at which it has arrived
};

inline Picoseconds first_end(const RoleState& role) {
  Picoseconds first = role.end[0];
  for (std::size_t stream = 1; stream < kStreams; ++stream) first = std::min(first, role.end[stream]);
  return first;
}

inline OpId first_open_wait(const RoleState& role, const PricedOp& op) {
  for (const PricedWait *wait = role.waits + op.first_wait, *end = wait + op.wait_count; wait != end; ++wait) {
    if (role.head[wait->stream] <= wait->op) return wait->op;
  }
  return kNone;
}

/// The stream's head waits for the role's op `wait`.
inline void block(RoleState& role, std::uint32_t stream, OpId wait) {
  role.blocked_on[stream] = wait;
  role.blocked |= 1u << stream;
}

/// Whether a stream of the role waits for its op `id`.
inline bool waits_for(const RoleState& role, OpId id) {
  for (std::uint32_t mask = role.blocked; mask != 0; mask &= mask - 1) {
    if (role.blocked_on[static_cast<std::size_t>(std::countr_zero(mask))] == id) return true;
  }
  return false;
}

/// When the host launches an op behind its last wait, and not after that wait's end for one before it: so what is ready since
/// then may ask of any op.
inline Picoseconds launch_of(const RoleState& role, OpId id) { return role.launched_at[id] + role.behind; }

/// Takes the host through its waits up to that before op `id`, a stream's head at `now`: it has launched what is before such an op and
/// goes on when nothing else keeps it from starting. kNone: it has come to `id`; else the op whose end it waits for, and `id`
/// with it.
inline OpId wait_on_host(RoleState& role, OpId id, Picoseconds now) {
  for (; *role.host_wait <= id; ++role.host_wait) {
    const OpId waited = *role.host_wait;
    if (waited != id) {
      const OpId head = role.head[static_cast<std::size_t>(role.priced->program->ops[waited].stream)];
      if (head < waited) return head;
      if (const OpId wait = first_open_wait(role, role.ops[waited]); wait != kNone) return wait;
    }
    if (waited > 0) role.behind = std::max(role.behind, now - role.launched_at[waited - 1]);
  }
  return kNone;
}

inline const PricedTransfer& transfer_of(const RoleState& role, OpId id) {
  return role.priced->transfers[role.ops[id].cost];
}

/// Until an op's turn comes, dozens of other roles pass through the cache.
inline void fetch(const RoleState& role, OpId id) {
  if (id >= role.priced->ops.size()) return;
  __builtin_prefetch(role.ops + id);
  __builtin_prefetch(role.spans + id, 1);
  if (role.launched_at) __builtin_prefetch(role.launched_at + id);
}

/// The flow of a communication op.
inline std::uint32_t flow_of(const RoleState& role, OpId id) {
  return static_cast<std::uint32_t>(role.priced->group_of[transfer_of(role, id).local]);
}

inline void start_running(RoleState& role, const ComputeCost& cost) {
  role.running = &cost;
  role.remaining = cost.duration * kFullRate;
  role.rate = 0;
}

/// What a role's compute op and communication ask of its SMs and memory, and the compute op's pace under that.
struct Demand {
  std::int64_t most = kWhole;  // of the more wanted resource, at least all of it
  std::int64_t rate = 0;
};

inline Demand demand_of(const RoleState& role) {
  std::int64_t sms = role.held_sms, memory = role.moved_memory, rate = 0;
  if (role.running) {
    sms += role.running->sm_permille;
    memory += role.running->memory_permille;
    std::int64_t wanted = kWhole;
    if (role.running->sm_permille > 0) wanted = std::max(wanted, sms);
    if (role.running->memory_permille > 0) wanted = std::max(wanted, memory);
    rate = wanted == kWhole ? kFullRate : std::max<std::int64_t>(1, kFullRate * kWhole / wanted);
  }
  return {std::max({kWhole, sms, memory}), rate};
}

/// One group has at most one operation open: a member posts the next only when the last has ended.
struct FlowState {
  const PricedGroup* group = nullptr;
  bool shared = false;                // with other roles, or on links that others may load
  std::vector<std::uint32_t> local;   // by member: the group's index in the role's Program
  std::vector<std::uint8_t> streams;  // by member, valid once it has arrived
  std::vector<char> here;             // by member
  std::size_t arrived = 0;
  std::uint32_t sequence = 0;  // of the open operation
  OpKind kind{};               // of the first arrival
  std::int64_t elements = 0;
  const PricedTransfer* cost = nullptr;

  std::uint32_t home_role = 0;  // where the end is kept
  std::uint8_t home_stream = 0;
  std::int64_t stretch = 0;      // S of replay.h in permille; 0: not yet set
  bool unsettled = false;
  Wide remaining = 0, rate = 0;  // 2^-60 picoseconds
  Picoseconds updated = 0;
};

struct LinkState {
  std::int64_t weight = 0;
  std::vector<std::uint32_t> flows;  // in progress
};

}  // namespace benchsuite::replay_state
