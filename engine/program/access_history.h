// Who last touched which bytes of an arena: disjoint segments, each with its last writer and its readers since.
#pragma once

#include <array>
#include <limits>
#include <map>
#include <memory_resource>

#include "engine/program/op.h"

namespace benchsuite {

class AccessHistory {
 public:
  struct Segment {
    std::uint64_t end = 0;
    OpId writer = kNone;
    StreamKind writer_stream{};
    BufferId written_as = kNone;                    ///< the buffer whose content the bytes are
    std::array<std::uint32_t, kStreams> readers{};  ///< last reader of each stream since the write, plus one
  };

  AccessHistory() { segments_.emplace(0, Segment{.end = std::numeric_limits<std::uint64_t>::max()}); }

  /// Calls visit(begin, segment) on the segments of [begin, end), cut to it, in order.
  template <class Visit>
  void visit(std::uint64_t begin, std::uint64_t end, Visit visit) {
    for (auto at = cut(begin); at->first < end; ++at) {
      if (at->second.end > end) split(at, end);
      visit(at->first, at->second);
      if (at->second.end == end) break;
    }
  }

  /// [begin, end), already visited, becomes one segment without readers.
  void overwrite(std::uint64_t begin, std::uint64_t end, OpId writer, StreamKind stream, BufferId buffer) {
    const auto at = segments_.find(begin);
    auto last = std::next(at);
    while (last != segments_.end() && last->first < end) last = segments_.erase(last);
    at->second = {.end = end, .writer = writer, .writer_stream = stream, .written_as = buffer, .readers = {}};
  }

 private:
  using Map = std::pmr::map<std::uint64_t, Segment>;

  Map::iterator split(Map::iterator at, std::uint64_t where) {
    const Segment tail = at->second;
    at->second.end = where;
    return segments_.emplace_hint(std::next(at), where, tail);
  }
  /// The segment that begins at `where`.
  Map::iterator cut(std::uint64_t where) {
    const auto at = std::prev(segments_.upper_bound(where));
    return at->first == where ? at : split(at, where);
  }

  std::pmr::unsynchronized_pool_resource pool_;
  Map segments_{&pool_};
};

}  // namespace benchsuite
