// Which real groups and links one represented flow stands for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/device/sim/priced_world.h"

namespace benchsuite {

/// Ranks of each role, ascending, and each rank's position among them.
struct RoleMembers {
  std::vector<std::vector<int>> ranks;  ///< by role
  std::vector<int> index;               ///< by global rank
};
RoleMembers members_of(const World& world);

/// The groups of all ranks that `group` (of representatives) stands for, itself first: the same members moved by one
/// common step inside each role's list of ranks, which is how a RankGrid lays out the groups of a pipeline stage.
/// Empty, with the reason, when such moves don't cut every role into whole groups.
std::vector<Group> siblings_of(const Group& group, const World& world, const RoleMembers& members, std::string& reason);

/// One flow of the representatives: a transfer of shape `shape` in `group`.
struct RoleFlow {
  const Group* group = nullptr;
  const OpShape* shape = nullptr;
};

struct LinkClasses {
  std::int32_t count = 0;
  std::vector<std::vector<LinkLoad>> loads;  ///< by flow
  std::string reason;                        ///< why the flows can't be collapsed; empty when they can
};
LinkClasses classify_links(const std::vector<RoleFlow>& flows, const World& world, const CostSource& costs);

/// Whether each role has exactly one rank.
bool is_whole(const World& world);

}  // namespace benchsuite
