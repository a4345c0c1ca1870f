#include "engine/device/sim/deadlock.h"

#include <sstream>

namespace benchsuite {
namespace {

constexpr std::size_t kMostLines = 64;

/// Where role `role` stands with operation `sequence` of global group `group`.
std::string describe_missing(const PricedWorld& world, int role, std::int32_t group, std::uint32_t sequence) {
  const PricedRole& entry = world.roles[static_cast<std::size_t>(role)];
  const Program& program = *entry.program;
  std::ostringstream text;
  text << "rank " << program.rank;
  for (OpId id = 0; id < program.ops.size(); ++id) {
    const Op& op = program.ops[id];
    if (!is_communication(op.kind) || op.group_sequence != sequence) continue;
    if (entry.group_of[op.group] != group) continue;
    text << ", whose " << describe_op(program, id) << " has not started";
    return text.str();
  }
  text << ", which never posts it";
  return text.str();
}

}  // namespace

std::string describe_op(const Program& program, OpId id) {
  const Op& op = program.ops[id];
  std::ostringstream text;
  text << name_of(op.kind);
  if (op.layer >= 0) text << " of layer " << op.layer;
  if (op.micro_batch >= 0) text << ", micro-batch " << op.micro_batch;
  if (op.chunk > 0) text << ", chunk " << op.chunk;
  text << " (" << name_of(op.phase) << ", stream " << name_of(op.stream) << ", op " << id << ')';
  return text.str();
}

std::string describe_deadlock(const PricedWorld& world, const std::vector<StuckOp>& stuck) {
  std::ostringstream text;
  text << "deadlock: " << stuck.size() << " streams wait and nothing runs";
  std::size_t lines = 0;
  for (const StuckOp& entry : stuck) {
    if (++lines > kMostLines) {
      text << "\n  and " << stuck.size() - kMostLines << " more";
      break;
    }
    const PricedRole& role = world.roles[static_cast<std::size_t>(entry.role)];
    const Program& program = *role.program;
    const Op& op = program.ops[entry.op];
    text << "\n  rank " << program.rank << ": " << describe_op(program, entry.op) << " waits for ";
    if (!entry.arrived) {
      text << describe_op(program, entry.waits_for) << " of the same rank";
      continue;
    }
    const std::int32_t group = role.group_of[op.group];
    const PricedGroup& members = world.groups[static_cast<std::size_t>(group)];
    text << "operation " << op.group_sequence << " of " << name_of(members.group.kind) << " group {";
    for (std::size_t i = 0; i < members.group.ranks.size(); ++i) text << (i ? ", " : "") << members.group.ranks[i];
    text << "}: missing ";
    for (std::size_t i = 0; i < entry.missing_roles.size(); ++i) {
      text << (i ? "; " : "") << describe_missing(world, entry.missing_roles[i], group, op.group_sequence);
    }
  }
  return text.str();
}

}  // namespace benchsuite
