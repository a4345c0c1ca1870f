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
constexpr std::int64_t kShallow = 12;  // chunks up to this deep are simulated whole
constexpr std::int64_t kFirstDepth = 4, kSecondDepth = 8;
constexpr double kHostShare = 0.5;     // of the step that launches take, from which on depth is not continued
constexpr std::int64_t kFirstCount = 3, kSecondCount = 5;  // micro-batches without a pipeline

/// What one simulated configuration shows, in numbers that can be continued.
struct Sample {
  double step = 0;
  std::array<double, kCategories> seconds{};
  std::vector<double> compute;  ///< seconds of compute ops by stage
  double host = 0;
  double peak = 0, reserved = 0, saved = 0;
  int busiest = 0;
  std::vector<StepPath> paths;
};

/// Of `depth` layers in a chunk that all of them hold alike; where the split is uneven, as much less in each.
TrainConfig reduced(TrainConfig config, std::int64_t depth, std::int64_t micro_batches) {
  Layout& layout = config.layout;
  const std::int64_t fewer = config.model.layers / (layout.pp * layout.vpp) - depth;
  config.model.layers -= fewer * layout.pp * layout.vpp;
  LayerSplit& split = layout.layer_split;
  for (std::int64_t& stage : split.stages) stage -= fewer * layout.vpp;
  if (split.first_stage > 0) split.first_stage -= fewer * layout.vpp;
  if (split.last_stage > 0) split.last_stage -= fewer * layout.vpp;
  layout.global_batch = micro_batches * layout.micro_batch * layout.dp;
  return config;
}

/// One Program per pipeline stage, and who stands for whom.
struct Stages {
  std::vector<Program> programs;
  World world;
  double peak = 0, reserved = 0, saved = 0;  ///< bytes: most of any stage, saved of the first
};

Stages record_stages(const TrainConfig& config) {
  const RankGrid grid(config.layout);
  Stages stages;
  std::vector<int> ranks;
  for (int stage = 0; stage < config.layout.pp; ++stage) ranks.push_back(grid.rank_at({.dp = 0, .pp = stage}));
  stages.programs = record_programs(
      config, ranks, 1, RecordedDetail::without_operands, {}, [&](std::size_t stage, Program& program) {
        const MeasuredMemory measured = measure_memory(config, static_cast<std::int64_t>(stage), program);
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

/// The sample at `x`: every number continued.
Sample continued(const Sample& low, const Sample& high, std::int64_t x0, std::int64_t x1, std::int64_t x) {
  const auto line = [&](double a, double b) { return std::max(0.0, on_line(a, b, x0, x1, x)); };
  Sample result = high;
  result.step = line(low.step, high.step);
  result.host = line(low.host, high.host);
  for (std::size_t i = 0; i < result.seconds.size(); ++i) result.seconds[i] = line(low.seconds[i], high.seconds[i]);
  result.peak = line(low.peak, high.peak);
  result.reserved = line(low.reserved, high.reserved);
  result.saved = line(low.saved, high.saved);
  for (std::size_t i = 0; i < result.paths.size(); ++i) {
    result.paths[i] = continued(low.paths[i], high.paths[i], [&](double a, double b) { return on_line(a, b, x0, x1, x); });
  }
  return result;
}

/// Whether taking all but kFirstDepth of `depth` layers from every chunk of an uneven split leaves each a layer.
bool deep_enough(const Layout& layout, std::int64_t depth) {
  const LayerSplit& split = layout.layer_split;
  std::vector<std::int64_t> stages = split.stages;
  for (const std::int64_t stage : {split.first_stage, split.last_stage}) {
    if (stage > 0) stages.push_back(stage);
  }
  return std::all_of(stages.begin(), stages.end(),
                     [&](std::int64_t stage) { return stage / layout.vpp > depth - kFirstDepth; });
}

/// Micro-batches at which the step is measured: one number, or two to continue from.
std::vector<std::int64_t> micro_batches_of(const Layout& layout, bool whole) {
  const std::int64_t m = layout.micro_batches();
  const bool interleaved = layout.schedule == ScheduleKind::interleaved;
  const std::int64_t unit = interleaved ? layout.group() : 1;
  const std::int64_t first = interleaved ? 2 * unit : layout.pp == 1 ? kFirstCount : layout.pp + 2;
  const std::int64_t second = interleaved ? 3 * unit : layout.pp == 1 ? kSecondCount : layout.pp + 4;
  if (whole || m <= second + unit || (m - first) % unit != 0) return {m};
  return {first, second};
}

}  // namespace

std::string dominant_term(const StepEstimate& estimate) {
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

const StepEstimator::Recorded& StepEstimator::recorded(std::int64_t depth, std::int64_t micro_batches) {
  std::unique_ptr<const Recorded>& known = recorded_[{depth, micro_batches}];
  if (known) return *known;
  const Layout& layout = config_.layout;
  const bool same =
      depth == config_.model.layers / (layout.pp * layout.vpp) && micro_batches == layout.micro_batches();
  TrainConfig config = same ? config_ : reduced(config_, depth, micro_batches);
  Stages stages = record_stages(config);
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
  const std::int64_t depth = config.model.layers / (layout.pp * layout.vpp);
  // Buckets of an overlapped reduction hold several layers: how much of it stays exposed doesn't grow layer by layer.
  const bool by_bucket = config.stack.overlaps_gradient_reduction && layout.replicas() > 1 && layout.zero_stage <= 2;
  const bool deep = !options.whole && !by_bucket && depth > kShallow && layout.recompute.num_layers == 1 &&
                    deep_enough(layout, depth);
  std::vector<std::int64_t> depths = deep ? std::vector{kFirstDepth, kSecondDepth} : std::vector{depth};
  std::vector<std::int64_t> counts = micro_batches_of(layout, options.whole);
  if (options.memory_only) {
    // Past the schedule's depth memory doesn't grow with m.
    counts.resize(1);
  }
  std::vector<Sample> by_depth;
  for (std::size_t place = 0; place < depths.size(); ++place) {
    const std::int64_t l = depths[place];
    std::vector<Sample> by_count;
    for (const std::int64_t m : counts) {
      const Recorded& sampled = recorded(l, m);
      by_count.push_back(take(sampled.config, sampled.stages, hardware, options));
    }
    by_depth.push_back(by_count.size() == 1 ? by_count.front()
                                            : continued(by_count[0], by_count[1], counts[0], counts[1],
                                                        layout.micro_batches()));
    if (by_count.size() == 2) {  // memory doesn't follow m
      by_depth.back().peak = by_count[1].peak;
      by_depth.back().reserved = by_count[1].reserved;
      by_depth.back().saved = by_count[1].saved;
    }
    if (l != depth && by_depth.back().host > kHostShare * by_depth.back().step) {
      // Where the host falls behind in some ops and catches up in others, the head's work gives it a lead that a deeper
      // chunk uses up: no straight line.
      by_depth.clear();
      depths = {depth};
      place = static_cast<std::size_t>(-1);
    }
  }
  const Sample whole =
      by_depth.size() == 1 ? by_depth.front() : continued(by_depth[0], by_depth[1], depths[0], depths[1], depth);

  StepEstimate estimate;
  estimate.iteration_s = whole.step;
  estimate.seconds = whole.seconds;
  estimate.busiest_stage = whole.busiest;
  estimate.peak_gib = whole.peak / kGiB;
  estimate.reserved_gib = whole.reserved / kGiB;
  estimate.saved_gib = whole.saved / kGiB;
  estimate.fits = whole.reserved <= static_cast<double>(hardware.memory_bytes);
  estimate.host_s = whole.host;
  estimate.paths = whole.paths;
  estimate.samples = "whole";
  if (depths.size() + counts.size() > 2) {
    const auto list = [](const std::vector<std::int64_t>& values, std::int64_t of) {
      std::string text = std::to_string(values.front());
      if (values.size() > 1) text += ", " + std::to_string(values.back());
      return text + " of " + std::to_string(of);
    };
    estimate.samples = "layers a chunk " + list(depths, depth) + "; micro-batches " + list(counts, layout.micro_batches());
  }
  return estimate;
}

LayerTime estimate_layer(TrainConfig config, const HardwareProfile& hardware) {
  config.layout.pp = config.layout.vpp = config.layout.dp = 1;
  config.layout.schedule = ScheduleKind::one_f_one_b;
  config.layout.layer_split = {};
  const auto passes = [&](std::int64_t depth) {
    const TrainConfig small = reduced(config, depth, 1);
    const Stages recorded = record_stages(small);
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
