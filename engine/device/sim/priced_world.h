// A World with every duration filled in: what the replay runs, free of hardware profiles.
//
// The replay needs five things of a machine: how long a compute op takes, how long a transfer takes alone, which shared
// links it loads, what both want of the SMs and of the memory, and how fast the host launches. `price` asks a CostSource once per distinct (shape, site) and
// (group, shape), so that the replay itself only indexes arrays.
//
// Link classes. A collapsed world replays one flow for a set of sibling flows (the same transfer of the other ranks of
// the role, all in progress at once). Two links are one class when every role-flow is present on both equally often;
// a flow's weight on a class is the number of its siblings on one link of the class. In a whole world every link is
// its own class and every weight is 1.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/device/sim/replay.h"

namespace benchsuite {

/// Where prices come from. A CostModel in runs; plain functions in tests.
struct CostSource {
  std::function<ComputeCost(const OpShape&, Site)> compute;
  std::function<TransferCost(const OpShape&, const Group&)> transfer;
  HostCost host = {};
};

/// `costs` must outlive the source.
CostSource source_of(const CostModel& costs);

/// What one flow puts on one class of links.
struct LinkLoad {
  std::int32_t link = 0;    ///< class, 0 .. PricedWorld::links - 1
  std::int32_t weight = 0;  ///< sibling flows on one link of the class
};

struct PricedTransfer {
  Picoseconds latency = 0;   ///< does not grow when a link is shared
  Picoseconds duration = 0;  ///< alone, latency included
  std::int32_t sm_permille = 0;
  std::int32_t memory_permille = 0;
  std::vector<LinkLoad> loads;
  OpKind kind{};
  std::int64_t elements = 0;
  std::uint32_t local = 0;  ///< the group's index in the role's Program
};

/// One communicator, known to all its roles by this index.
struct PricedGroup {
  Group group;
  std::vector<int> roles;  ///< distinct roles of its ranks, ascending: each posts once per operation
  int owner = 0;           ///< the role whose transfer prices the flow: a channel's source, else the lowest role
};

/// All that a replay needs to know of most ops: Programs are too large to pass through the cache again and again.
struct PricedOp {
  OpId next = kNone;             ///< on the stream; kNone at its end
  std::uint32_t cost = 0;        ///< index into PricedRole::compute, of communication into transfers
  std::uint32_t first_wait = 0;  ///< index into PricedRole::waits
  std::uint32_t wait_count = 0;
};

/// An op that another waits for has ended when the first open op of its stream is a later one.
struct PricedWait {
  OpId op : 28;
  std::uint32_t stream : 4;
};
static_assert(kStreams <= 16);

struct PricedRole {
  const Program* program = nullptr;
  std::vector<PricedOp> ops;
  std::vector<PricedWait> waits;
  std::vector<ComputeCost> compute;       ///< [shape * kSites + site]; duration -1: no op has it
  std::vector<std::int32_t> transfer_of;  ///< [local group * shapes + shape], index into transfers; -1: no op has it
  std::vector<PricedTransfer> transfers;
  std::vector<OpId> first_uses;         ///< the first op of every group that is used, ascending
  std::vector<std::int32_t> group_of;   ///< local group to PricedWorld::groups; -1: no op uses it
  std::vector<std::int32_t> member_of;  ///< local group to this role's position in PricedGroup::roles
  std::array<OpId, kStreams> first_on_stream{};
  std::vector<Picoseconds> launched_at;  ///< by op, by a host that never waits; empty where launching costs nothing
  std::vector<OpId> host_waits;          ///< the ops before which the host waits (Op::host_waits), ascending, kNone behind them
  /// [local group][operation of the group]: compute, alone on the machine, that has ended before the role can arrive.
  std::vector<std::vector<Picoseconds>> work_before;
};

struct PricedWorld {
  std::vector<PricedRole> roles;
  std::vector<PricedGroup> groups;
  std::int32_t links = 0;
};

/// Throws Error (internal) when a collapsed world is not equivalent to the whole one, or when a Program breaks the
/// rules the replay relies on: compute ops on the compute stream, communication elsewhere, one stream per group.
PricedWorld price(const World& world, const CostSource& costs, int threads = 1);
/// The same, but a collapsed world that is not equivalent gives the reason (replay.h, why_not_collapsible) and nothing to replay.
std::optional<PricedWorld> price(const World& world, const CostSource& costs, std::string& why_not, int threads = 1);

/// replay.h, on any source of costs.
std::string why_not_collapsible(const World& world, const CostSource& costs);

/// In which order a replay takes events; results are the same, bit for bit.
enum class ReplayOrder : std::uint8_t {
  by_role,  ///< a role goes on alone as long as nothing others do can reach it (replay.cpp)
  by_time   ///< all roles by time, event by event: the definition, for tests
};
/// The replay is one thread's work; `threads` make room for its result.
ReplayResult replay(const PricedWorld& world, ReplayOrder order = ReplayOrder::by_role, int threads = 1);

}  // namespace benchsuite
