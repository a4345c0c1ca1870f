#include "engine/parallel/schedule.h"

#include <algorithm>
#include <string>

namespace benchsuite {

namespace {

std::int64_t total_passes(const ScheduleShape& shape) { return shape.micro_batches * shape.chunks; }

/// A group of `remainder` micro-batches at the end must still keep every stage fed.
bool group_fits(std::int64_t micro_batches, std::int64_t group, std::int64_t pipeline) {
  const std::int64_t remainder = micro_batches % group;
  return remainder == 0 || remainder >= pipeline;
}

/// The smallest group that works for (m, p); m itself always does when m >= p.
std::int64_t smallest_group(std::int64_t micro_batches, std::int64_t pipeline) {
  std::int64_t group = pipeline;
  while (!group_fits(micro_batches, group, pipeline)) ++group;
  return group;
}

/// Virtual index -> (micro-batch, chunk): group by group, within it chunk by chunk, within it micro-batch by
/// micro-batch.
std::vector<Step> forward_table(const ScheduleShape& shape) {
  std::vector<Step> table;
  table.reserve(static_cast<std::size_t>(total_passes(shape)));
  const std::int64_t group = shape.kind == ScheduleKind::interleaved ? shape.group : shape.micro_batches;
  for (std::int64_t first = 0; first < shape.micro_batches; first += group) {
    const std::int64_t last = std::min(first + group, shape.micro_batches);
    for (std::int64_t chunk = 0; chunk < shape.chunks; ++chunk) {
      for (std::int64_t i = first; i < last; ++i) {
        table.push_back({Step::Kind::forward, static_cast<std::int32_t>(i), static_cast<std::int32_t>(chunk)});
      }
    }
  }
  return table;
}

}  // namespace

std::vector<Violation> schedule_violations(const ScheduleShape& shape) {
  std::vector<Violation> problems;
  const auto add = [&](const char* key, std::int64_t value, std::string problem, std::string remedy) {
    problems.push_back({"", key, std::to_string(value), std::move(problem), std::move(remedy)});
  };
  const auto [kind, p, v, m, g] = shape;
  const bool interleaved = kind == ScheduleKind::interleaved;
  if (p < 1) add("layout.pp", p, "must be at least 1", "use 1 for no pipeline");
  if (v < 1) add("layout.vpp", v, "must be at least 1", "use 1 for one model chunk per stage");
  if (m < 1) add("layout.global_batch", m, "leaves no micro-batch", "give every replica at least one micro-batch");
  if (p < 1 || v < 1 || m < 1) return problems;

  if (v > 1 && !interleaved) {
    add("layout.vpp", v, "only the interleaved schedule has several chunks per stage",
        "set layout.schedule to \"interleaved\" or layout.vpp to 1");
  }
  if (v == 1 && interleaved) {
    add("layout.vpp", v, "the interleaved schedule needs at least two chunks per stage",
        "set layout.vpp to 2 or more, or layout.schedule to \"1f1b\"");
  }
  if (v > 1 && p == 1) {
    add("layout.vpp", v, "several chunks per stage need a pipeline, and layout.pp is 1",
        "set layout.vpp to 1 or layout.pp to 2 or more");
  }
  if (!interleaved) return problems;

  const std::string micro_batches = std::to_string(m) + " micro-batch" + (m == 1 ? "" : "es");
  const std::string stages = std::to_string(p) + " pipeline stages";
  if (m < p) {
    add("layout.global_batch", m, "gives " + micro_batches + " a step, too few for " + stages + " when interleaved",
        "give every replica at least " + std::to_string(p) + " micro-batches, or lower layout.pp");
    return problems;  // no group can work
  }
  const std::string advice = "set it to " + std::to_string(smallest_group(m, p));
  if (g < p) {
    add("layout.microbatch_group", g, "smaller than the " + stages, advice);
  } else if (g > m) {
    add("layout.microbatch_group", g, "larger than the " + micro_batches + " of a step", advice);
  } else if (!group_fits(m, g, p)) {
    add("layout.microbatch_group", g,
        "the last group of the " + micro_batches + " would have " + std::to_string(m % g) + ", fewer than the " +
            stages,
        advice + ", or choose layout.global_batch so that every replica has a multiple of " + std::to_string(g));
  }
  return problems;
}

std::int64_t warmup_forwards(const ScheduleShape& shape, std::int64_t rank) {
  CHECK(rank >= 0 && rank < shape.pipeline) << "rank " << rank << " of " << shape.pipeline;
  const std::int64_t behind = shape.pipeline - rank - 1;
  switch (shape.kind) {
    case ScheduleKind::gpipe:
      return shape.micro_batches;
    case ScheduleKind::one_f_one_b:
      return std::min(behind, shape.micro_batches);
    case ScheduleKind::interleaved:
      return std::min(2 * behind + (shape.chunks - 1) * shape.group, total_passes(shape));
  }
  return 0;
}

std::int64_t peak_in_flight(const ScheduleShape& shape, std::int64_t rank) {
  return std::min(warmup_forwards(shape, rank) + 1, total_passes(shape));
}

std::vector<Step> schedule(const ScheduleShape& shape, std::int64_t rank) {
  if (auto problems = schedule_violations(shape); !problems.empty()) throw Error(std::move(problems));
  const std::vector<Step> forwards = forward_table(shape);
  const auto total = static_cast<std::int64_t>(forwards.size());
  const std::int64_t warmup = warmup_forwards(shape, rank);

  // Backward walks the same table with the chunks reversed: the last chunk's gradient exists first.
  const auto backward_of = [&](std::int64_t index) {
    const Step& forward = forwards[static_cast<std::size_t>(index)];
    return Step{Step::Kind::backward, forward.micro_batch, static_cast<std::int32_t>(shape.chunks - 1 - forward.chunk)};
  };

  std::vector<Step> steps;
  steps.reserve(2 * forwards.size());
  steps.insert(steps.end(), forwards.begin(), forwards.begin() + warmup);
  for (std::int64_t k = 0; k + warmup < total; ++k) {
    steps.push_back(forwards[static_cast<std::size_t>(k + warmup)]);
    steps.push_back(backward_of(k));
  }
  for (std::int64_t k = total - warmup; k < total; ++k) steps.push_back(backward_of(k));
  return steps;
}

double bubble_over_ideal(const ScheduleShape& shape) {
  return static_cast<double>(shape.pipeline - 1) / static_cast<double>(total_passes(shape));
}

double bubble_over_step(const ScheduleShape& shape) {
  return static_cast<double>(shape.pipeline - 1) / static_cast<double>(total_passes(shape) + shape.pipeline - 1);
}

ScheduleShape schedule_shape(const Layout& layout) {
  return {.kind = layout.schedule,
          .pipeline = layout.pp,
          .chunks = layout.vpp,
          .micro_batches = layout.micro_batches(),
          .group = layout.group()};
}

}  // namespace benchsuite
