// One collective of one rank over MPI: its messages by phase, and the sum it owes the others.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/comm/communicator.h"
#include "engine/comm/mpi/message_set.h"

namespace benchsuite {

/// One collective of this rank: its messages, by phase.
class MpiExchange final : public Communicator::Rendezvous {
 public:
  /// Posts receives and first sends; `tag` is the group's.
  void begin(MPI_Comm comm, const Group& group, std::size_t member, std::uint32_t sequence, int tag,
             const CollectiveCall& call);
  /// Moves on; true when the operation has just ended.
  bool progress();

  const Group& group() const { return group_; }
  std::uint32_t sequence() const { return sequence_; }
  OpKind kind() const { return call_.kind; }
  std::vector<int> absent() const;

 private:
  struct Part {
    std::int64_t first, count;  // elements
  };
  std::size_t members() const { return group_.ranks.size(); }
  /// Slice of member `j` of `call_.elements`; even where they divide, as reduce_scatter demands.
  Part slice(std::size_t j) const {
    const auto n = static_cast<std::int64_t>(members()), at = static_cast<std::int64_t>(j);
    const std::int64_t first = call_.elements * at / n;
    return {first, call_.elements * (at + 1) / n - first};
  }
  std::int64_t width() const { return size_of(call_.dtype); }
  void post_reduction();
  void reduce_own_slice();
  void end();

  MPI_Comm comm_ = MPI_COMM_NULL;
  Group group_;
  std::size_t member_ = 0;
  std::uint32_t sequence_ = 0;
  int tag_ = 0;
  CollectiveCall call_;
  MessageSet inputs_, results_, sends_;  // receives of the first and of the second phase; all sends
  bool reduced_ = false;
  std::vector<std::byte> received_;  // [members, own slice]: the peers' parts of what this rank adds up
  std::vector<std::byte> sum_;       // all_reduce: the result, until every send of the input has ended
  std::vector<CollectiveCall> reduction_;
};

}  // namespace benchsuite
