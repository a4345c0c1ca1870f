// Memory counted from what ops touched while they ran: no allocation, no release and no mark of the recorder is looked at.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/program/program.h"
#include "engine/program/timeline.h"

namespace benchsuite::testing_train {

/// Op ids by the instant they started; ties by id.
std::vector<OpId> execution_order(const Timeline& timeline);

/// Bytes by purpose at the instant of the most bytes of short-lived buffers (those not alive at the end of the step), each
/// counted from its first to its last touch in `order`; and the most of each purpose by itself.
struct Recount {
  std::array<std::uint64_t, kPurposes> at_peak{};
  std::array<std::uint64_t, kPurposes> peak{};
  std::uint64_t total = 0;  ///< sum of at_peak
};
Recount recount(const Program& program, const std::vector<OpId>& order);

/// Bytes by purpose while op `instant` of the recording runs: `touched` lies between its first and its last touch; `held` does
/// not, but the plan keeps it: a communication op used it last and may still be under way, so that reuse of its range need not
/// wait; or the layer that used it last has not ended its micro-batch, since layers and ZeRO stores release by part.
/// `unexplained` names buffers the plan keeps for no such reason.
struct AtInstant {
  std::array<std::uint64_t, kPurposes> touched{}, held{};
  std::string unexplained;
};
AtInstant recount_at(const Program& program, OpId instant);

/// Most bytes that wait for a backward pass: touched by a forward op for the last time, and by one of recompute or backward
/// again later. Activations and communication only.
std::uint64_t recount_saved(const Program& program, const std::vector<OpId>& order);

/// Two buffers whose touched bytes overlap in an arena while both are between their first and their last touch in real time:
/// how often that happens.
int overlaps_in_time(const Program& program, const Timeline& timeline);

}  // namespace benchsuite::testing_train
