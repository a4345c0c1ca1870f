// Happens-before between the ops of one rank as vector clocks over its streams (Lamport 1978; Mattern 1989): because a
// stream runs its ops in order, "everything of stream s up to op x" is one number.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "engine/program/program.h"

namespace benchsuite {

struct VectorClock {
  /// By stream: ops of it with an id below this have ended.
  std::array<std::uint32_t, kStreams> ended{};

  bool knows(OpId op, StreamKind stream) const { return op < ended[static_cast<int>(stream)]; }
  void join(const VectorClock& other) {
    for (int s = 0; s < kStreams; ++s) ended[s] = std::max(ended[s], other.ended[s]);
  }
};

/// The clocks of a Program's ops, made one op at a time in recording order.
class HappensBefore {
 public:
  explicit HappensBefore(const Program& program) : program_(program) { clocks_.reserve(program.ops.size()); }

  /// The next op: what has ended when it starts, itself included. Waits for ops not yet entered are ignored.
  VectorClock& enter() {
    const auto id = static_cast<OpId>(clocks_.size());
    const Op& op = program_.ops[id];
    std::uint32_t& tail = tail_[static_cast<int>(op.stream)];
    VectorClock clock = tail == 0 ? VectorClock{} : clocks_[tail - 1];
    for (const OpId wait : program_.waits_of(op)) {
      if (wait < id) clock.join(clocks_[wait]);
    }
    tail = id + 1;
    clock.ended[static_cast<int>(op.stream)] = id + 1;
    return clocks_.emplace_back(clock);
  }

  const VectorClock& of(OpId op) const { return clocks_[op]; }

 private:
  const Program& program_;
  std::vector<VectorClock> clocks_;
  std::array<std::uint32_t, kStreams> tail_{};  // last op entered of each stream, plus one
};

}  // namespace benchsuite
