#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "engine/program/access_history.h"
#include "engine/program/vector_clock.h"
#include "engine/program/verifier_checks.h"

namespace benchsuite {

namespace {

bool holds_values_before_the_step(Purpose purpose) {
  return purpose == Purpose::inputs || purpose == Purpose::parameters || purpose == Purpose::master ||
         purpose == Purpose::moments;
}

std::string_view verb_of(Access access) {
  switch (access) {
    case Access::read:
      return "reads";
    case Access::write:
      return "writes";
    case Access::read_write:
      return "updates";
  }
  return "?";
}

/// A range of an arena as an op touches it.
struct Touch {
  std::uint64_t begin = 0, end = 0;
  BufferId buffer = kNone;
  Access access{};
};

/// An earlier op that this one is not ordered after.
struct Conflict {
  OpId op = kNone;
  Touch touch;              ///< how this op touches the bytes
  std::uint64_t begin = 0;  ///< first byte of the arena in question
};

class AccessCheck {
 public:
  AccessCheck(const Program& program, FindingLog& log) : program_(program), log_(log), order_(program) {}

  void run() {
    for (OpId id = 0; id < program_.ops.size(); ++id) {
      VectorClock& clock = order_.enter();
      check_waits(id);
      // Reads first: an op reads before it writes.
      for (const Operand& operand : program_.operands_of(program_.ops[id])) {
        if (operand.access != Access::write) read(id, clock, operand);
      }
      for (const Operand& operand : program_.operands_of(program_.ops[id])) {
        if (operand.access != Access::read) write(id, clock, operand);
      }
      if (!conflicts_.empty()) report_races(id, clock);
    }
  }

 private:
  /// Cut to the buffer; empty when the buffer is freed already (use_after_free says so).
  Touch touch_of(OpId id, const Operand& operand) const {
    const Buffer& buffer = program_.buffers[operand.buffer];
    if (id >= buffer.free_at) return {};
    const std::uint64_t first = std::min(operand.offset, buffer.bytes);
    const std::uint64_t count = std::min(operand.bytes, buffer.bytes - first);
    return {buffer.offset + first, buffer.offset + first + count, operand.buffer, operand.access};
  }

  AccessHistory& arena_of(BufferId buffer) { return arenas_[static_cast<int>(program_.buffers[buffer].purpose)]; }

  void read(OpId id, const VectorClock& clock, const Operand& operand) {
    const Touch touch = touch_of(id, operand);
    if (touch.begin >= touch.end) return;
    const int stream = static_cast<int>(program_.ops[id].stream);
    const bool defined = holds_values_before_the_step(program_.buffers[operand.buffer].purpose);
    std::uint64_t unwritten_begin = touch.end, unwritten_end = touch.end;
    arena_of(operand.buffer).visit(touch.begin, touch.end, [&](std::uint64_t begin, AccessHistory::Segment& segment) {
      if (!defined && segment.written_as != operand.buffer) {
        if (unwritten_begin == touch.end) unwritten_begin = begin;
        unwritten_end = segment.end;
        segment.written_as = operand.buffer;
      }
      if (segment.writer != kNone && !clock.knows(segment.writer, segment.writer_stream)) {
        conflicts_.push_back({segment.writer, touch, begin});
      }
      segment.readers[stream] = id + 1;
    });
    if (unwritten_begin == touch.end) return;
    const std::uint64_t start = program_.buffers[operand.buffer].offset;
    log_.add({.kind = Finding::Kind::uninitialised_read,
              .rank = program_.rank,
              .op = id,
              .buffer = operand.buffer,
              .text = fmt::format("{} reads bytes that no op has written: within [{}, {}) of {}",
                                  describe(program_, id), unwritten_begin - start, unwritten_end - start,
                                  describe_buffer(program_, operand.buffer))});
  }

  void write(OpId id, const VectorClock& clock, const Operand& operand) {
    const Touch touch = touch_of(id, operand);
    if (touch.begin >= touch.end) return;
    AccessHistory& arena = arena_of(operand.buffer);
    arena.visit(touch.begin, touch.end, [&](std::uint64_t begin, const AccessHistory::Segment& segment) {
      if (segment.writer != kNone && !clock.knows(segment.writer, segment.writer_stream)) {
        conflicts_.push_back({segment.writer, touch, begin});
      }
      for (int stream = 0; stream < kStreams; ++stream) {
        if (segment.readers[stream] > clock.ended[stream]) {
          conflicts_.push_back({segment.readers[stream] - 1, touch, begin});
        }
      }
    });
    arena.overwrite(touch.begin, touch.end, id, program_.ops[id].stream, operand.buffer);
  }

  /// The latest op first: an edge from it often orders the earlier ones too. Each edge reported is taken as given.
  void report_races(OpId id, VectorClock& clock) {
    std::stable_sort(conflicts_.begin(), conflicts_.end(),
                     [](const Conflict& a, const Conflict& b) { return a.op > b.op; });
    for (const Conflict& conflict : conflicts_) {
      if (clock.knows(conflict.op, program_.ops[conflict.op].stream)) continue;
      const Touch other = touch_at(conflict);
      std::string text = fmt::format(
          "{} {} {} while {} may still be using it ({}{}); op {} needs to wait for op {}", describe(program_, id),
          verb_of(conflict.touch.access), describe_buffer(program_, conflict.touch.buffer),
          describe(program_, conflict.op), verb_of(other.access),
          other.buffer == conflict.touch.buffer ? " the same buffer"
                                                : ", in the same range, " + describe_buffer(program_, other.buffer),
          id, conflict.op);
      log_.add({.kind = Finding::Kind::race,
                .rank = program_.rank,
                .op = id,
                .other_op = conflict.op,
                .buffer = conflict.touch.buffer,
                .text = std::move(text)});
      clock.join(order_.of(conflict.op));
    }
    conflicts_.clear();
  }

  /// How the earlier op of a conflict touches the byte in question. It does: it stands in the history of that byte.
  Touch touch_at(const Conflict& conflict) const {
    const Purpose purpose = program_.buffers[conflict.touch.buffer].purpose;
    Touch found;
    for (const Operand& operand : program_.operands_of(program_.ops[conflict.op])) {
      if (program_.buffers[operand.buffer].purpose != purpose) continue;
      const Touch touch = touch_of(conflict.op, operand);
      if (touch.begin > conflict.begin || conflict.begin >= touch.end) continue;
      if (found.buffer == kNone || touch.access != Access::read) found = touch;
    }
    return found;
  }

  void check_waits(OpId id) {
    for (const OpId wait : program_.waits_of(program_.ops[id])) {
      if (wait < id) continue;
      const std::string problem = wait == id                   ? "itself"
                                  : wait < program_.ops.size() ? "the later " + describe(program_, wait)
                                                               : fmt::format("op {}, which does not exist", wait);
      log_.add({.kind = Finding::Kind::bad_wait,
                .rank = program_.rank,
                .op = id,
                .other_op = wait,
                .text = fmt::format("{} waits for {}", describe(program_, id), problem)});
    }
  }

  const Program& program_;
  FindingLog& log_;
  HappensBefore order_;
  std::array<AccessHistory, kPurposes> arenas_;
  std::vector<Conflict> conflicts_;  // of the current op
};

}  // namespace

void check_accesses(const Program& program, FindingLog& log) { AccessCheck(program, log).run(); }

}  // namespace benchsuite
