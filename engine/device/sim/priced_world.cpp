#include "engine/device/sim/priced_world.h"

#include <algorithm>
#include <mutex>
#include <sstream>
#include <unordered_map>

#include "engine/core/error.h"
#include "engine/core/parallel.h"
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

/// Refuses what a source must not say.
void check(const ComputeCost& cost, OpKind kind) {
  CHECK(cost.duration >= 0 && cost.duration < kLongestOp) << name_of(kind) << " takes " << cost.duration << " ps";
  CHECK(cost.sm_permille >= 0 && cost.sm_permille <= 1000 && cost.memory_permille >= 0 && cost.memory_permille <= 1000)
      << name_of(kind) << " wants " << cost.sm_permille << " permille of the SMs, " << cost.memory_permille
      << " of the memory";
}

void check(const TransferCost& cost, OpKind kind) {
  CHECK(cost.latency >= 0 && cost.duration >= cost.latency && cost.duration < kLongestOp && cost.sm_permille >= 0 &&
        cost.memory_permille >= 0)
      << name_of(kind) << " takes " << cost.duration << " ps, " << cost.latency << " of them latency";
}

std::vector<Picoseconds> launch_times(const Program& program, const HostCost& host) {
  if (host.blocking) return std::vector<Picoseconds>(program.ops.size(), host.first);  // launches are in the ops' own time
  if (host.per_op == 0) return {};
  std::vector<Picoseconds> of_shape, times(program.ops.size());
  for (const OpShape& shape : program.shapes) of_shape.push_back(launches_of(shape) * host.per_op);
  Picoseconds now = host.first;
  for (OpId id = 0; id < program.ops.size(); ++id) {
    const Op& op = program.ops[id];
    times[id] = now += op.joins_launch ? host.per_joined : of_shape[op.shape];
  }
  return times;
}

/// Prices everything the role's ops use, once each, and threads its streams. Groups come later.
PricedRole price_role(const Program& program, const CostSource& costs) {
  constexpr std::size_t kMostOps = std::size_t{1} << 28;  // PricedWait
  PricedRole result;
  result.program = &program;
  const std::size_t shapes = program.shapes.size();
  CHECK(program.ops.size() < kMostOps) << program.ops.size() << " ops on rank " << program.rank;
  result.compute.assign(shapes * kSites, ComputeCost{-1});
  const Picoseconds blocking = costs.host.blocking ? costs.host.per_op : 0;
  result.launched_at = launch_times(program, costs.host);
  result.transfer_of.assign(program.groups.size() * shapes, -1);
  result.first_on_stream.fill(kNone);
  std::vector<StreamKind> stream_of(program.groups.size(), StreamKind::compute);

  result.waits.reserve(program.waits.size());
  for (const OpId wait : program.waits) {
    CHECK(wait < program.ops.size()) << "an op of rank " << program.rank << " waits for op " << wait << " of "
                                     << program.ops.size();
    result.waits.push_back({wait, static_cast<std::uint32_t>(program.ops[wait].stream)});
  }
  result.ops.resize(program.ops.size());
  result.work_before.resize(program.groups.size());
  std::vector<Picoseconds> work(program.ops.size());  // compute that has ended when an op of any stream ends
  std::array<OpId, kStreams> last;
  last.fill(kNone);
  for (OpId id = 0; id < program.ops.size(); ++id) {
    const Op& op = program.ops[id];
    const auto stream = static_cast<std::size_t>(op.stream);
    Picoseconds before = 0;
    if (last[stream] == kNone) {
      result.first_on_stream[stream] = id;
    } else {
      result.ops[last[stream]].next = id;
      before = work[last[stream]];
    }
    last[stream] = id;
    PricedOp& priced = result.ops[id];
    priced.first_wait = op.first_wait;
    priced.wait_count = op.wait_count;
    if (op.host_waits) result.host_waits.push_back(id);

    CHECK(is_communication(op.kind) == (op.stream != StreamKind::compute))
        << "op " << id << " (" << name_of(op.kind) << ") of rank " << program.rank << " is on stream "
        << name_of(op.stream);
    if (!is_communication(op.kind)) {
      priced.cost = static_cast<std::uint32_t>(op.shape * kSites + static_cast<std::size_t>(op.site));
      ComputeCost& cost = result.compute[priced.cost];
      if (cost.duration < 0) {
        cost = costs.compute(program.shapes[op.shape], op.site);
        check(cost, op.kind);
        cost.duration += launches_of(program.shapes[op.shape]) * blocking;
      }
      work[id] = before + cost.duration;
      continue;
    }
    for (const OpId wait : program.waits_of(op)) {
      if (wait < id) before = std::max(before, work[wait]);
    }
    work[id] = before;
    CHECK(op.group < program.groups.size()) << "op " << id << " of rank " << program.rank << " has no group";
    CHECK(op.group_sequence == result.work_before[op.group].size())
        << "op " << id << " of rank " << program.rank << " says that " << op.group_sequence
        << " of its group came before, not " << result.work_before[op.group].size();
    result.work_before[op.group].push_back(before);
    if (op.group_sequence == 0) {
      result.first_uses.push_back(id);
      stream_of[op.group] = op.stream;
    }
    CHECK(stream_of[op.group] == op.stream)
        << "rank " << program.rank << " uses one group on two streams, " << name_of(op.stream) << " at op " << id;
    std::int32_t& transfer = result.transfer_of[op.group * shapes + op.shape];
    if (transfer < 0) {
      const TransferCost cost = costs.transfer(program.shapes[op.shape], program.groups[op.group]);
      check(cost, op.kind);
      transfer = static_cast<std::int32_t>(result.transfers.size());
      result.transfers.push_back({.latency = cost.latency + blocking,
                                  .duration = cost.duration + blocking,
                                  .sm_permille = cost.sm_permille,
                                  .memory_permille = cost.memory_permille,
                                  .loads = {},
                                  .kind = op.kind,
                                  .elements = program.shapes[op.shape].dims[0],
                                  .local = op.group});
    }
    priced.cost = static_cast<std::uint32_t>(transfer);
  }
  result.host_waits.push_back(kNone);
  return result;
}

/// Which groups of the world the role's are, and which member it is of each.
void find_groups(PricedRole& priced, int role, GroupTable& table, const PricedWorld& world) {
  const Program& program = *priced.program;
  priced.group_of.assign(program.groups.size(), -1);
  priced.member_of.assign(program.groups.size(), -1);
  for (const OpId id : priced.first_uses) {
    const Op& op = program.ops[id];
    const Group& group = program.groups[op.group];
    priced.group_of[op.group] = table.intern(group);
    const auto& roles = world.groups[static_cast<std::size_t>(priced.group_of[op.group])].roles;
    const auto at = std::lower_bound(roles.begin(), roles.end(), role);
    CHECK(at != roles.end() && *at == role)
        << "rank " << program.rank << " uses a group it is no member of, at op " << id;
    CHECK(!is_point_to_point(op.kind) || (group.ranks.size() == 2 && roles.size() == 2))
        << "the channel of op " << id << " of rank " << program.rank << " doesn't join two roles";
    priced.member_of[op.group] = static_cast<std::int32_t>(at - roles.begin());
  }
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

std::optional<PricedWorld> price(const World& world, const CostSource& costs, std::string& why_not, int threads) {
  PricedWorld priced;
  CHECK(!world.programs.empty()) << "an empty world";
  members_of(world);  // checks the roles
  std::mutex asking;  // sources remember, and are asked for few shapes
  const CostSource one_by_one{[&](const OpShape& shape, Site site) {
                                const std::lock_guard lock(asking);
                                return costs.compute(shape, site);
                              },
                              [&](const OpShape& shape, const Group& group) {
                                const std::lock_guard lock(asking);
                                return costs.transfer(shape, group);
                              },
                              costs.host};
  priced.roles.resize(world.programs.size());
  for_each_index(priced.roles.size(), threads,
                 [&](std::size_t role) { priced.roles[role] = price_role(*world.programs[role], one_by_one); });
  GroupTable table(world, priced);
  for (std::size_t role = 0; role < priced.roles.size(); ++role) {
    find_groups(priced.roles[role], static_cast<int>(role), table, priced);
  }
  why_not = add_loads(world, costs, priced);
  if (!why_not.empty()) return std::nullopt;
  return priced;
}

PricedWorld price(const World& world, const CostSource& costs, int threads) {
  std::string why_not;
  std::optional<PricedWorld> priced = price(world, costs, why_not, threads);
  CHECK(priced) << why_not;
  return std::move(*priced);
}

std::string why_not_collapsible(const World& world, const CostSource& costs) {
  std::string why_not;
  price(world, costs, why_not);
  return why_not;
}

}  // namespace benchsuite
