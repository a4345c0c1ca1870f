// The arithmetic of collectives on memory all members can reach. Nothing here waits or locks.
//
// Reductions add in rank order: ((x0 + x1) + x2) + ..., each addition rounded to fp32, so that a result depends
// on the inputs alone and every member gets the same bits, whoever arrives last. bf16 inputs are added like this too, as the
// fp32 values they are, and the whole sum is rounded to bf16 once.
#pragma once

#include <span>

#include "engine/comm/communicator.h"

namespace benchsuite {

/// Runs the collective for all members, `calls` in group order. A member's output may be its own slice of its input
/// (reduce_scatter) or hold its input as its own slice (all_gather); no other overlap is allowed.
/// Reductions take fp32 and bf16; copies take every dtype. Throws Error (internal) on anything else.
void run_collective(std::span<const CollectiveCall> calls);

}  // namespace benchsuite
