#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "engine/program/vector_clock.h"
#include "engine/program/verifier_checks.h"

namespace benchsuite {

namespace {

/// Bytes of each operand by the op table, empty when the elements can't be shared out evenly.
std::vector<std::uint64_t> operand_bytes(const OpShape& shape, std::size_t members) {
  const auto whole = static_cast<std::uint64_t>(shape.dims[0] * size_of(shape.dtype));
  const auto count = static_cast<std::int64_t>(members);
  switch (shape.kind) {
    case OpKind::all_gather:
    case OpKind::reduce_scatter: {
      if (count == 0 || shape.dims[0] % count != 0) return {};
      const std::uint64_t part = whole / members;
      return shape.kind == OpKind::all_gather ? std::vector{part, whole} : std::vector{whole, part};
    }
    case OpKind::shift:
      return {whole, whole};
    default:
      return {whole};
  }
}

/// The rank's place in the group, and the operands against the dimensions.
void check_op(const Program& program, OpId id, FindingLog& log) {
  const Op& op = program.ops[id];
  const OpShape& shape = program.shape_of(op);
  const Group& group = program.groups[op.group];

  const auto at = std::find(group.ranks.begin(), group.ranks.end(), program.rank);
  std::string problem;
  if (at == group.ranks.end()) {
    problem = "is not one of";
  } else if (is_point_to_point(op.kind)) {
    const std::size_t wanted = op.kind == OpKind::send ? 0 : 1;
    if (group.ranks.size() != 2 || group.ranks[wanted] != program.rank) {
      problem = op.kind == OpKind::send ? "is not the source of" : "is not the destination of";
    }
  }
  if (!problem.empty()) {
    log.add(
        {.kind = Finding::Kind::unmatched_collective,
         .rank = program.rank,
         .op = id,
         .text = fmt::format("{} is posted by a rank that {} {}", describe(program, id), problem, describe(group))});
  }

  const std::vector<std::uint64_t> wanted = operand_bytes(shape, group.ranks.size());
  std::vector<std::uint64_t> found;
  for (const Operand& operand : program.operands_of(op)) found.push_back(operand.bytes);
  if (shape.kind != op.kind || wanted != found || wanted.empty()) {
    log.add({.kind = Finding::Kind::size_mismatch,
             .rank = program.rank,
             .op = id,
             .text = fmt::format("{} of {} {} elements among {} ranks touches {{{}}} bytes, where {{{}}} are due",
                                 describe(program, id), shape.dims[0], name_of(shape.dtype), group.ranks.size(),
                                 fmt::join(found, ", "), fmt::join(wanted, ", "))});
  }
}

}  // namespace

void check_own_collectives(const Program& program, FindingLog& log) {
  struct Last {
    OpId op = kNone;
    std::uint32_t count = 0;
    bool dense = true;
  };
  std::vector<Last> last(program.groups.size());
  std::vector<std::pair<OpId, OpId>> across_streams;
  for (OpId id = 0; id < program.ops.size(); ++id) {
    const Op& op = program.ops[id];
    if (!is_communication(op.kind)) continue;
    check_op(program, id, log);
    Last& previous = last[op.group];
    if (previous.dense && op.group_sequence != previous.count) {
      previous.dense = false;
      log.add({.kind = Finding::Kind::misordered_collective,
               .rank = program.rank,
               .op = id,
               .text = fmt::format("{} has number {} in {}, though {} came before it", describe(program, id),
                                   op.group_sequence, describe(program.groups[op.group]), previous.count)});
    }
    if (previous.op != kNone && program.ops[previous.op].stream != op.stream)
      across_streams.emplace_back(previous.op, id);
    previous.op = id;
    ++previous.count;
  }
  if (across_streams.empty()) return;

  HappensBefore order(program);
  auto next = across_streams.begin();
  for (OpId id = 0; id < program.ops.size() && next != across_streams.end(); ++id) {
    const VectorClock& clock = order.enter();
    if (next->second != id) continue;
    const OpId before = next->first;
    ++next;
    if (clock.knows(before, program.ops[before].stream)) continue;
    log.add(
        {.kind = Finding::Kind::misordered_collective,
         .rank = program.rank,
         .op = id,
         .other_op = before,
         .text = fmt::format("{} and {} use {} in no order; op {} needs to wait for op {}", describe(program, id),
                             describe(program, before), describe(program.groups[program.ops[id].group]), id, before)});
  }
}

}  // namespace benchsuite
