#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>

#include "engine/program/verifier_checks.h"

namespace benchsuite {

namespace {

/// What all members must agree on. A send and its receive agree when both are "point to point".
using Posted = std::tuple<int, int, int, int, std::array<std::int64_t, 6>>;

Posted posted(const Program& program, OpId id) {
  const OpShape& shape = program.shape_of(program.ops[id]);
  const int kind = static_cast<int>(is_point_to_point(shape.kind) ? OpKind::send : shape.kind);
  return {kind, static_cast<int>(shape.dtype), static_cast<int>(shape.out_dtype), static_cast<int>(shape.reduction),
          shape.dims};
}

std::string describe_posted(const Program& program, OpId id) {
  const OpShape& shape = program.shape_of(program.ops[id]);
  return fmt::format("rank {}'s {} of {} {}", program.rank, describe(program, id), shape.dims[0], name_of(shape.dtype));
}

class CollectiveCheck {
 public:
  CollectiveCheck(const Roles& roles, FindingLog& log) : roles_(roles), log_(log) {}

  Communicators run() {
    collect_ops();
    for (int role = 0; role < static_cast<int>(roles_.programs.size()); ++role) {
      for (std::uint32_t group = 0; group < program(role).groups.size(); ++group) {
        if (!ops(role, group).empty()) check_group(role, group);
      }
    }
    make_channels();
    return std::move(result_);
  }

 private:
  const Program& program(int role) const { return *roles_.programs[role]; }
  const std::vector<OpId>& ops(int role, std::uint32_t group) const { return result_.ops[role][group]; }

  void collect_ops() {
    for (const Program* one : roles_.programs) {
      auto& by_group = result_.ops.emplace_back(one->groups.size());
      for (OpId id = 0; id < one->ops.size(); ++id) {
        if (is_communication(one->ops[id].kind)) by_group[one->ops[id].group].push_back(id);
      }
      first_node_.push_back(static_cast<int>(parent_.size()));
      for (std::size_t group = 0; group < one->groups.size(); ++group) {
        parent_.push_back(static_cast<int>(parent_.size()));
      }
    }
  }

  /// The group of `other` that is `group` of `role` seen from its member at `position`, or kNone: the very same ranks,
  /// or, where `other` stands for a sibling of that member, its image: same kind, and members of the same roles.
  std::uint32_t counterpart(int role, std::uint32_t group, std::size_t position, int other) const {
    const Group& wanted = program(role).groups[group];
    const auto& candidates = program(other).groups;
    for (std::uint32_t index = 0; index < candidates.size(); ++index) {
      if (candidates[index] == wanted) return index;
    }
    if (program(other).rank == wanted.ranks[position]) return kNone;
    for (std::uint32_t index = 0; index < candidates.size(); ++index) {
      const Group& image = candidates[index];
      if (image.kind != wanted.kind || image.ranks.size() != wanted.ranks.size()) continue;
      if (std::equal(image.ranks.begin(), image.ranks.end(), wanted.ranks.begin(),
                     [&](int a, int b) { return roles_.role_of(a) == roles_.role_of(b); })) {
        return index;
      }
    }
    return kNone;
  }

  void check_group(int role, std::uint32_t index) {
    const Group& group = program(role).groups[index];
    if (group.ranks.empty()) return;
    const int leader = roles_.role_of(group.ranks[0]);
    if (leader >= 0 && leader != role) {
      const std::uint32_t of_leader = counterpart(role, index, 0, leader);
      if (of_leader != kNone && !ops(leader, of_leader).empty()) return;  // the leader compares all members
      missing(role, index, group.ranks[0]);
      return;
    }
    std::set<std::pair<int, std::uint32_t>> seen;
    for (std::size_t position = 0; position < group.ranks.size(); ++position) {
      const int other = roles_.role_of(group.ranks[position]);
      if (other == role) continue;
      const std::uint32_t theirs = other < 0 ? kNone : counterpart(role, index, position, other);
      if (theirs == kNone || ops(other, theirs).empty()) {
        missing(role, index, group.ranks[position]);
        continue;
      }
      if (!seen.emplace(other, theirs).second) continue;
      compare(role, index, other, theirs);
      parent_[root(node(other, theirs))] = root(node(role, index));
    }
  }

  void missing(int role, std::uint32_t index, int rank) {
    const OpId first = ops(role, index).front();
    log_.add({.kind = Finding::Kind::unmatched_collective,
              .rank = program(role).rank,
              .op = first,
              .other_rank = rank,
              .text = fmt::format("{} and {} others of {} wait for rank {}, which posts none",
                                  describe(program(role), first), ops(role, index).size() - 1,
                                  describe(program(role).groups[index]), rank)});
  }

  /// At most one finding for two members.
  void compare(int role, std::uint32_t index, int other, std::uint32_t theirs) {
    const Program& a = program(role);
    const Program& b = program(other);
    const auto& ours = ops(role, index);
    const auto& others = ops(other, theirs);
    const std::size_t common = std::min(ours.size(), others.size());
    std::size_t at = 0;
    while (at < common && posted(a, ours[at]) == posted(b, others[at])) ++at;
    if (at == ours.size() && at == others.size()) return;

    Finding finding{.rank = b.rank, .other_rank = a.rank};
    const std::string where = fmt::format("number {} in {}: ", at, describe(a.groups[index]));
    if (at == common) {
      const bool more = ours.size() > others.size();
      const Program& longer = more ? a : b;
      const Program& shorter = more ? b : a;
      const OpId op = more ? ours[at] : others[at];
      finding.rank = longer.rank;
      finding.other_rank = shorter.rank;
      finding.op = op;
      finding.kind = Finding::Kind::unmatched_collective;
      finding.text = fmt::format("{}{} has no match: rank {} posts {}, rank {} posts {}", where,
                                 describe_posted(longer, op), a.rank, ours.size(), b.rank, others.size());
    } else {
      finding.op = others[at];
      finding.other_op = ours[at];
      const std::string both = fmt::format("{} meets {}", describe_posted(b, others[at]), describe_posted(a, ours[at]));
      if (ours.size() != others.size()) {
        finding.kind = Finding::Kind::unmatched_collective;
        finding.text = fmt::format("{}{}; rank {} posts {}, rank {} posts {}", where, both, a.rank, ours.size(), b.rank,
                                   others.size());
      } else if (same_in_any_order(a, ours, b, others)) {
        finding.kind = Finding::Kind::misordered_collective;
        finding.text = fmt::format("{}{}; both ranks post the same ops, in another order", where, both);
      } else {
        finding.kind = Finding::Kind::size_mismatch;
        finding.text = fmt::format("{}{}; kind, dimensions, dtype and reduction must be equal", where, both);
      }
    }
    log_.add(std::move(finding));
  }

  static bool same_in_any_order(const Program& a, const std::vector<OpId>& ours, const Program& b,
                                const std::vector<OpId>& others) {
    std::vector<Posted> first, second;
    for (const OpId id : ours) first.push_back(posted(a, id));
    for (const OpId id : others) second.push_back(posted(b, id));
    std::sort(first.begin(), first.end());
    std::sort(second.begin(), second.end());
    return first == second;
  }

  int node(int role, std::uint32_t group) const { return first_node_[role] + static_cast<int>(group); }
  int root(int at) {
    while (parent_[at] != at) at = parent_[at] = parent_[parent_[at]];
    return at;
  }

  void make_channels() {
    std::vector<int> channel_of_root(parent_.size(), -1);
    for (int role = 0; role < static_cast<int>(roles_.programs.size()); ++role) {
      auto& channels = result_.channel_of.emplace_back();
      for (std::uint32_t group = 0; group < program(role).groups.size(); ++group) {
        int& channel = channel_of_root[root(node(role, group))];
        if (channel < 0) {
          channel = static_cast<int>(result_.channels.size());
          result_.channels.emplace_back();
        }
        result_.channels[channel].members.push_back({role, group});
        channels.push_back(channel);
      }
    }
  }

  const Roles& roles_;
  FindingLog& log_;
  Communicators result_;
  std::vector<int> first_node_;  // by role: where its groups begin in parent_
  std::vector<int> parent_;      // union-find over (role, group)
};

}  // namespace

Communicators check_collectives(const Roles& roles, FindingLog& log) { return CollectiveCheck(roles, log).run(); }

}  // namespace benchsuite
