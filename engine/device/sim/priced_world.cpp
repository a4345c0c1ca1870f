#include "engine/device/sim/priced_world.h"

#include <algorithm>
#include <sstream>
#include <unordered_map>

#include "engine/core/error.h"
#include "engine/device/eager_kernels.h"
#include "engine/device/sim/collapse.h"

namespace benchsuite {
namespace {

// Progress of a compute op is counted in permille of a picosecond, in int64.
constexpr Picoseconds kLongestOp = INT64_MAX / 2000;

/// Finds equal groups of different Programs.
class GroupTable {
 public:
  GroupTable(const World& world, PricedWorld& priced) : world_(world), priced_(priced) {}

  std::int32_t intern(const Group& group) {
    std::uint64_t hash = static_cast<std::uint64_t>(group.kind) + 1;
    for (int rank : group.ranks) hash = (hash ^ static_cast<std::uint64_t>(rank + 1)) * 0x9E3779B97F4A7C15u;
    auto& bucket = index_[hash];
    for (const std::int32_t id : bucket) {
      if (priced_.groups[static_cast<std::size_t>(id)].group == group) return id;
    }
    bucket.push_back(static_cast<std::int32_t>(priced_.groups.size()));
    PricedGroup entry{group, {}, 0};
    CHECK(!group.ranks.empty()) << "an empty " << name_of(group.kind) << " group";
    for (int rank : group.ranks) {
      CHECK(rank >= 0 && rank < static_cast<int>(world_.role_of_rank.size()))
          << "rank " << rank << " of a " << name_of(group.kind) << " group is outside the world";
      entry.roles.push_back(world_.role_of_rank[static_cast<std::size_t>(rank)]);
    }
    const int source = entry.roles.front();
    std::sort(entry.roles.begin(), entry.roles.end());
    entry.roles.erase(std::unique(entry.roles.begin(), entry.roles.end()), entry.roles.end());
    const bool channel = group.kind == GroupKind::pipeline_forward || group.kind == GroupKind::pipeline_backward;
    entry.owner = channel ? source : entry.roles.front();
    priced_.groups.push_back(std::move(entry));
    return bucket.back();
  }

 private:
  const World& world_;
  PricedWorld& priced_;
  std::unordered_map<std::uint64_t, std::vector<std::int32_t>> index_;
};

/// Prices everything the role's ops use, once each, and threads its streams.
PricedRole price_role(const Program& program, int role, const CostSource& costs, GroupTable& table,
                      const PricedWorld& priced) {
  PricedRole result;
  result.program = &program;
  const std::size_t shapes = program.shapes.size();
  result.compute.assign(shapes * kSites, ComputeCost{-1});
  const Picoseconds blocking = costs.host.blocking ? costs.host.per_op : 0;
  if (costs.host.blocking) {  // launches are in the ops' own time
    result.launched_at.assign(program.ops.size(), costs.host.first);
  } else if (costs.host.per_op > 0) {
    Picoseconds now = costs.host.first;
    result.launched_at.reserve(program.ops.size());
    for (const Op& op : program.ops) {
      now += op.joins_launch ? costs.host.per_joined : launches_of(program.shapes[op.shape]) * costs.host.per_op;
      result.launched_at.push_back(now);
    }
  }
  result.transfer_of.assign(program.groups.size() * shapes, -1);
  result.group_of.assign(program.groups.size(), -1);
  result.member_of.assign(program.groups.size(), -1);
  result.next_on_stream.resize(program.ops.size());
  result.first_on_stream.fill(kNone);
  std::vector<StreamKind> stream_of(program.groups.size(), StreamKind::compute);

  for (const OpId wait : program.waits) {
    CHECK(wait < program.ops.size()) << "an op of rank " << program.rank << " waits for op " << wait << " of "
                                     << program.ops.size();
  }
  result.work_before.resize(program.groups.size());
  std::vector<Picoseconds> work(program.ops.size());  // compute that has ended when an op of any stream starts
  std::array<OpId, kStreams> last;
  last.fill(kNone);
  for (OpId id = 0; id < program.ops.size(); ++id) {
    const Op& op = program.ops[id];
    const auto stream = static_cast<std::size_t>(op.stream);
    const auto ended_with = [&](OpId other) {
      const Op& before = program.ops[other];
      if (is_communication(before.kind)) return work[other];
      return work[other] + result.compute[before.shape * kSites + static_cast<std::size_t>(before.site)].duration;
    };
    if (last[stream] != kNone) work[id] = ended_with(last[stream]);
    (last[stream] == kNone ? result.first_on_stream[stream] : result.next_on_stream[last[stream]]) = id;
    last[stream] = id;
    result.next_on_stream[id] = kNone;

    CHECK(is_communication(op.kind) == (op.stream != StreamKind::compute))
        << "op " << id << " (" << name_of(op.kind) << ") of rank " << program.rank << " is on stream "
        << name_of(op.stream);
    if (!is_communication(op.kind)) {
      ComputeCost& cost = result.compute[op.shape * kSites + static_cast<std::size_t>(op.site)];
      if (cost.duration < 0) {
        cost = costs.compute(program.shapes[op.shape], op.site);
        CHECK(cost.duration >= 0 && cost.duration < kLongestOp)
            << name_of(op.kind) << " takes " << cost.duration << " ps";
        CHECK(cost.sm_permille >= 0 && cost.sm_permille <= 1000 && cost.memory_permille >= 0 &&
              cost.memory_permille <= 1000)
            << name_of(op.kind) << " wants " << cost.sm_permille << " permille of the SMs, " << cost.memory_permille
            << " of the memory";
        cost.duration += launches_of(program.shapes[op.shape]) * blocking;
      }
      continue;
    }
    for (const OpId wait : program.waits_of(op)) work[id] = std::max(work[id], wait < id ? ended_with(wait) : 0);
    CHECK(op.group < program.groups.size()) << "op " << id << " of rank " << program.rank << " has no group";
    result.work_before[op.group].push_back(work[id]);
    std::int32_t& transfer = result.transfer_of[op.group * shapes + op.shape];
    if (transfer >= 0) {
      CHECK(stream_of[op.group] == op.stream)
          << "rank " << program.rank << " uses one group on two streams, " << name_of(op.stream) << " at op " << id;
      continue;
    }
    std::int32_t& group = result.group_of[op.group];
    if (group < 0) {
      group = table.intern(program.groups[op.group]);
      stream_of[op.group] = op.stream;
      const auto& roles = priced.groups[static_cast<std::size_t>(group)].roles;
      const auto at = std::lower_bound(roles.begin(), roles.end(), role);
      CHECK(at != roles.end() && *at == role)
          << "rank " << program.rank << " uses a group it is no member of, at op " << id;
      CHECK(!is_point_to_point(op.kind) || (program.groups[op.group].ranks.size() == 2 && roles.size() == 2))
          << "the channel of op " << id << " of rank " << program.rank << " doesn't join two roles";
      result.member_of[op.group] = static_cast<std::int32_t>(at - roles.begin());
    }
    CHECK(stream_of[op.group] == op.stream)
        << "rank " << program.rank << " uses one group on two streams, " << name_of(op.stream) << " at op " << id;
    const TransferCost cost = costs.transfer(program.shapes[op.shape], program.groups[op.group]);
    CHECK(cost.latency >= 0 && cost.duration >= cost.latency && cost.duration < kLongestOp && cost.sm_permille >= 0 &&
          cost.memory_permille >= 0)
        << name_of(op.kind) << " takes " << cost.duration << " ps, " << cost.latency << " of them latency";
    transfer = static_cast<std::int32_t>(result.transfers.size());
    result.transfers.push_back({cost.latency + blocking, cost.duration + blocking, cost.sm_permille, cost.memory_permille, {}});
  }
  return result;
}

/// Every represented group must join the representatives themselves, or their clocks would not belong together.
std::string strangers_in_groups(const World& world, const PricedWorld& priced) {
  for (const PricedGroup& entry : priced.groups) {
    for (const int role : entry.roles) {
      const int rank = world.programs[static_cast<std::size_t>(role)]->rank;
      if (std::find(entry.group.ranks.begin(), entry.group.ranks.end(), rank) != entry.group.ranks.end()) continue;
      std::ostringstream text;
      text << "a " << name_of(entry.group.kind) << " group of the representatives has ranks of role " << role
           << " but not its representative, rank " << rank;
      return text.str();
    }
  }
  return {};
}

/// Fills the link loads; returns why the world can't be collapsed.
std::string add_loads(const World& world, const CostSource& costs, PricedWorld& priced) {
  if (!is_whole(world)) {
    if (std::string reason = strangers_in_groups(world, priced); !reason.empty()) return reason;
  }
  std::vector<RoleFlow> flows;
  std::vector<PricedTransfer*> owners;
  for (std::size_t role = 0; role < priced.roles.size(); ++role) {
    PricedRole& entry = priced.roles[role];
    const std::size_t shapes = entry.program->shapes.size();
    for (std::size_t local = 0; local < entry.group_of.size(); ++local) {
      if (entry.group_of[local] < 0) continue;
      const PricedGroup& group = priced.groups[static_cast<std::size_t>(entry.group_of[local])];
      if (group.owner != static_cast<int>(role)) continue;
      for (std::size_t shape = 0; shape < shapes; ++shape) {
        const std::int32_t transfer = entry.transfer_of[local * shapes + shape];
        if (transfer < 0) continue;
        flows.push_back({&group.group, &entry.program->shapes[shape]});
        owners.push_back(&entry.transfers[static_cast<std::size_t>(transfer)]);
      }
    }
  }
  LinkClasses classes = classify_links(flows, world, costs);
  for (std::size_t f = 0; f < owners.size(); ++f) owners[f]->loads = std::move(classes.loads[f]);
  priced.links = classes.count;
  return classes.reason;
}

}  // namespace

std::optional<PricedWorld> price(const World& world, const CostSource& costs, std::string& why_not) {
  PricedWorld priced;
  CHECK(!world.programs.empty()) << "an empty world";
  members_of(world);  // checks the roles
  GroupTable table(world, priced);
  for (std::size_t role = 0; role < world.programs.size(); ++role) {
    priced.roles.push_back(price_role(*world.programs[role], static_cast<int>(role), costs, table, priced));
  }
  why_not = add_loads(world, costs, priced);
  if (!why_not.empty()) return std::nullopt;
  return priced;
}

PricedWorld price(const World& world, const CostSource& costs) {
  std::string why_not;
  std::optional<PricedWorld> priced = price(world, costs, why_not);
  CHECK(priced) << why_not;
  return std::move(*priced);
}

std::string why_not_collapsible(const World& world, const CostSource& costs) {
  std::string why_not;
  price(world, costs, why_not);
  return why_not;
}

}  // namespace benchsuite
