#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>

#include "engine/program/verifier_checks.h"

namespace benchsuite {

namespace {

bool must_be_freed(Purpose purpose) {
  return purpose == Purpose::activations || purpose == Purpose::communication || purpose == Purpose::workspace;
}

/// [offset, offset + bytes) lies in [0, limit), without overflow.
bool fits(std::uint64_t offset, std::uint64_t bytes, std::uint64_t limit) {
  return bytes <= limit && offset <= limit - bytes;
}

void check_buffers(const Program& program, FindingLog& log) {
  const std::size_t op_count = program.ops.size();
  for (BufferId id = 0; id < program.buffers.size(); ++id) {
    const Buffer& buffer = program.buffers[id];
    const std::uint64_t arena = program.arena_bytes[static_cast<int>(buffer.purpose)];
    if (!fits(buffer.offset, buffer.bytes, arena)) {
      log.add({.kind = Finding::Kind::out_of_bounds,
               .rank = program.rank,
               .buffer = id,
               .text = fmt::format("{} reaches beyond its arena of {} bytes", describe_buffer(program, id), arena)});
    }
    if (buffer.free_at == kNone || buffer.free_at > op_count) {
      if (!must_be_freed(buffer.purpose)) continue;
      log.add({.kind = Finding::Kind::leak,
               .rank = program.rank,
               .buffer = id,
               .text = fmt::format("{}, allocated at op {}, is not freed when the step ends",
                                   describe_buffer(program, id), buffer.alloc_at)});
    } else if (buffer.free_at < buffer.alloc_at) {
      log.add({.kind = Finding::Kind::use_after_free,
               .rank = program.rank,
               .buffer = id,
               .text = fmt::format("{} is freed at op {} and allocated only at op {}", describe_buffer(program, id),
                                   buffer.free_at, buffer.alloc_at)});
    }
  }
}

/// Each buffer is named once, with the first op that uses it outside its life.
void check_uses(const Program& program, FindingLog& log) {
  std::vector<bool> named(program.buffers.size());
  for (OpId id = 0; id < program.ops.size(); ++id) {
    for (const Operand& operand : program.operands_of(program.ops[id])) {
      const Buffer& buffer = program.buffers[operand.buffer];
      if (!fits(operand.offset, operand.bytes, buffer.bytes)) {
        log.add({.kind = Finding::Kind::out_of_bounds,
                 .rank = program.rank,
                 .op = id,
                 .buffer = operand.buffer,
                 .text = fmt::format("{} touches {} bytes at {} of {}, which has {} bytes", describe(program, id),
                                     operand.bytes, operand.offset, describe_buffer(program, operand.buffer),
                                     buffer.bytes)});
      }
      if (id >= buffer.alloc_at && id < buffer.free_at) continue;
      if (named[operand.buffer]) continue;
      named[operand.buffer] = true;
      const bool early = id < buffer.alloc_at;
      log.add({.kind = Finding::Kind::use_after_free,
               .rank = program.rank,
               .op = id,
               .buffer = operand.buffer,
               .text = fmt::format(
                   "{} uses {}, which {} op {}", describe(program, id), describe_buffer(program, operand.buffer),
                   early ? "is allocated only at" : "was freed before", early ? buffer.alloc_at : buffer.free_at)});
    }
  }
}

/// Sweeps allocations and frees in recording order; the live buffers of an arena are kept by offset.
void check_overlaps(const Program& program, FindingLog& log) {
  const auto& buffers = program.buffers;
  std::vector<BufferId> by_alloc(buffers.size());
  std::iota(by_alloc.begin(), by_alloc.end(), 0u);
  // A buffer without bytes, or freed where it is allocated, is live at no op.
  std::erase_if(by_alloc,
                [&](BufferId id) { return buffers[id].bytes == 0 || buffers[id].free_at <= buffers[id].alloc_at; });
  std::vector<BufferId> by_free = by_alloc;
  std::sort(by_alloc.begin(), by_alloc.end(), [&](BufferId a, BufferId b) {
    return std::pair(buffers[a].alloc_at, a) < std::pair(buffers[b].alloc_at, b);
  });
  std::sort(by_free.begin(), by_free.end(), [&](BufferId a, BufferId b) {
    return std::pair(buffers[a].free_at, a) < std::pair(buffers[b].free_at, b);
  });

  std::array<std::map<std::uint64_t, BufferId>, kPurposes> live;
  std::size_t freed = 0;
  for (const BufferId id : by_alloc) {
    const Buffer& buffer = buffers[id];
    for (; freed < by_free.size() && buffers[by_free[freed]].free_at <= buffer.alloc_at; ++freed) {
      const Buffer& gone = buffers[by_free[freed]];
      auto& arena = live[static_cast<int>(gone.purpose)];
      const auto found = arena.find(gone.offset);
      if (found != arena.end() && found->second == by_free[freed]) arena.erase(found);
    }
    auto& arena = live[static_cast<int>(buffer.purpose)];
    auto next = arena.lower_bound(buffer.offset);
    BufferId clash = kNone;
    if (next != arena.end() && next->first - buffer.offset < buffer.bytes) clash = next->second;
    if (next != arena.begin()) {
      const Buffer& before = buffers[std::prev(next)->second];
      if (buffer.offset - before.offset < before.bytes) clash = std::prev(next)->second;
    }
    if (clash == kNone) {
      arena.emplace_hint(next, buffer.offset, id);
      continue;
    }
    log.add(
        {.kind = Finding::Kind::overlap_of_live_buffers,
         .rank = program.rank,
         .op = buffer.alloc_at,
         .buffer = id,
         .text = fmt::format("{}, allocated at op {}, overlaps {}, live from op {} to {}", describe_buffer(program, id),
                             buffer.alloc_at, describe_buffer(program, clash), buffers[clash].alloc_at,
                             buffers[clash].free_at == kNone ? "the end" : fmt::to_string(buffers[clash].free_at))});
  }
}

}  // namespace

bool check_tables(const Program& program, FindingLog& log) {
  bool sound = true;
  const auto complain = [&](OpId id, const std::string& what) {
    sound = false;
    log.add({.kind = Finding::Kind::out_of_bounds, .rank = program.rank, .op = id, .text = what});
  };
  for (BufferId id = 0; id < program.buffers.size(); ++id) {
    if (static_cast<int>(program.buffers[id].purpose) >= kPurposes) {
      complain(kNone, fmt::format("buffer {} has no known purpose", id));
    }
  }
  for (OpId id = 0; id < program.ops.size(); ++id) {
    const Op& op = program.ops[id];
    if (static_cast<int>(op.stream) >= kStreams || static_cast<int>(op.kind) >= kOpKinds) {
      complain(id, fmt::format("op {} has no known kind or stream", id));
      continue;
    }
    if (op.shape >= program.shapes.size()) {
      complain(id, fmt::format("{} has shape {} of {}", describe(program, id), op.shape, program.shapes.size()));
    }
    if (!fits(op.first_wait, op.wait_count, program.waits.size())) {
      complain(id, fmt::format("{} has waits beyond the table of {}", describe(program, id), program.waits.size()));
    }
    if (is_communication(op.kind) ? op.group >= program.groups.size() : op.group != kNone) {
      complain(id, fmt::format("{} has group {} of {}", describe(program, id), op.group, program.groups.size()));
    }
    if (!fits(op.first_operand, op.operand_count, program.operands.size())) {
      complain(id,
               fmt::format("{} has operands beyond the table of {}", describe(program, id), program.operands.size()));
      continue;
    }
    for (const Operand& operand : program.operands_of(op)) {
      if (operand.buffer < program.buffers.size()) continue;
      complain(id,
               fmt::format("{} has buffer {} of {}", describe(program, id), operand.buffer, program.buffers.size()));
    }
  }
  return sound;
}

void check_lifetimes(const Program& program, FindingLog& log) {
  check_buffers(program, log);
  check_uses(program, log);
  check_overlaps(program, log);
}

}  // namespace benchsuite
