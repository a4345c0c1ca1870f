// What to say when nothing can go on: each waiting op and what it waits for.
#pragma once

#include <string>
#include <vector>

#include "engine/device/sim/priced_world.h"

namespace benchsuite {

/// The head of one stream when the replay stopped.
struct StuckOp {
  int role = 0;
  OpId op = 0;
  bool arrived = false;            ///< a communication op that is posted and waits for members
  OpId waits_for = kNone;          ///< not arrived: the op of the same rank that hasn't ended
  std::vector<int> missing_roles;  ///< arrived: who hasn't posted
};

/// One line per stuck op, in order of rank and stream: rank, stream, op, micro-batch, layer and what it waits for.
std::string describe_deadlock(const PricedWorld& world, const std::vector<StuckOp>& stuck);

/// "all_gather of layer 3, micro-batch 2 (forward, stream tensor, op 17)"
std::string describe_op(const Program& program, OpId id);

}  // namespace benchsuite
