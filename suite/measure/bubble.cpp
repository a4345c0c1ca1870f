#include "suite/measure/bubble.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/core/error.h"
#include "engine/parallel/schedule_times.h"

namespace benchsuite {
namespace {

/// Mean length of each pass, in picoseconds: [stage][chunk][forward, backward].
using PassLengths = std::vector<std::vector<std::array<Picoseconds, 2>>>;

struct StageTotals {
  std::vector<std::array<double, 2>> time;  // [chunk][forward, backward], over all micro-batches
  double ranks = 0;
};

PassLengths mean_lengths(const ScheduleShape& shape, const std::vector<RoleMetrics>& roles,
                         const std::vector<std::int64_t>& stages_of) {
  const auto chunks = static_cast<std::size_t>(shape.chunks);
  std::vector<StageTotals> stages(static_cast<std::size_t>(shape.pipeline));
  for (StageTotals& stage : stages) stage.time.resize(chunks);
  for (std::size_t i = 0; i < roles.size(); ++i) {
    const RoleMetrics& role = roles[i];
    StageTotals& stage = stages.at(static_cast<std::size_t>(stages_of.at(i)));
    CHECK(role.passes.time.size() <= chunks) << role.passes.time.size() << " chunks on stage " << stages_of[i];
    const auto ranks = static_cast<double>(role.ranks);
    for (std::size_t chunk = 0; chunk < role.passes.time.size(); ++chunk) {
      for (std::size_t way = 0; way < 2; ++way) {
        stage.time[chunk][way] += ranks * static_cast<double>(role.passes.time[chunk][way]);
      }
    }
    stage.ranks += ranks;
  }
  PassLengths lengths;
  for (const StageTotals& stage : stages) {
    CHECK(stage.ranks > 0) << "a stage without ranks";
    auto& chunk_lengths = lengths.emplace_back(chunks);
    for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
      for (std::size_t way = 0; way < 2; ++way) {
        chunk_lengths[chunk][way] = static_cast<Picoseconds>(
            stage.time[chunk][way] / stage.ranks / static_cast<double>(shape.micro_batches) + 0.5);
      }
    }
  }
  return lengths;
}

/// Mean time of a stage's passes over the step.
double mean_work(const ScheduleShape& shape, const PassLengths& lengths) {
  double work = 0;
  for (const auto& stage : lengths) {
    for (const auto& chunk : stage) work += static_cast<double>(chunk[0] + chunk[1]);
  }
  return work * static_cast<double>(shape.micro_batches) / static_cast<double>(shape.pipeline);
}

double makespan(const ScheduleShape& shape, const PassLengths& lengths, Picoseconds travel) {
  const auto length = [&](std::int64_t rank, const Step& step) {
    return lengths[static_cast<std::size_t>(rank)][static_cast<std::size_t>(step.chunk)]
                  [step.kind == Step::Kind::forward ? 0 : 1];
  };
  return static_cast<double>(
      ScheduleTimes(shape, length, [travel](std::int64_t, const Step&) { return travel; }).makespan());
}

double idle_after_all_passes(const std::vector<RoleMetrics>& roles) {
  Picoseconds end = 0;
  for (const RoleMetrics& role : roles) end = std::max(end, role.passes.end);
  double idle = 0, ranks = 0;
  for (const RoleMetrics& role : roles) {
    ranks += static_cast<double>(role.ranks);
    for (const GanttSpan& span : role.passes.idle_after) {
      idle += static_cast<double>(role.ranks) *
              static_cast<double>(std::max<Picoseconds>(0, span.end - std::max(span.start, end)));
    }
  }
  return idle / ranks;
}

}  // namespace

std::vector<BubblePart> bubble_parts(const ScheduleShape& shape, const std::vector<RoleMetrics>& roles,
                                     const std::vector<std::int64_t>& stages_of, double idle_s) {
  if (shape.pipeline == 1 && idle_s == 0) return {};
  const PassLengths lengths = mean_lengths(shape, roles, stages_of);
  Picoseconds travel = 0;
  std::int64_t sends = 0;
  double launches = 0, ranks = 0;
  for (const RoleMetrics& role : roles) {
    launches += static_cast<double>(role.ranks) * static_cast<double>(role.passes.launches);
    ranks += static_cast<double>(role.ranks);
    travel += role.passes.travel;
    sends += role.passes.sends;
  }
  if (sends > 0) travel /= sends;
  const double work = mean_work(shape, lengths);
  const double formula = bubble_over_ideal(shape) * work;
  const double stages = makespan(shape, lengths, 0);
  const double travelled = makespan(shape, lengths, travel);

  std::vector<BubblePart> parts;
  double sum_s = 0;
  const auto add = [&](const char* name, double picoseconds, std::string explanation) {
    parts.push_back({name, picoseconds * kSecondsPerPicosecond, std::move(explanation)});
    sum_s += parts.back().seconds;
  };
  add("formula", formula,
      fmt::format("(p - 1)/(v m) = {:.4g} of {:.4g} s, the passes of a mean rank", bubble_over_ideal(shape),
                  work * kSecondsPerPicosecond));
  add("unequal stages", stages - work - formula,
      "the schedule with the mean pass of each stage and chunk, transfers taking nothing, above the formula");
  add("transfers", travelled - stages,
      fmt::format("the same with results travelling {:.4g} s, the mean of the sends",
                  static_cast<double>(travel) * kSecondsPerPicosecond));
  double exposed = 0;
  for (const RoleMetrics& role : roles)
    exposed += static_cast<double>(role.passes.exposed) * static_cast<double>(role.ranks);
  add("exposed transfers", 0.0 - exposed / ranks,
      "less the transfers that compute waited for: they are a category of their own, not waiting");
  add("launches", launches / ranks,
      "measured: all that was missing was the host's launch of the next op, or of the transfer it waits for");
  add("end of the step", idle_after_all_passes(roles),
      "waiting after the last pass of all ranks, for reductions and optimizers of others");
  const double rest =
      std::round((idle_s - sum_s) / kSecondsPerPicosecond) * kSecondsPerPicosecond;  // nothing is shorter
  parts.push_back({"rest", rest + 0.0,
                   "what is left: passes that vary between micro-batches, blocking transfers, gathers"});
  return parts;
}

}  // namespace benchsuite
