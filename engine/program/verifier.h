// Proves recorded Programs sound, or says what is wrong with them. Shares no code with the recorder, which it checks.
//
// Within a rank an op is ordered after its predecessors on the stream and after the ops it waits for, and nothing else:
// orders that only come about through another rank do not count. The step begins and ends with all streams idle, so
// nothing is compared across steps.
//
//   race                   two ops touch overlapping bytes of an arena (of one buffer or of two that share the
//                          range), one of them writes, and neither is ordered after the other
//   use_after_free         an op outside [alloc_at, free_at) of a buffer it touches
//   uninitialised_read     bytes read that no earlier op wrote since the buffer's allocation. Inputs, parameters,
//                          master weights and moments hold values before the step; all else starts undefined
//   leak                   activations, communication or workspace not freed when the step ends
//   overlap_of_live_buffers
//   out_of_bounds          an operand in its buffer, a buffer in its arena, an index in its table
//   bad_wait               a wait for itself or for an op that is not recorded before
//   unmatched_collective   a member that never posts it, or posts more or fewer, or a rank that is no member
//   misordered_collective  members post the same ops in another order, numbers that are not dense, or two ops of
//                          one group without an order between them
//   size_mismatch          members that disagree about kind, dimensions, dtype or reduction; operands that
//                          disagree with the dimensions
//   deadlock               a ring of streams that wait for each other (looked for only when nothing is wrong with
//                          waits and collectives, whose consequence it would be)
//
// One cause gives one finding: after a race the missing edge is taken as given, after a read of unwritten bytes
// they are taken as written.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/program/program.h"

namespace benchsuite {

struct Finding {
  enum class Kind : std::uint8_t {
    race, use_after_free, uninitialised_read, leak, overlap_of_live_buffers, out_of_bounds, bad_wait,
    unmatched_collective, misordered_collective, size_mismatch, deadlock
  };

  Kind kind{};
  int rank = -1;
  OpId op = kNone;                ///< where it shows
  OpId other_op = kNone;          ///< race, misordered collective, bad wait: the op of this rank it needs to wait for,
                                  ///< or must not; members that disagree: the op of `other_rank`
  int other_rank = -1;
  BufferId buffer = kNone;
  std::string text = {};          ///< names ops (kind, id, layer, micro-batch), rank, stream and the missing edge
};
inline constexpr int kFindingKinds = static_cast<int>(Finding::Kind::deadlock) + 1;
std::string_view name_of(Finding::Kind kind);

/// At most this many findings of one kind are listed for one rank; one more says that there are others.
inline constexpr int kFindingsPerKind = 50;

/// Everything that can be seen on one rank alone, in recording order by concept. Empty: sound.
std::vector<Finding> verify_rank(const Program& program);

/// All ranks: verify_rank of each, then collectives between them and deadlock.
/// `role_of_rank` empty: programs[i] is of global rank i. Otherwise programs[k] is the Program of role k's
/// representative (program->rank), and role_of_rank says by global rank which one it runs; ranks of one role are
/// taken to match. Throws when the roles and the Programs' ranks contradict each other.
std::vector<Finding> verify(std::span<const Program* const> programs, std::span<const int> role_of_rank = {});

/// One finding a line, "" when there are none.
std::string to_string(const std::vector<Finding>& findings);

}  // namespace benchsuite
