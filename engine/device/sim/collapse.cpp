#include "engine/device/sim/collapse.h"

#include <algorithm>
#include <map>
#include <sstream>
#include <unordered_map>
#include <utility>

#include "engine/core/error.h"

namespace benchsuite {
namespace {

std::string describe(const Group& group) {
  std::ostringstream text;
  text << name_of(group.kind) << " group {";
  for (std::size_t i = 0; i < group.ranks.size(); ++i) text << (i ? ", " : "") << group.ranks[i];
  text << '}';
  return text.str();
}

}  // namespace

World whole_world(const std::vector<const Program*>& programs) {
  World world;
  world.programs = programs;
  for (std::size_t rank = 0; rank < programs.size(); ++rank) {
    CHECK(programs[rank]->rank == static_cast<int>(rank))
        << "program " << rank << " is of rank " << programs[rank]->rank;
    world.role_of_rank.push_back(static_cast<int>(rank));
  }
  return world;
}

bool is_whole(const World& world) { return world.programs.size() == world.role_of_rank.size(); }

RoleMembers members_of(const World& world) {
  RoleMembers members;
  members.ranks.resize(world.programs.size());
  members.index.resize(world.role_of_rank.size());
  for (std::size_t rank = 0; rank < world.role_of_rank.size(); ++rank) {
    const int role = world.role_of_rank[rank];
    CHECK(role >= 0 && role < static_cast<int>(world.programs.size())) << "rank " << rank << " has role " << role;
    auto& ranks = members.ranks[static_cast<std::size_t>(role)];
    members.index[rank] = static_cast<int>(ranks.size());
    ranks.push_back(static_cast<int>(rank));
  }
  for (std::size_t role = 0; role < world.programs.size(); ++role) {
    const int representative = world.programs[role]->rank;
    CHECK(representative >= 0 && representative < static_cast<int>(world.role_of_rank.size()) &&
          world.role_of_rank[static_cast<std::size_t>(representative)] == static_cast<int>(role))
        << "role " << role << " is represented by rank " << representative << ", which is not one of its ranks";
  }
  return members;
}

std::vector<Group> siblings_of(const Group& group, const World& world, const RoleMembers& members,
                               std::string& reason) {
  const auto role_of = [&](int rank) {
    return static_cast<std::size_t>(world.role_of_rank[static_cast<std::size_t>(rank)]);
  };
  const auto index_of = [&](int rank) { return members.index[static_cast<std::size_t>(rank)]; };

  const std::size_t lead = role_of(group.ranks.front());
  int lowest = index_of(group.ranks.front());
  for (int rank : group.ranks) {
    if (role_of(rank) == lead) lowest = std::min(lowest, index_of(rank));
  }
  std::vector<std::vector<bool>> covered(world.programs.size());
  for (int rank : group.ranks) covered[role_of(rank)].resize(members.ranks[role_of(rank)].size());

  std::vector<Group> siblings;
  for (int at = 0; at < static_cast<int>(members.ranks[lead].size()); ++at) {
    if (covered[lead][static_cast<std::size_t>(at)]) continue;
    Group moved{group.kind, {}};
    for (int rank : group.ranks) {
      const std::size_t role = role_of(rank);
      const int index = index_of(rank) + at - lowest;
      if (index < 0 || index >= static_cast<int>(covered[role].size()) ||
          covered[role][static_cast<std::size_t>(index)]) {
        reason = describe(group) + " has no image for every rank of its roles: moved by " +
                 std::to_string(at - lowest) + " it overlaps itself or leaves role " + std::to_string(role);
        return {};
      }
      covered[role][static_cast<std::size_t>(index)] = true;
      moved.ranks.push_back(members.ranks[role][static_cast<std::size_t>(index)]);
    }
    siblings.push_back(std::move(moved));
  }
  for (std::size_t role = 0; role < covered.size(); ++role) {
    for (std::size_t index = 0; index < covered[role].size(); ++index) {
      if (covered[role][index]) continue;
      reason = "rank " + std::to_string(members.ranks[role][index]) + " is in no image of " + describe(group);
      return {};
    }
  }
  const auto own = std::find(siblings.begin(), siblings.end(), group);
  CHECK(own != siblings.end()) << describe(group) << " is not among its own images";
  std::iter_swap(siblings.begin(), own);
  return siblings;
}

LinkClasses classify_links(const std::vector<RoleFlow>& flows, const World& world, const CostSource& costs) {
  LinkClasses classes;
  classes.loads.resize(flows.size());
  if (is_whole(world)) {
    for (std::size_t f = 0; f < flows.size(); ++f) {
      for (const LinkId link : costs.transfer(*flows[f].shape, *flows[f].group).links) {
        classes.loads[f].push_back({link, 1});
        classes.count = std::max(classes.count, link + 1);
      }
    }
    return classes;
  }

  // Presence of every flow on every real link, siblings counted.
  const RoleMembers members = members_of(world);
  std::vector<std::vector<std::vector<LinkId>>> links_of(flows.size());                     // [flow][sibling]
  std::unordered_map<LinkId, std::vector<std::pair<std::int32_t, std::int32_t>>> presence;  // link -> (flow, count)
  for (std::size_t f = 0; f < flows.size(); ++f) {
    const auto siblings = siblings_of(*flows[f].group, world, members, classes.reason);
    if (!classes.reason.empty()) return classes;
    TransferCost first;
    for (std::size_t i = 0; i < siblings.size(); ++i) {
      TransferCost cost = costs.transfer(*flows[f].shape, siblings[i]);
      if (i == 0) {
        first = cost;
      } else if (cost.latency != first.latency || cost.duration != first.duration ||
                 cost.sm_permille != first.sm_permille) {
        classes.reason = "a transfer costs " + std::to_string(first.duration) + " ps in the " + describe(siblings[0]) +
                         " but " + std::to_string(cost.duration) + " ps in the " + describe(siblings[i]);
        return classes;
      }
      for (const LinkId link : cost.links) {
        auto& flows_on_link = presence[link];
        if (flows_on_link.empty() || flows_on_link.back().first != static_cast<std::int32_t>(f)) {
          flows_on_link.emplace_back(static_cast<std::int32_t>(f), 0);
        }
        ++flows_on_link.back().second;
      }
      links_of[f].push_back(std::move(cost.links));
    }
  }

  // Links with the same presence are one class; ordered by presence, so that ids don't depend on hashing.
  std::map<std::vector<std::pair<std::int32_t, std::int32_t>>, std::int32_t> class_of;
  for (const auto& [link, flows_on_link] : presence) class_of.emplace(flows_on_link, 0);
  for (auto& [flows_on_link, id] : class_of) id = classes.count++;

  for (std::size_t f = 0; f < flows.size(); ++f) {
    std::vector<std::int32_t> seen;
    for (std::size_t i = 0; i < links_of[f].size(); ++i) {
      std::vector<std::int32_t> own;
      for (const LinkId link : links_of[f][i]) own.push_back(class_of.at(presence.at(link)));
      std::sort(own.begin(), own.end());
      own.erase(std::unique(own.begin(), own.end()), own.end());
      if (i == 0) {
        seen = std::move(own);
      } else if (own != seen) {
        classes.reason = "images of the " + describe(*flows[f].group) +
                         " share their links with different flows (image " + std::to_string(i) + ")";
        return classes;
      }
    }
    for (const auto& [flows_on_link, id] : class_of) {
      if (!std::binary_search(seen.begin(), seen.end(), id)) continue;
      const auto own = std::lower_bound(flows_on_link.begin(), flows_on_link.end(),
                                        std::pair<std::int32_t, std::int32_t>{static_cast<std::int32_t>(f), 0});
      classes.loads[f].push_back({id, own->second});
    }
  }
  return classes;
}

}  // namespace benchsuite
