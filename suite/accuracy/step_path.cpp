#include "suite/accuracy/step_path.h"

#include <algorithm>

#include "engine/core/error.h"

namespace benchsuite {

namespace {

constexpr double kSeconds = kSecondsPerPicosecond;

/// Whether two entries stand for the same. Scalars hold what depends on the number of micro-batches (the loss's mean).
bool same_entry(const PathEntry& a, const PathEntry& b) {
  OpShape shape = a.shape;
  shape.scalars = b.shape.scalars;
  return shape == b.shape && a.site == b.site && a.span == b.span;
}

void add(PathEntry entry, std::vector<PathEntry>& entries) {
  const auto known = std::find_if(entries.begin(), entries.end(), [&](const PathEntry& e) { return same_entry(e, entry); });
  if (known == entries.end()) {
    entries.push_back(std::move(entry));
    return;
  }
  known->seconds += entry.seconds;
  known->crowded_inside_s += entry.crowded_inside_s;
  known->crowded_across_s += entry.crowded_across_s;
}

}  // namespace

double StepPath::seconds() const {
  double sum = launch_s + fixed_s;
  for (const PathEntry& entry : entries) sum += entry.seconds;
  return sum;
}

PathFinder::PathFinder(const World& world) : world_(world) {
  for (const Program* program : world.programs) {
    RoleIndex& role = roles_.emplace_back();
    role.previous.resize(program->ops.size());
    role.of_group.resize(program->groups.size());
    role.last.fill(kNone);
    for (OpId id = 0; id < program->ops.size(); ++id) {
      const Op& op = program->ops[id];
      OpId& last = role.last[static_cast<std::size_t>(op.stream)];
      role.previous[id] = last;
      last = id;
      if (is_communication(op.kind)) role.of_group[op.group].push_back(id);
      if (op.host_waits) role.host_waits.push_back(id);
    }
  }
}

/// One walk back along the chain. Time only falls, so what was in flight beside an op is looked up with cursors.
class PathWalk {
 public:
  PathWalk(const PathFinder& finder, const PricedWorld& priced, const ReplayResult& replayed, const CostModel& costs)
      : finder_(finder), priced_(priced), replayed_(replayed), costs_(costs), sums_(priced.roles.size()) {
    for (std::size_t r = 0; r < sums_.size(); ++r) sums_[r].cursor = finder.roles_[r].last;
  }

  StepPath walk() {
    start_at_the_end();
    for (;;) {
      count();
      if (is_communication(op().kind) && span().ready != span().start) go_to_last_arrival();
      const Picoseconds at = span().ready;
      if (at == 0) break;
      const OpId before = ended_at(at);
      if (before != kNone) {
        id_ = before;
        continue;
      }
      if (const std::optional<HostWait> wait = host_waited(at)) {
        path_.launch_s += static_cast<double>(at - wait->until) * kSeconds;
        id_ = wait->ended;
        continue;
      }
      const Picoseconds first = std::min(at, costs_.host().first);
      path_.launch_s += static_cast<double>(at - first) * kSeconds;
      path_.fixed_s = static_cast<double>(first) * kSeconds;
      break;
    }
    gather();
    return std::move(path_);
  }

 private:
  struct Sum {
    Picoseconds spent = 0, inside = 0, across = 0;
  };
  struct RoleSums {
    std::vector<Sum> compute;   // [shape * kSites + site]
    std::vector<Sum> transfer;  // [group * shapes + shape]
    std::array<OpId, kStreams> cursor{};
  };

  const Program& program() const { return *priced_.roles[role_].program; }
  const Op& op() const { return program().ops[id_]; }
  const Span& span() const { return replayed_.timelines[role_].spans[id_]; }

  void start_at_the_end() {
    for (std::size_t r = 0; r < priced_.roles.size(); ++r) {
      if (replayed_.timelines[r].end != replayed_.step) continue;
      for (const OpId last : finder_.roles_[r].last) {
        if (last == kNone || replayed_.timelines[r].spans[last].end != replayed_.step) continue;
        role_ = r;
        id_ = last;
        return;
      }
    }
    CHECK(false) << "no op ends with the step";
  }

  void count() {
    RoleSums& sums = sums_[role_];
    const std::size_t shapes = program().shapes.size();
    const Picoseconds spent = span().end - span().start;
    if (is_communication(op().kind)) {
      if (sums.transfer.empty()) sums.transfer.resize(program().groups.size() * shapes);
      sums.transfer[op().group * shapes + op().shape].spent += spent;
      return;
    }
    if (sums.compute.empty()) sums.compute.resize(shapes * kSites);
    const std::size_t at = op().shape * kSites + static_cast<std::size_t>(op().site);
    sums.compute[at].spent += spent;
    const ComputeCost& alone = priced_.roles[role_].compute[at];
    if (spent <= alone.duration || alone.sm_permille == 0) return;
    switch (in_flight()) {
      case Beside::inside:
        sums.compute[at].inside += spent - alone.duration;
        break;
      case Beside::across:
        sums.compute[at].across += spent - alone.duration;
        break;
      case Beside::nothing:
        break;
    }
  }

  enum class Beside : std::uint8_t { nothing, inside, across };
  /// Whether a collective that holds SMs was resident during the op; one inside the node counts before one across.
  Beside in_flight() {
    RoleSums& sums = sums_[role_];
    const auto& spans = replayed_.timelines[role_].spans;
    const PricedRole& priced = priced_.roles[role_];
    Beside found = Beside::nothing;
    for (std::size_t stream = 0; stream < kStreams; ++stream) {
      if (stream == static_cast<std::size_t>(StreamKind::compute)) continue;
      OpId& cursor = sums.cursor[stream];
      while (cursor != kNone && spans[cursor].ready >= span().end) cursor = finder_.roles_[role_].previous[cursor];
      if (cursor == kNone || spans[cursor].end <= span().start) continue;
      const Op& beside = program().ops[cursor];
      const std::int32_t transfer = priced.transfer_of[beside.group * program().shapes.size() + beside.shape];
      if (priced.transfers[static_cast<std::size_t>(transfer)].sm_permille == 0) continue;
      if (costs_.span_of(program().groups[beside.group]).nodes == 1) return Beside::inside;
      found = Beside::across;
    }
    return found;
  }

  /// From a collective's op to the one of the member who arrived last.
  void go_to_last_arrival() {
    const Picoseconds start = span().start;
    const std::int32_t global = priced_.roles[role_].group_of[op().group];
    const std::uint32_t sequence = op().group_sequence;
    for (const int member : priced_.groups[static_cast<std::size_t>(global)].roles) {
      const auto r = static_cast<std::size_t>(member);
      const auto& groups = priced_.roles[r].group_of;
      const auto local = static_cast<std::size_t>(std::find(groups.begin(), groups.end(), global) - groups.begin());
      const OpId theirs = finder_.roles_[r].of_group[local][sequence];
      if (replayed_.timelines[r].spans[theirs].ready != start) continue;
      role_ = r;
      id_ = theirs;
      return;
    }
    CHECK(false) << "nobody arrived at a collective when it started";
  }

  /// The op whose end at `at` the current one waited for; kNone where it was its launch.
  OpId ended_at(Picoseconds at) const {
    const OpId last = last_end_before(id_);
    return last != kNone && replayed_.timelines[role_].spans[last].end == at ? last : kNone;
  }

  /// Of all that an op waits for what ended last; kNone where it waits for nothing.
  OpId last_end_before(OpId id) const {
    const auto& spans = replayed_.timelines[role_].spans;
    OpId last = finder_.roles_[role_].previous[id];
    for (const OpId wait : program().waits_of(program().ops[id])) {
      if (last == kNone || spans[wait].end > spans[last].end) last = wait;
    }
    return last;
  }

  struct HostWait {
    Picoseconds until = 0;
    OpId ended = kNone;  ///< what it waited for longest
  };
  /// The wait of the host from which its launches came one behind the other to that of the current op, `at`.
  std::optional<HostWait> host_waited(Picoseconds at) const {
    const std::vector<Picoseconds>& launched_at = priced_.roles[role_].launched_at;
    const Picoseconds behind = at - launched_at[id_];
    if (behind == 0) return std::nullopt;
    const std::vector<OpId>& waits = finder_.roles_[role_].host_waits;
    for (auto wait = std::upper_bound(waits.begin(), waits.end(), id_); wait-- != waits.begin();) {
      const OpId ended = last_end_before(*wait);
      if (ended == kNone) continue;
      const Picoseconds until = replayed_.timelines[role_].spans[ended].end;
      if (until - launched_at[*wait - 1] == behind) return HostWait{until, ended};
    }
    CHECK(false) << "a launch for which the host waited for nothing";
    return std::nullopt;
  }

  void gather() {
    for (std::size_t r = 0; r < sums_.size(); ++r) {
      const Program& program = *priced_.roles[r].program;
      const std::size_t shapes = program.shapes.size();
      for (std::size_t at = 0; at < sums_[r].compute.size(); ++at) {
        const Sum& sum = sums_[r].compute[at];
        if (sum.spent == 0) continue;
        add({program.shapes[at / kSites], static_cast<Site>(at % kSites), std::nullopt, static_cast<double>(sum.spent) * kSeconds,
             static_cast<double>(sum.inside) * kSeconds, static_cast<double>(sum.across) * kSeconds},
            path_.entries);
      }
      for (std::size_t at = 0; at < sums_[r].transfer.size(); ++at) {
        const Sum& sum = sums_[r].transfer[at];
        if (sum.spent == 0) continue;
        add({program.shapes[at % shapes], {}, costs_.span_of(program.groups[at / shapes]),
             static_cast<double>(sum.spent) * kSeconds, 0, 0},
            path_.entries);
      }
    }
  }

  const PathFinder& finder_;
  const PricedWorld& priced_;
  const ReplayResult& replayed_;
  const CostModel& costs_;
  std::vector<RoleSums> sums_;
  std::size_t role_ = 0;
  OpId id_ = 0;
  StepPath path_;
};

StepPath PathFinder::find(const PricedWorld& priced, const ReplayResult& replayed, const CostModel& costs) const {
  CHECK(priced.roles.size() == roles_.size()) << "another world's replay";
  return PathWalk(*this, priced, replayed, costs).walk();
}

StepPath continued(const StepPath& low, const StepPath& high, const std::function<double(double, double)>& line) {
  StepPath result = high;
  result.launch_s = line(low.launch_s, high.launch_s);
  result.fixed_s = line(low.fixed_s, high.fixed_s);
  std::vector<const PathEntry*> of_low(result.entries.size(), nullptr);
  std::vector<char> used(low.entries.size(), 0);
  const auto match = [&](const auto& same) {
    for (std::size_t i = 0; i < result.entries.size(); ++i) {
      for (std::size_t j = 0; !of_low[i] && j < low.entries.size(); ++j) {
        if (used[j] || !same(low.entries[j], result.entries[i])) continue;
        of_low[i] = &low.entries[j];
        used[j] = 1;
      }
    }
  };
  match(same_entry);
  match([](const PathEntry& a, const PathEntry& b) {
    return a.shape.kind == b.shape.kind && a.site == b.site && a.span == b.span;
  });
  const auto continue_entry = [&](PathEntry& entry, const PathEntry& before) {
    entry.seconds = line(before.seconds, entry.seconds);
    entry.crowded_inside_s = line(before.crowded_inside_s, entry.crowded_inside_s);
    entry.crowded_across_s = line(before.crowded_across_s, entry.crowded_across_s);
  };
  for (std::size_t i = 0; i < result.entries.size(); ++i) continue_entry(result.entries[i], of_low[i] ? *of_low[i] : PathEntry{});
  for (std::size_t j = 0; j < low.entries.size(); ++j) {
    if (used[j]) continue;
    PathEntry gone = low.entries[j];
    gone.seconds = gone.crowded_inside_s = gone.crowded_across_s = 0;
    continue_entry(gone, low.entries[j]);
    result.entries.push_back(std::move(gone));
  }
  return result;
}

}  // namespace benchsuite
