// The arithmetic of collectives on memory all members can reach. Nothing here waits or locks.
//
// Reductions add in rank order: ((x0 + x1) + x2) + ..., each addition rounded to fp32, so that a result depends
// on the inputs alone and every member gets the same bits, whoever arrives last.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/program/program.h"

namespace benchsuite {

/// What one member brings to a collective. `elements` is the op table's n: of y for all_gather, of x otherwise.
struct CollectiveCall {
  OpKind kind{};
  DType dtype{};
  Reduction reduction = Reduction::none;
  std::int64_t elements = 0;
  const std::byte* input = nullptr;  ///< x; for all_reduce also the output; null for receive
  std::byte* output = nullptr;       ///< y; null for send
  OpId op = 0;                       ///< for messages
};

/// Runs the collective for all members, `calls` in group order. A member's output may be its own slice of its input
/// (reduce_scatter) or hold its input as its own slice (all_gather); no other overlap is allowed.
/// Reductions are fp32; copies take every dtype. Throws Error (internal) on anything else.
void run_collective(std::span<const CollectiveCall> calls);

}  // namespace benchsuite
