// Deterministic discrete-event replay of Programs on virtual time (int64 picoseconds; ties break by rank, stream,
// sequence, and decide nothing: see replay.cpp).
//
// A World is a set of roles. Ranks of one role do the same thing at the same time, so one Program stands for all of
// them. Replaying whole means every rank is its own role; `why_not_collapsible` says when a smaller world is not
// equivalent. It judges groups, nodes and links; that the ranks of a role record the same ops is the caller's word.
//
// Shared resources, each shared in proportion to what is asked of it:
//   links   The flows in progress on a link, weighted by how many ranks of their role use it at once, ask for W times its
//           rate.
//   SMs     A compute op bound by arithmetic asks for all of a rank's, a communication kernel for its sm_permille as long
//           as it is resident (waiting or transferring).
//   memory  Compute ops and transfers in progress ask for the share of the bandwidth they use when alone.
// Where more than the whole is asked, everyone who uses the resource goes slower by that factor: a GEMM beside a
// collective of 150 permille runs at 1000/1150, and so does the collective. Of several resources the most wanted counts,
// for a flow those of all its members (S): it takes latency + (duration - latency) S.
//
// Host. A rank's host launches its ops in recording order (HostCost), and runs ahead freely, but for where it waits before an op
// until nothing else keeps the op from starting (Op::host_waits): it then goes on from that instant, or from where its
// launches have come to, if that is later, with this op and with all that is recorded behind it, on whatever stream. No op
// starts, and no rank arrives at a collective, before its launch.
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
