#include "suite/measure/bubble.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/core/error.h"
#include "engine/parallel/schedule_times.h"

namespace benchsuite {
namespace {

/// Length of every pass, the mean over the ranks of a stage: [stage][chunk][forward, backward][micro-batch].
using PassLengths = std::vector<std::vector<std::array<std::vector<double>, 2>>>;

PassLengths pass_lengths(const ScheduleShape& shape, const std::vector<RoleMetrics>& roles,
                         const std::vector<std::int64_t>& stages_of) {
  const auto stages = static_cast<std::size_t>(shape.pipeline), chunks = static_cast<std::size_t>(shape.chunks);
  const auto micro_batches = static_cast<std::size_t>(shape.micro_batches);
  const std::vector<double> none(micro_batches);
  PassLengths lengths(stages, std::vector<std::array<std::vector<double>, 2>>(chunks, {none, none}));
  std::vector<double> ranks(stages);
  for (std::size_t i = 0; i < roles.size(); ++i) ranks.at(static_cast<std::size_t>(stages_of.at(i))) += static_cast<double>(roles[i].ranks);
  for (std::size_t i = 0; i < roles.size(); ++i) {
    const auto stage = static_cast<std::size_t>(stages_of[i]);
    const double share = static_cast<double>(roles[i].ranks) / ranks[stage];
    const auto& time = roles[i].passes.time;
    CHECK(time.size() <= chunks) << time.size() << " chunks on stage " << stage;
    for (std::size_t chunk = 0; chunk < time.size(); ++chunk) {
      for (std::size_t way = 0; way < 2; ++way) {
        CHECK(time[chunk][way].size() <= micro_batches) << time[chunk][way].size() << " micro-batches on stage " << stage;
        for (std::size_t at = 0; at < time[chunk][way].size(); ++at) {
          lengths[stage][chunk][way][at] += share * static_cast<double>(time[chunk][way][at]);
        }
      }
    }
  }
  return lengths;
}

/// Every pass as long as the mean of its stage, chunk and way.
PassLengths averaged(PassLengths lengths) {
  for (auto& stage : lengths) {
    for (auto& chunk : stage) {
      for (std::vector<double>& passes : chunk) {
        const double sum = std::accumulate(passes.begin(), passes.end(), 0.0);
        std::fill(passes.begin(), passes.end(), sum / static_cast<double>(passes.size()));
      }
    }
  }
  return lengths;
}

double makespan(const ScheduleShape& shape, const PassLengths& lengths, double travel) {
  const auto length = [&](std::int64_t rank, const Step& step) {
    return std::llround(lengths[static_cast<std::size_t>(rank)][static_cast<std::size_t>(step.chunk)]
                               [step.kind == Step::Kind::forward ? 0 : 1][static_cast<std::size_t>(step.micro_batch)]);
  };
  const auto on_the_way = [travel](std::int64_t, const Step&) { return std::llround(travel); };
  return static_cast<double>(ScheduleTimes(shape, length, on_the_way).makespan());
}

/// The mean over ranks of `value`.
template <class Value>
double mean(const std::vector<RoleMetrics>& roles, const Value& value) {
  double sum = 0, ranks = 0;
  for (const RoleMetrics& role : roles) {
    sum += static_cast<double>(role.ranks) * static_cast<double>(value(role.passes));
    ranks += static_cast<double>(role.ranks);
  }
  return sum / ranks;
}

double waiting_after(const RankPasses& passes, Picoseconds end) {
  double waiting = 0;
  for (const GanttSpan& span : passes.idle_after) {
    waiting += static_cast<double>(std::max<Picoseconds>(0, span.end - std::max(span.start, end)));
  }
  return waiting;
}

}  // namespace

std::vector<BubblePart> bubble_parts(const ScheduleShape& shape, const std::vector<RoleMetrics>& roles,
                                     const std::vector<std::int64_t>& stages_of, double idle_s) {
  if (shape.pipeline == 1) return {};
  double travel = 0, sends = 0;
  Picoseconds end = 0;
  for (const RoleMetrics& role : roles) {
    travel += static_cast<double>(role.ranks) * static_cast<double>(role.passes.travel);
    sends += static_cast<double>(role.ranks) * static_cast<double>(role.passes.sends);
    end = std::max(end, role.passes.end);
  }
  if (sends > 0) travel /= sends;

  const PassLengths own = pass_lengths(shape, roles, stages_of);
  const double work = mean(roles, pass_time);
  const double formula = bubble_over_ideal(shape) * work;
  const double unequal = makespan(shape, averaged(own), 0), varying = makespan(shape, own, 0);
  const double travelled = makespan(shape, own, travel);
  const double launches = mean(roles, [](const RankPasses& passes) { return passes.launches; });
  const double after = mean(roles, [end](const RankPasses& passes) { return waiting_after(passes, end); });
  const double before = idle_s / kSecondsPerPicosecond - after;
  const auto last = static_cast<double>(end);

  std::vector<BubblePart> parts;
  const auto add = [&](const char* name, double picoseconds, std::string explanation) {
    // Nothing is shorter than a picosecond; what is left of rounding is none.
    parts.push_back({name, std::round(picoseconds) * kSecondsPerPicosecond + 0.0, std::move(explanation)});
  };
  add("formula", formula,
      fmt::format("(p - 1)/(v m) = {:.4g} of {:.4g} s, the passes of a mean rank", bubble_over_ideal(shape),
                  work * kSecondsPerPicosecond));
  add("unequal stages", unequal - work - formula,
      "the schedule with the mean pass of each stage and chunk, transfers taking nothing, above the formula");
  add("varying passes", varying - unequal, "the same with every pass as long as it was");
  add("transfers", travelled - varying,
      fmt::format("the same with results travelling {:.4g} s, the mean of the sends", travel * kSecondsPerPicosecond));
  add("launches", launches,
      "measured: all that was missing was the host's launch of the next op, or of the transfer it waits for");
  add("other work", before - (last - work),
      "less what ranks did meanwhile that is no pass: transfers that compute waited for, reductions, gathers");
  add("end of the step", after, "waiting after the last pass of all ranks, for reductions and optimizers of others");
  add("rest", last - travelled - launches,
      "how much later than that schedule the last pass ended, launches apart: blocking transfers, waits for gathers");
  return parts;
}

}  // namespace benchsuite
