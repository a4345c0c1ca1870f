#include "suite/accuracy/steady_state.h"

#include <algorithm>

#include "engine/device/eager_kernels.h"
#include "engine/device/sim/priced_world.h"
#include "engine/parallel/rank_grid.h"
#include "engine/program/memory_summary.h"
#include "engine/train/step.h"
#include "suite/measure/memory_report.h"
#include "suite/measure/metrics.h"
#include "suite/measure/simulate.h"

namespace benchsuite {

namespace {

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;
constexpr std::int64_t kFirstCount = 3, kSecondCount = 5;  // micro-batches without a pipeline
constexpr std::int64_t kSettledCount = 12;  // second count where a caching allocator's fragments must settle: by ten they have

/// What one simulated configuration shows, in numbers that can be continued.
struct Sample {
  double step = 0;
  std::array<double, kCategories> seconds{};
  std::vector<double> compute;  ///< seconds of compute ops by stage
  double host = 0;
  double peak = 0, reserved = 0, saved = 0;
  bool fits = true;
  int busiest = 0;
  std::vector<StepPath> paths;
};

void set_micro_batches(Layout& layout, std::int64_t micro_batches) {
  layout.global_batch = micro_batches * layout.micro_batch * layout.dp;
}

/// Of `depth` layers in a chunk that all of them hold alike; where the split is uneven, as much less in each.
TrainConfig reduced(TrainConfig config, std::int64_t depth, std::int64_t micro_batches) {
  Layout& layout = config.layout;
  const std::int64_t fewer = config.model.layers / (layout.pp * layout.vpp) - depth;
  config.model.layers -= fewer * layout.pp * layout.vpp;
  LayerSplit& split = layout.layer_split;
  for (std::int64_t& stage : split.stages) stage -= fewer * layout.vpp;
  if (split.first_stage > 0) split.first_stage -= fewer * layout.vpp;
  if (split.last_stage > 0) split.last_stage -= fewer * layout.vpp;
  set_micro_batches(layout, micro_batches);
  return config;
}

/// One Program per pipeline stage, and who stands for whom.
struct Stages {
  std::vector<Program> programs;
  World world;
  double peak = 0, reserved = 0, saved = 0;  ///< bytes: most of any stage, saved of the first
  bool fit = true;                           ///< all of them
};

Stages record_stages(const TrainConfig& config, const HardwareProfile& hardware) {
  const RankGrid grid(config.layout);
  Stages stages;
  std::vector<int> ranks;
  for (int stage = 0; stage < config.layout.pp; ++stage) ranks.push_back(grid.rank_at({.dp = 0, .pp = stage}));
  stages.programs = record_programs(
      config, ranks, 1, RecordedDetail::without_operands, {}, [&](std::size_t stage, Program& program) {
        const MeasuredMemory measured = measure_memory(config, static_cast<std::int64_t>(stage), program, hardware.memory_bytes,
                                                       hardware.gpus_per_node);
        stages.fit = stages.fit && measured.fits;
        stages.peak = std::max(stages.peak, measured.stage.peak_bytes);
        stages.reserved = std::max(stages.reserved, measured.reserved_bytes);
        if (stage == 0) stages.saved = measured.stage.saved_bytes;
        program.buffers = std::vector<Buffer>();  // nobody asks again
      });
  for (const Program& program : stages.programs) stages.world.programs.push_back(&program);
  for (int rank = 0; rank < grid.world(); ++rank) stages.world.role_of_rank.push_back(grid.coordinates(rank).pp);
  return stages;
}

/// A world on one machine, replayed.
struct OnMachine {
  OnMachine(const Stages& recorded, const TrainConfig& config, const HardwareProfile& hardware, const Placement& placement)
      : costs(hardware, placement, host_of(config.stack, hardware)) {
    std::string why_not;
    std::optional<PricedWorld> made = price(recorded.world, source_of(costs), why_not);
    if (!made) throw Error(Error::Kind::config, "the ranks of a pipeline stage don't do the same: " + why_not);
    priced = std::move(*made);
    replayed = replay(priced);
  }
  CostModel costs;
  PricedWorld priced;
  ReplayResult replayed;
};

void add_paths(const Stages& recorded, const TrainConfig& config, const OnMachine& base, const Placement& placement,
               const SteadyStateOptions& options, Sample& sample) {
  const PathFinder finder(recorded.world);
  sample.paths.push_back(finder.find(base.priced, base.replayed, base.costs));
  for (const HardwareProfile* other : options.also_on) {
    const OnMachine machine(recorded, config, *other, placement);
    sample.paths.push_back(finder.find(machine.priced, machine.replayed, machine.costs));
  }
}

Sample take(const TrainConfig& config, const Stages& recorded, const HardwareProfile& hardware,
            const SteadyStateOptions& options) {
  Sample sample;
  sample.peak = recorded.peak;
  sample.reserved = recorded.reserved;
  sample.saved = recorded.saved;
  sample.fits = recorded.fit;
  if (options.memory_only) return sample;

  const Placement placement = place(config.layout, hardware.gpus_per_node);
  const OnMachine machine(recorded, config, hardware, placement);
  const ReplayResult& replayed = machine.replayed;
  sample.step = static_cast<double>(replayed.step) * kSecondsPerPicosecond;
  for (std::size_t stage = 0; stage < recorded.programs.size(); ++stage) {
    Picoseconds compute = 0;
    const Program& program = recorded.programs[stage];
    for (std::size_t op = 0; op < program.ops.size(); ++op) {
      if (is_communication(program.ops[op].kind)) continue;
      const Span& span = replayed.timelines[stage].spans[op];
      compute += span.end - span.start;
    }
    sample.compute.push_back(static_cast<double>(compute) * kSecondsPerPicosecond);
    if (sample.compute.back() > sample.compute[static_cast<std::size_t>(sample.busiest)]) {
      sample.busiest = static_cast<int>(stage);
    }
  }
  const auto busiest = static_cast<std::size_t>(sample.busiest);
  const Program& program = recorded.programs[busiest];
  const RankMetrics metrics = measure_rank(program, replayed.timelines[busiest], replayed.step);
  for (int category = 0; category < kCategories; ++category) {
    const auto at = static_cast<std::size_t>(category);
    sample.seconds[at] = static_cast<double>(metrics.breakdown.time[at]) * kSecondsPerPicosecond;
  }
  double launches = 0;
  for (const Op& op : program.ops) launches += launches_of(program.shapes[op.shape]);
  sample.host = static_cast<double>(machine.costs.host().per_op) * kSecondsPerPicosecond * launches;
  if (options.paths) add_paths(recorded, config, machine, placement, options, sample);
  return sample;
}

/// Value at `x` of the line through (x0, a) and (x1, b).
double on_line(double a, double b, std::int64_t x0, std::int64_t x1, std::int64_t x) {
  if (x1 == x0) return a;
  return a + (b - a) * static_cast<double>(x - x0) / static_cast<double>(x1 - x0);
}

/// The sample at `x`: times continued; memory doesn't follow the number of micro-batches.
Sample continued(const Sample& low, const Sample& high, std::int64_t x0, std::int64_t x1, std::int64_t x) {
  const auto line = [&](double a, double b) { return std::max(0.0, on_line(a, b, x0, x1, x)); };
  Sample result = high;
  result.step = line(low.step, high.step);
  result.host = line(low.host, high.host);
  for (std::size_t i = 0; i < result.seconds.size(); ++i) result.seconds[i] = line(low.seconds[i], high.seconds[i]);
  for (std::size_t i = 0; i < result.paths.size(); ++i) {
    result.paths[i] = continued(low.paths[i], high.paths[i], [&](double a, double b) { return on_line(a, b, x0, x1, x); });
  }
  return result;
}

/// Micro-batches at which the step is measured: one number, or two to continue from.
std::vector<std::int64_t> micro_batches_of(const TrainConfig& config, bool whole) {
  const Layout& layout = config.layout;
  const std::int64_t m = layout.micro_batches();
  const bool interleaved = layout.schedule == ScheduleKind::interleaved;
  const std::int64_t unit = interleaved ? layout.group() : 1;
  const std::int64_t first = interleaved ? 2 * unit : layout.pp == 1 ? kFirstCount : layout.pp + 2;
  const std::int64_t enough = config.stack.caching_allocator ? kSettledCount : kSecondCount;
  const std::int64_t second = interleaved ? 3 * unit : enough + (layout.pp == 1 ? 0 : layout.pp - 1);
  if (whole || m <= second + unit || (m - first) % unit != 0) return {m};
  return {first, second};
}

}  // namespace

std::string dominant_term(const StepEstimate& estimate, std::int64_t stages) {
  static constexpr std::pair<Category, const char*> kTerms[] = {{Category::recompute, "recompute"},
                                                                {Category::optimizer, "optimizer"},
                                                                {Category::tensor, "tensor communication"},
                                                                {Category::tensor_recompute, "recomputed tensor communication"},
                                                                {Category::pipeline, "pipeline communication"},
                                                                {Category::data, "data communication"},
                                                                {Category::embedding, "embedding communication"},
                                                                {Category::global, "global communication"},
                                                                {Category::bubble, "bubble"}};
  std::string dominant = "compute";
  double most = 0.1 * estimate.iteration_s;
  for (const auto& [category, words] : kTerms) {
    const double seconds = estimate.seconds[static_cast<std::size_t>(category)];
    if (seconds <= most) continue;
    most = seconds;
    dominant = words;
  }
  if (dominant == "bubble" && stages == 1) return "host launches";  // without a pipeline nothing else leaves a device idle
  if (dominant == "compute" && estimate.host_s > 0.95 * estimate.iteration_s) return "host launches";
  return dominant;
}

struct StepEstimator::Recorded {
  TrainConfig config;
  Stages stages;
};

StepEstimator::StepEstimator(const TrainConfig& config, const SteadyStateOptions& options)
    : config_(config), options_(options) {}
StepEstimator::~StepEstimator() = default;

const StepEstimator::Recorded& StepEstimator::recorded(std::int64_t micro_batches, const HardwareProfile& hardware) {
  std::unique_ptr<const Recorded>& known = recorded_[{micro_batches, hardware.memory_bytes, hardware.gpus_per_node}];
  if (known) return *known;
  TrainConfig config = config_;
  set_micro_batches(config.layout, micro_batches);
  Stages stages = record_stages(config, hardware);
  known = std::make_unique<const Recorded>(std::move(config), std::move(stages));
  return *known;
}

StepEstimate estimate_step(const TrainConfig& config, const HardwareProfile& hardware, const SteadyStateOptions& options) {
  return StepEstimator(config, options).on(hardware);
}

StepEstimate StepEstimator::on(const HardwareProfile& hardware) {
  const TrainConfig& config = config_;
  const SteadyStateOptions& options = options_;
  const Layout& layout = config.layout;
  std::vector<std::int64_t> counts = micro_batches_of(config, options.whole);
  if (options.memory_only) counts = {counts.back()};  // past the schedule's depth memory doesn't grow with m
  std::vector<Sample> samples;
  for (const std::int64_t m : counts) {
    const Recorded& sampled = recorded(m, hardware);
    samples.push_back(take(sampled.config, sampled.stages, hardware, options));
  }
  const Sample whole = samples.size() == 1
                           ? samples.front()
                           : continued(samples[0], samples[1], counts[0], counts[1], layout.micro_batches());

  StepEstimate estimate;
  estimate.iteration_s = whole.step;
  estimate.seconds = whole.seconds;
  estimate.busiest_stage = whole.busiest;
  estimate.peak_gib = whole.peak / kGiB;
  estimate.reserved_gib = whole.reserved / kGiB;
  estimate.saved_gib = whole.saved / kGiB;
  estimate.fits = whole.fits;
  estimate.host_s = whole.host;
  estimate.paths = whole.paths;
  estimate.samples = "whole";
  if (counts.size() > 1 || counts[0] != layout.micro_batches()) {
    estimate.samples = "micro-batches ";
    for (const std::int64_t m : counts) estimate.samples += std::to_string(m) + (m == counts.back() ? "" : ", ");
    estimate.samples += " of " + std::to_string(layout.micro_batches());
  }
  return estimate;
}

LayerTime estimate_layer(TrainConfig config, const HardwareProfile& hardware) {
  config.layout.pp = config.layout.vpp = config.layout.dp = 1;
  config.layout.schedule = ScheduleKind::one_f_one_b;
  config.layout.layer_split = {};
  const auto passes = [&](std::int64_t depth) {
    const TrainConfig small = reduced(config, depth, 1);
    const Stages recorded = record_stages(small, hardware);
    const Placement placement = place(small.layout, hardware.gpus_per_node);
    const CostModel costs(hardware, placement, host_of(small.stack, hardware));
    const ReplayResult replayed = replay(recorded.world, costs);
    const Program& program = recorded.programs.front();
    // The forward of the layers ends where the head's begins; their backward begins where the final norm's has ended.
    Picoseconds forward_end = 0, backward_start = 0, backward_end = 0;
    for (std::size_t op = 0; op < program.ops.size(); ++op) {
      const Op& at = program.ops[op];
      const Span& span = replayed.timelines.front().spans[op];
      if (at.layer < 0) {
        if (at.phase == Phase::backward && at.site == Site::final_norm) backward_start = std::max(backward_start, span.end);
        continue;
      }
      if (at.phase == Phase::forward) forward_end = std::max(forward_end, span.end);
      if (at.phase == Phase::backward || at.phase == Phase::recompute) backward_end = std::max(backward_end, span.end);
    }
    return LayerTime{static_cast<double>(forward_end) * kSecondsPerPicosecond,
                     static_cast<double>(backward_end - backward_start) * kSecondsPerPicosecond};
  };
  const LayerTime two = passes(2), three = passes(3);
  return {three.forward_s - two.forward_s, three.backward_s - two.backward_s};
}

}  // namespace benchsuite
