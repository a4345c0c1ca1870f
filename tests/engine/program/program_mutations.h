// Breaks Programs one edge at a time, and says by brute force what that breaks: the reference the verifier is held to.
//
// A wait of op b for op a is redundant when a is ordered before b without it: by the stream of b and its other waits.
// Dropping a redundant wait changes nothing. A wait that is not redundant matters when its absence leaves some two ops
// that touch the same bytes, one writing, without an order; the verifier must then find a race, and only then. (A wait
// can be neither: it orders ops that share no bytes, as a communication op that is issued after all compute before it
// does.) All ops of the Program are compared pairwise: meant for Programs of up to a few thousand ops.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "engine/program/program.h"

namespace benchsuite {

/// Everything that ends before `op` starts, by walking the edges back.
inline std::vector<bool> ancestors_of(const Program& program, OpId op) {
  std::vector<OpId> predecessor(program.ops.size(), kNone);
  std::array<OpId, kStreams> last;
  last.fill(kNone);
  for (OpId id = 0; id <= op; ++id) {
    predecessor[id] = std::exchange(last[static_cast<int>(program.ops[id].stream)], id);
  }
  std::vector<bool> seen(program.ops.size());
  std::vector<OpId> open{op};
  while (!open.empty()) {
    const OpId id = open.back();
    open.pop_back();
    const auto go = [&](OpId to) {
      if (to == kNone || seen[to]) return;
      seen[to] = true;
      open.push_back(to);
    };
    go(predecessor[id]);
    for (const OpId wait : program.waits_of(program.ops[id])) go(wait);
  }
  return seen;
}

inline bool touch_same_bytes(const Program& program, OpId a, OpId b) {
  for (const Operand& x : program.operands_of(program.ops[a])) {
    for (const Operand& y : program.operands_of(program.ops[b])) {
      if (x.access == Access::read && y.access == Access::read) continue;
      const Buffer& p = program.buffers[x.buffer];
      const Buffer& q = program.buffers[y.buffer];
      if (p.purpose != q.purpose) continue;
      const std::uint64_t begin = std::max(p.offset + x.offset, q.offset + y.offset);
      const std::uint64_t end = std::min(p.offset + x.offset + x.bytes, q.offset + y.offset + y.bytes);
      if (begin < end) return true;
    }
  }
  return false;
}

/// All (a, b), a < b, that touch the same bytes, one writing, without an order.
inline std::vector<std::pair<OpId, OpId>> races_by_brute_force(const Program& program) {
  std::vector<std::pair<OpId, OpId>> races;
  for (OpId b = 0; b < program.ops.size(); ++b) {
    const std::vector<bool> before = ancestors_of(program, b);
    for (OpId a = 0; a < b; ++a) {
      if (!before[a] && touch_same_bytes(program, a, b)) races.emplace_back(a, b);
    }
  }
  return races;
}

struct DroppedWait {
  const Program& program;  ///< without the wait
  OpId op = kNone;
  OpId waited_for = kNone;
  bool redundant = false;
};

/// Calls `look` with the Program as it is without each of its waits in turn.
inline void for_each_dropped_wait(Program program, const std::function<void(const DroppedWait&)>& look) {
  for (OpId id = 0; id < program.ops.size(); ++id) {
    const std::uint16_t count = program.ops[id].wait_count;
    OpId* waits = program.waits.data() + program.ops[id].first_wait;
    for (std::uint16_t i = 0; i < count; ++i) {
      std::swap(waits[i], waits[count - 1]);
      program.ops[id].wait_count = count - 1;
      look({program, id, waits[count - 1], ancestors_of(program, id)[waits[count - 1]]});
      program.ops[id].wait_count = count;
      std::swap(waits[i], waits[count - 1]);
    }
  }
}

}  // namespace benchsuite
