// The parts of the verifier, and the log they write to. Not for use outside verifier.cpp and the parts themselves.
#pragma once

#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/program/verifier.h"

namespace benchsuite {

class FindingLog {
 public:
  void add(Finding finding);

  const std::vector<Finding>& findings() const { return findings_; }
  std::vector<Finding> take() { return std::move(findings_); }

 private:
  std::vector<Finding> findings_;
  std::map<std::pair<int, Finding::Kind>, int> counts_;  // by rank
};

/// "op 12 gemm (forward, mlp, layer 3, micro-batch 1) on stream compute"
std::string describe(const Program& program, OpId op);
/// "buffer 4 "softmax output" (activations [0, 4096))"
std::string describe_buffer(const Program& program, BufferId buffer);
/// "tensor group {0, 1}"
std::string describe(const Group& group);

/// Every index lies in its table. False: the Program can't be looked at any further.
bool check_tables(const Program& program, FindingLog& log);
/// Lifetimes, bounds, leaks, buffers that overlap while both live.
void check_lifetimes(const Program& program, FindingLog& log);
/// Bad waits, races, reads of unwritten bytes.
void check_accesses(const Program& program, FindingLog& log);
/// What a rank alone can say about its communication ops: membership, dense numbers, order, operand sizes.
void check_own_collectives(const Program& program, FindingLog& log);

/// The roles of a world and who talks to whom.
struct Roles {
  std::span<const Program* const> programs;
  std::span<const int> role_of_rank;  ///< empty: the identity

  int role_of(int rank) const;  ///< -1: there is no such rank
};

/// One communicator: the (role, index into its groups) that are the same thing seen from different ranks.
struct Channel {
  struct Member {
    int role = 0;
    std::uint32_t group = 0;
  };
  std::vector<Member> members;
};

struct Communicators {
  std::vector<std::vector<std::vector<OpId>>> ops;  ///< [role][group]: its communication ops in recording order
  std::vector<std::vector<int>> channel_of;         ///< [role][group]
  std::vector<Channel> channels;
};

/// Finds the channels and compares what their members post.
Communicators check_collectives(const Roles& roles, FindingLog& log);
/// Runs the streams abstractly; reports one ring of waits when they cannot all end.
void check_deadlock(const Roles& roles, const Communicators& communicators, FindingLog& log);

}  // namespace benchsuite
