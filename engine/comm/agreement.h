// Do the ranks of a world agree on what they will send each other?
//
// Every rank records its own Program. Before the first step the ranks compare, for every group, a hash of its sequence of
// collectives (kind, dtype, reduction, elements): ranks that were started with different configurations or different builds
// would otherwise hang or mix up their data.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/comm/communicator.h"

namespace benchsuite {

/// What a rank does in one group in one step.
struct GroupDigest {
  Group group;
  std::uint64_t collectives = 0;
  std::uint64_t hash = 0;

  friend bool operator==(const GroupDigest&, const GroupDigest&) = default;
};

/// Of every group of the Program, in its order.
std::vector<GroupDigest> digests_of(const Program& program);

/// Throws Error (run) naming two ranks and a group when members of a group differ. `by_rank[r]` is of rank r.
void check_agreement(const std::vector<std::vector<GroupDigest>>& by_rank);

/// All ranks call it: exchanges digests, and `fingerprint` of whatever else must be equal, and checks them.
void agree_on_collectives(Communicator& world, const Program& program, std::uint64_t fingerprint);

}  // namespace benchsuite
