#include "engine/program/verifier.h"

#include <fmt/format.h>

#include "engine/core/error.h"
#include "engine/program/verifier_checks.h"

namespace benchsuite {

std::string_view name_of(Finding::Kind kind) {
  switch (kind) {
    case Finding::Kind::race:
      return "race";
    case Finding::Kind::use_after_free:
      return "use_after_free";
    case Finding::Kind::uninitialised_read:
      return "uninitialised_read";
    case Finding::Kind::leak:
      return "leak";
    case Finding::Kind::overlap_of_live_buffers:
      return "overlap_of_live_buffers";
    case Finding::Kind::out_of_bounds:
      return "out_of_bounds";
    case Finding::Kind::bad_wait:
      return "bad_wait";
    case Finding::Kind::unmatched_collective:
      return "unmatched_collective";
    case Finding::Kind::misordered_collective:
      return "misordered_collective";
    case Finding::Kind::size_mismatch:
      return "size_mismatch";
    case Finding::Kind::deadlock:
      return "deadlock";
  }
  return "?";
}

void FindingLog::add(Finding finding) {
  int& count = counts_[{finding.rank, finding.kind}];
  ++count;
  if (count > kFindingsPerKind + 1) return;
  if (count == kFindingsPerKind + 1) {
    finding = {.kind = finding.kind, .rank = finding.rank, .text = "there are more of this kind on this rank"};
  }
  finding.text = fmt::format("{}: rank {}: {}", name_of(finding.kind), finding.rank, finding.text);
  findings_.push_back(std::move(finding));
}

std::string describe(const Program& program, OpId id) {
  const Op& op = program.ops[id];
  std::string text = fmt::format("op {} {} ({}, {}", id, name_of(op.kind), name_of(op.phase), name_of(op.site));
  if (op.layer >= 0) text += fmt::format(", layer {}", op.layer);
  if (op.chunk >= 0) text += fmt::format(", chunk {}", op.chunk);
  if (op.micro_batch >= 0) text += fmt::format(", micro-batch {}", op.micro_batch);
  return text + fmt::format(") on stream {}", name_of(op.stream));
}

std::string describe_buffer(const Program& program, BufferId id) {
  const Buffer& buffer = program.buffers[id];
  const std::string_view term = buffer.term < program.terms.size() ? program.terms[buffer.term] : std::string_view{};
  return fmt::format("buffer {}{}{}{} ({} [{}, {}))", id, term.empty() ? "" : " \"", term, term.empty() ? "" : "\"",
                     name_of(buffer.purpose), buffer.offset, buffer.offset + buffer.bytes);
}

std::string describe(const Group& group) {
  return fmt::format("{} group {{{}}}", name_of(group.kind), fmt::join(group.ranks, ", "));
}

int Roles::role_of(int rank) const {
  const std::size_t world = role_of_rank.empty() ? programs.size() : role_of_rank.size();
  if (rank < 0 || static_cast<std::size_t>(rank) >= world) return -1;
  return role_of_rank.empty() ? rank : role_of_rank[rank];
}

namespace {

/// False when the tables of the Program are broken, so that nothing more can be said about it.
bool check_rank(const Program& program, FindingLog& log) {
  if (!check_tables(program, log)) return false;
  check_lifetimes(program, log);
  check_accesses(program, log);
  check_own_collectives(program, log);
  return true;
}

bool is_of_waits_or_collectives(Finding::Kind kind) {
  return kind == Finding::Kind::bad_wait || kind == Finding::Kind::unmatched_collective ||
         kind == Finding::Kind::misordered_collective || kind == Finding::Kind::size_mismatch;
}

}  // namespace

std::vector<Finding> verify_rank(const Program& program) {
  FindingLog log;
  check_rank(program, log);
  return log.take();
}

std::vector<Finding> verify(std::span<const Program* const> programs, std::span<const int> role_of_rank) {
  const Roles roles{programs, role_of_rank};
  for (const int role : role_of_rank) {
    CHECK(role >= 0 && static_cast<std::size_t>(role) < programs.size()) << "role " << role;
  }
  FindingLog log;
  bool readable = true;
  for (std::size_t role = 0; role < programs.size(); ++role) {
    CHECK(roles.role_of(programs[role]->rank) == static_cast<int>(role))
        << "program " << role << " is of rank " << programs[role]->rank << ", which runs another one";
    if (!check_rank(*programs[role], log)) readable = false;
  }
  if (!readable) return log.take();

  const Communicators communicators = check_collectives(roles, log);
  for (const Finding& finding : log.findings()) {
    if (is_of_waits_or_collectives(finding.kind)) return log.take();
  }
  check_deadlock(roles, communicators, log);
  return log.take();
}

std::string to_string(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& finding : findings) text += finding.text + '\n';
  return text;
}

}  // namespace benchsuite
