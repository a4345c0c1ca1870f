#include "suite/measure/metrics.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "engine/core/error.h"
#include "engine/core/parallel.h"
#include "suite/measure/gantt.h"
#include "suite/measure/launches.h"

namespace benchsuite {
namespace {

/// Groups whose communication is one thing to a reader.
enum class Traffic : std::uint8_t { tensor, pipeline, data, embedding, global };
constexpr std::array<const char*, 5> kTrafficNames{"tensor", "pipeline", "data", "embedding", "global"};

Traffic traffic_of(GroupKind group) {
  switch (group) {
    case GroupKind::tensor:
      return Traffic::tensor;
    case GroupKind::pipeline_forward:
    case GroupKind::pipeline_backward:
      return Traffic::pipeline;
    case GroupKind::data:
    case GroupKind::parameters:
      return Traffic::data;
    case GroupKind::embedding:
      return Traffic::embedding;
    case GroupKind::model_parallel:
    case GroupKind::world:
      return Traffic::global;
  }
  return Traffic::global;
}

std::string kind_name(Traffic traffic, OpKind op, bool recomputed) {
  std::string name = kTrafficNames[static_cast<std::size_t>(traffic)];
  name += ' ';
  name += name_of(op);
  if (recomputed) name += " (recomputed)";
  return name;
}

Category communication_category(const Program& program, const Op& op) {
  switch (traffic_of(program.groups[op.group].kind)) {
    case Traffic::tensor:
      return op.phase == Phase::recompute ? Category::tensor_recompute : Category::tensor;
    case Traffic::pipeline:
      return Category::pipeline;
    case Traffic::data:
      return Category::data;
    case Traffic::embedding:
      return Category::embedding;
    case Traffic::global:
      return Category::global;
  }
  return Category::global;
}

Category compute_category(const Op& op) {
  if (op.kind == OpKind::fill) return Category::optimizer;
  switch (op.phase) {
    case Phase::forward:
      return Category::forward;
    case Phase::recompute:
      return Category::recompute;
    case Phase::backward:
      return Category::backward;
    case Phase::gradient_sync:
    case Phase::parameter_gather:  // what copies and casts around their collectives
      return Category::data;
    case Phase::optimizer:
      return Category::optimizer;
  }
  return Category::optimizer;
}

constexpr std::size_t kFirstTransfer = static_cast<std::size_t>(OpKind::all_gather);
constexpr std::size_t kTransfers = kOpKinds - kFirstTransfer;

std::size_t kind_index(const Program& program, const Op& op) {
  const auto traffic = static_cast<std::size_t>(traffic_of(program.groups[op.group].kind));
  return (traffic * kTransfers + static_cast<std::size_t>(op.kind) - kFirstTransfer) * 2 + (op.phase == Phase::recompute ? 1 : 0);
}

struct Transfer {
  Span span;
  OpId op = kNone;
  std::size_t kind = 0;
};

/// Most chunk-forwards in flight, from the compute ops of one rank.
class InFlight {
 public:
  void see(const Op& op, const Span& span) {
    if (op.micro_batch < 0 || (op.phase != Phase::forward && op.phase != Phase::backward)) return;
    const auto chunk = static_cast<std::size_t>(std::max<std::int16_t>(op.chunk, 0));
    const auto micro_batch = static_cast<std::size_t>(op.micro_batch);
    if (chunk >= passes_.size()) passes_.resize(chunk + 1);
    if (micro_batch >= passes_[chunk].size()) passes_[chunk].resize(micro_batch + 1);
    Pass& pass = passes_[chunk][micro_batch];
    if (op.phase == Phase::backward) {
      pass.end = span.end;
    } else if (pass.start < 0) {
      pass.start = span.start;
    }
  }

  std::int64_t peak() const {
    std::vector<std::pair<Picoseconds, int>> changes;  // at one instant a backward ends before a forward starts
    for (const auto& chunk : passes_) {
      for (const Pass& pass : chunk) {
        if (pass.start < 0) continue;
        changes.emplace_back(pass.start, 1);
        if (pass.end >= 0) changes.emplace_back(pass.end, -1);
      }
    }
    std::sort(changes.begin(), changes.end());
    std::int64_t now = 0, most = 0;
    for (const auto& [time, change] : changes) most = std::max(most, now += change);
    return most;
  }

 private:
  struct Pass {
    Picoseconds start = -1, end = -1;
  };
  std::vector<std::vector<Pass>> passes_;  // [chunk][micro-batch]
};

bool is_of_pass(const Op& op) {
  return op.micro_batch >= 0 &&
         (op.phase == Phase::forward || op.phase == Phase::recompute || op.phase == Phase::backward);
}

void add_to_pass(RankPasses& passes, const Op& op, Picoseconds time, Picoseconds end) {
  if (!is_of_pass(op)) return;
  const auto chunk = static_cast<std::size_t>(std::max<std::int16_t>(op.chunk, 0));
  if (chunk >= passes.time.size()) passes.time.resize(chunk + 1);
  std::vector<Picoseconds>& lengths = passes.time[chunk][op.phase == Phase::forward ? 0 : 1];
  const auto micro_batch = static_cast<std::size_t>(op.micro_batch);
  if (micro_batch >= lengths.size()) lengths.resize(micro_batch + 1);
  lengths[micro_batch] += time;
  passes.end = std::max(passes.end, end);
}

/// Walks the gaps of the compute stream, in order.
class Gaps {
 public:
  Gaps(std::array<std::vector<Transfer>, kStreams>& transfers, const Program& program, RankMetrics& metrics,
       std::vector<KindTotal>& totals)
      : transfers_(transfers), program_(program), metrics_(metrics), totals_(totals) {
    for (std::size_t stream = 1; stream < kStreams; ++stream) {
      if (!transfers_[stream].empty()) streams_.push_back(stream);
    }
  }

  /// `launches`: when only the host's launch is missing. Returns how long of that nothing else was going on either.
  Picoseconds fill(Picoseconds from, Picoseconds to, const std::vector<Interval>& launches) {
    const Picoseconds waited = attribute(from, to, launches);
    count_resident(from, to);
    return waited;
  }

 private:
  /// Streams stand in the order of Category, so the first that transfers has the instant.
  Picoseconds attribute(Picoseconds from, Picoseconds to,
                        const std::vector<Interval>& launches) {
    Picoseconds waited = 0;
    while (from < to) {
      Picoseconds next = to;
      const Transfer* winner = nullptr;
      for (const std::size_t stream : streams_) {
        const auto& list = transfers_[stream];
        std::size_t& at = transferring_[stream];
        while (at < list.size() && list[at].span.end <= from) ++at;
        if (at == list.size()) continue;
        if (list[at].span.start <= from) {
          winner = &list[at];
          next = std::min(next, winner->span.end);
          break;
        }
        next = std::min(next, list[at].span.start);
      }
      GanttSpan span{Category::bubble, -1, -1, from, next};
      if (winner) {
        const Op& op = program_.ops[winner->op];
        span.category = communication_category(program_, op);
        span.micro_batch = op.micro_batch;
        span.chunk = op.chunk;
        totals_[winner->kind].exposed += next - from;
        if (span.category != Category::pipeline) add_to_pass(metrics_.passes, op, next - from, next);
      } else {
        for (const auto& [begin, end] : launches)
          waited += std::max<Picoseconds>(0, std::min(end, next) - std::max(begin, from));
      }
      metrics_.breakdown.time[static_cast<std::size_t>(span.category)] += next - from;
      append_span(metrics_.spans, span);
      from = next;
    }
    return waited;
  }

  void count_resident(Picoseconds from, Picoseconds to) {
    while (from < to) {
      Picoseconds next = to, until = from;
      for (const std::size_t stream : streams_) {
        const auto& list = transfers_[stream];
        std::size_t& at = resident_[stream];
        while (at < list.size() && list[at].span.end <= from) ++at;
        if (at == list.size()) continue;
        if (list[at].span.ready <= from) {
          until = std::max(until, std::min(list[at].span.end, to));
        } else {
          next = std::min(next, list[at].span.ready);
        }
      }
      metrics_.busy += until - from;
      from = until > from ? until : next;
    }
  }

  std::array<std::vector<Transfer>, kStreams>& transfers_;
  const Program& program_;
  RankMetrics& metrics_;
  std::vector<KindTotal>& totals_;
  std::vector<std::size_t> streams_;
  std::array<std::size_t, kStreams> transferring_{}, resident_{};
};

std::vector<KindTotal> empty_totals() {
  std::vector<KindTotal> totals(kTrafficNames.size() * kTransfers * 2);
  for (std::size_t i = 0; i < totals.size(); ++i) {
    const auto op = static_cast<OpKind>(kFirstTransfer + i / 2 % kTransfers);
    totals[i].kind = kind_name(static_cast<Traffic>(i / 2 / kTransfers), op, i % 2 == 1);
  }
  return totals;
}

}  // namespace

double pass_time(const RankPasses& passes) {
  double sum = 0;
  for (const auto& chunk : passes.time) {
    for (const auto& lengths : chunk) {
      for (const Picoseconds length : lengths) sum += static_cast<double>(length);
    }
  }
  return sum;
}

std::string communication_kind(GroupKind group, OpKind op, bool recomputed) { return kind_name(traffic_of(group), op, recomputed); }

bool is_communication_kind(const std::string& kind) {
  const std::vector<KindTotal> kinds = empty_totals();
  return std::any_of(kinds.begin(), kinds.end(), [&](const KindTotal& known) { return known.kind == kind; });
}

double wire_bytes(const OpShape& shape, std::int64_t members) {
  const double size = static_cast<double>(shape.dims[0]) * static_cast<double>(size_of(shape.dtype));
  const double ring = size * static_cast<double>(members - 1) / static_cast<double>(members);
  switch (shape.kind) {
    case OpKind::all_gather:
    case OpKind::reduce_scatter:
      return ring;
    case OpKind::all_reduce:
      return 2 * ring;
    case OpKind::shift:
    case OpKind::send:
      return size;
    default:
      return 0;
  }
}

RankMetrics measure_rank(const Program& program, const Timeline& timeline, Picoseconds step) {
  CHECK(timeline.spans.size() == program.ops.size())
      << timeline.spans.size() << " spans of " << program.ops.size() << " ops on rank " << program.rank;
  CHECK(timeline.end <= step) << "rank " << program.rank << " ends at " << timeline.end << " ps, after the step's end";
  RankMetrics metrics;
  std::vector<KindTotal> totals = empty_totals();
  std::array<std::vector<Transfer>, kStreams> transfers;
  for (OpId id = 0; id < program.ops.size(); ++id) {
    const Op& op = program.ops[id];
    if (!is_communication(op.kind)) continue;
    const auto members = static_cast<std::int64_t>(program.groups[op.group].ranks.size());
    if (members < 2) continue;
    const Span& span = timeline.spans[id];
    const std::size_t kind = kind_index(program, op);
    transfers[static_cast<std::size_t>(op.stream)].push_back({span, id, kind});
    totals[kind].hidden += span.end - span.start;  // exposed parts are taken off below
    totals[kind].bytes += wire_bytes(program.shape_of(op), members);
    ++totals[kind].calls;
    if (op.kind == OpKind::send) {
      metrics.passes.travel += span.end - span.start;
      ++metrics.passes.sends;
    }
  }

  Gaps gaps(transfers, program, metrics, totals);
  Launches launches(program.ops.size());
  InFlight in_flight;
  Picoseconds now = 0, waited_for_launches = 0;
  for (OpId id = 0; id < program.ops.size(); ++id) {
    const Op& op = program.ops[id];
    launches.see(program, timeline, id);
    if (is_communication(op.kind)) continue;
    const Span& span = timeline.spans[id];
    CHECK(span.start >= now && span.end >= span.start) << "op " << id << " of rank " << program.rank << " runs from "
                                                       << span.start << " to " << span.end << " ps, after " << now;
    if (span.start > now) waited_for_launches += gaps.fill(now, span.start, launches.before(program, timeline, id));
    if (is_of_pass(op)) metrics.passes.launches = waited_for_launches;
    now = span.end;
    const Category category = compute_category(op);
    metrics.breakdown.time[static_cast<std::size_t>(category)] += span.end - span.start;
    metrics.busy += span.end - span.start;
    append_span(metrics.spans, {category, op.micro_batch, op.chunk, span.start, span.end});
    in_flight.see(op, span);
    add_to_pass(metrics.passes, op, span.end - span.start, span.end);
  }
  gaps.fill(now, step, {});
  metrics.peak_in_flight = in_flight.peak();
  for (auto span = metrics.spans.rbegin(); span != metrics.spans.rend() && span->end > metrics.passes.end; ++span) {
    if (span->category == Category::bubble) metrics.passes.idle_after.push_back(*span);
  }
  for (KindTotal& total : totals) {
    if (total.calls == 0) continue;
    total.hidden -= total.exposed;
    metrics.communication.push_back(std::move(total));
  }
  return metrics;
}

std::vector<RoleMetrics> apply_metrics(const World& world, const ReplayResult& replayed, VariantResult& result,
                                       int threads) {
  const std::size_t roles = world.programs.size();
  CHECK(replayed.timelines.size() == roles) << replayed.timelines.size() << " timelines of " << roles << " roles";
  std::vector<std::int64_t> ranks(roles, 0);
  for (const int role : world.role_of_rank) ++ranks[static_cast<std::size_t>(role)];
  const auto all_ranks = static_cast<double>(world.role_of_rank.size());
  const auto step_s = static_cast<double>(replayed.step) * kSecondsPerPicosecond;

  result.step = replayed.step;
  result.iteration_s = step_s;
  result.stages.resize(roles);
  result.mean_breakdown = {};
  result.ranks_in_breakdown = static_cast<std::int64_t>(world.role_of_rank.size());
  result.ops = 0;
  std::vector<RankMetrics> measured(roles);
  for_each_index(roles, threads, [&](std::size_t role) {
    RankMetrics& metrics = measured[role] = measure_rank(*world.programs[role], replayed.timelines[role], replayed.step);
    metrics.spans = simplify(metrics.spans, replayed.step);  // full detail of all ranks at once would fill the memory
  });
  double busy = 0;
  std::vector<RoleMetrics> kept;
  std::vector<KindTotal> sums = empty_totals();
  std::vector<double> exposed(sums.size()), hidden(sums.size());
  for (std::size_t role = 0; role < roles; ++role) {
    const Program& program = *world.programs[role];
    RankMetrics& metrics = measured[role];
    const auto weight = static_cast<double>(ranks[role]);
    StageResult& stage = result.stages[role];
    stage.stage = static_cast<int>(role);
    stage.representative_rank = program.rank;
    stage.breakdown = metrics.breakdown;
    stage.gpu_busy = replayed.step > 0 ? static_cast<double>(metrics.busy) / static_cast<double>(replayed.step) : 0;
    stage.gantt = std::move(metrics.spans);
    stage.peak_in_flight = metrics.peak_in_flight;
    result.ops += static_cast<std::int64_t>(program.ops.size());
    busy += stage.gpu_busy * weight;
    for (std::size_t c = 0; c < kCategories; ++c) {
      result.mean_breakdown.time[c] += metrics.breakdown.time[c] * ranks[role];
    }
    for (const KindTotal& total : metrics.communication) {
      const auto found =
          std::find_if(sums.begin(), sums.end(), [&](const KindTotal& sum) { return sum.kind == total.kind; });
      const auto index = static_cast<std::size_t>(found - sums.begin());
      exposed[index] += static_cast<double>(total.exposed) * weight;
      hidden[index] += static_cast<double>(total.hidden) * weight;
      found->bytes += total.bytes * weight;
      found->calls += total.calls * ranks[role];
    }
    kept.push_back({std::move(metrics.passes), std::move(metrics.communication), ranks[role]});
  }

  const auto mean_s = [&](double picoseconds) { return picoseconds / all_ranks * kSecondsPerPicosecond; };
  const auto total_of = [&](Category category) {
    return static_cast<double>(result.mean_breakdown.time[static_cast<std::size_t>(category)]);
  };
  for (std::size_t i = 0; i < sums.size(); ++i) {
    if (sums[i].calls == 0) continue;
    auto entry = std::find_if(result.communication.begin(), result.communication.end(),
                              [&](const CommunicationTime& known) { return known.kind == sums[i].kind; });
    if (entry == result.communication.end()) {
      result.communication.push_back({sums[i].kind, 0, 0, 0, -1, 0});
      entry = result.communication.end() - 1;
    }
    entry->exposed_s = mean_s(exposed[i]);
    entry->hidden_s = mean_s(hidden[i]);
    entry->bytes = sums[i].bytes / all_ranks;
    entry->calls = std::llround(static_cast<double>(sums[i].calls) / all_ranks);
  }
  double passes = 0;
  for (const RoleMetrics& role : kept) passes += static_cast<double>(role.ranks) * pass_time(role.passes);
  const double idle = total_of(Category::bubble), whole = static_cast<double>(replayed.step) * all_ranks;
  result.gpu_busy = busy / all_ranks;
  result.bubble_share = whole > 0 ? idle / whole : 0;
  result.bubble_over_ideal = passes > 0 ? idle / passes : 0;
  result.recompute_s = mean_s(total_of(Category::recompute));
  return kept;
}

}  // namespace benchsuite
