// Deterministic discrete-event replay of Programs on virtual time (int64 picoseconds; ties break by rank, stream,
// sequence, and decide nothing: see replay.cpp).
//
// A World is a set of roles. Ranks of one role do the same thing at the same time, so one Program stands for all of
// them. Replaying whole means every rank is its own role; `why_not_collapsible` says when a smaller world is not
// equivalent. It judges groups, nodes and links; that the ranks of a role record the same ops is the caller's word.
//
// Shared resources:
//   links  All flows in progress on a link share it equally, weighted by how many ranks of their role use it at once.
//          A flow whose links carry a total weight W runs at duration / (latency + (duration - latency) W); of several
//          links the most loaded counts.
//   SMs    While communication kernels are resident on a rank (waiting or transferring) its compute ops run at
//          1 - (sum of their sm_permille) / 1000, but never below 1/1000.
//
// A collective starts when every role among its group's ranks has arrived; a send and a receive when both have.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/device/sim/cost_model.h"
#include "engine/program/placement.h"
#include "engine/program/program.h"
#include "engine/program/timeline.h"

namespace benchsuite {

struct World {
  std::vector<const Program*> programs;  ///< one per role; program->rank is the role's representative
  std::vector<int> role_of_rank;         ///< by global rank
};

/// Every rank its own role. `programs` by rank.
World whole_world(const std::vector<const Program*>& programs);

/// Whether one representative per role gives every rank's timeline exactly: groups of a role's ranks must be
/// images of each other in roles, nodes and link loads. Returns the reason when not, empty when yes.
std::string why_not_collapsible(const World& world, const CostModel& costs);

struct ReplayResult {
  std::vector<Timeline> timelines;  ///< by role
  Picoseconds step = 0;             ///< when the last op of any role ended
};

/// Throws Error (run) on deadlock, naming each waiting (rank, stream, op) and what it waits for, and when members of a
/// group post different operations.
ReplayResult replay(const World& world, const CostModel& costs);

}  // namespace benchsuite
