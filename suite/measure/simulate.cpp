#include "suite/measure/simulate.h"

#include <chrono>
#include <cmath>
#include <thread>

#include "engine/device/sim/priced_world.h"
#include "engine/model/flops.h"
#include "engine/model/formulas.h"
#include "engine/parallel/schedule.h"
#include "engine/program/verifier.h"
#include "engine/train/step.h"
#include "suite/measure/bubble.h"
#include "suite/measure/memory_report.h"
#include "suite/measure/metrics.h"
#include "suite/measure/step_trace.h"

namespace benchsuite {

namespace {

/// Programs, the World they form, and what that costs. Programs live as long as this.
struct RecordedWorld {
  std::vector<Program> programs;
  std::vector<MeasuredMemory> memory;  ///< of the rank that shows each stage
  World world;
  PricedWorld priced;
};

/// Whether this rank shows its pipeline stage: the first tensor, context and data rank.
bool shows_stage(const Coordinates& at) { return at.tp == 0 && at.cp == 0 && at.dp == 0; }

void stop_if_cancelled(const SimulateOptions& options) {
  if (options.cancelled && options.cancelled->load()) throw Error(Error::Kind::run, "the run was cancelled");
}

/// Several only where it pays: cases run on threads of their own.
int threads_for(const TrainConfig& config, std::size_t roles) {
  constexpr std::int64_t kManyLayerPasses = 10'000;  // about 40 ops each
  const Layout& layout = config.layout;
  const std::int64_t passes =
      static_cast<std::int64_t>(roles) * div_ceil(config.model.layers, layout.pp) * layout.micro_batches();
  return passes < kManyLayerPasses ? 1 : static_cast<int>(std::thread::hardware_concurrency());
}

RecordedWorld record_ranks(const TrainConfig& config, const std::vector<int>& ranks, const HardwareProfile& hardware,
                           const SimulateOptions& options) {
  const Faults faults{.drop_recomputed_collectives = options.injection.drop_recomputed_collectives};
  const RankGrid grid(config.layout);
  RecordedWorld recorded;
  recorded.memory.resize(static_cast<std::size_t>(config.layout.pp));
  stop_if_cancelled(options);
  recorded.programs = record_programs(
      config, ranks, threads_for(config, ranks.size()),
      options.verify ? RecordedDetail::whole : RecordedDetail::without_operands, faults,
      [&](std::size_t, Program& program) {
        const Coordinates at = grid.coordinates(program.rank);
        if (shows_stage(at)) {
          recorded.memory[static_cast<std::size_t>(at.pp)] =
              measure_memory(config, at.pp, program, hardware.memory_bytes, hardware.gpus_per_node);
        }
        if (!options.verify) program.buffers = std::vector<Buffer>();  // a third of a Program, and nobody asks again
      });
  for (const Program& program : recorded.programs) recorded.world.programs.push_back(&program);
  return recorded;
}

/// Most roles that are replayed for exactness under ZeRO.
constexpr std::int64_t kMostRoles = 64;

/// One representative per pipeline stage where that gives every rank's timeline exactly, else every rank. Under ZeRO
/// the slices that replicas own cut parameters at different places, so each replica is a role of its own while there
/// are few; with many, the first stands for all, and the end of the step is off by microseconds.
RecordedWorld record_world(const TrainConfig& config, const CostModel& costs, const HardwareProfile& hardware,
                           const SimulateOptions& options) {
  const Layout& layout = config.layout;
  const RankGrid grid(layout);
  const bool each_replica = layout.zero_stage >= 1 && layout.pp * layout.replicas() <= kMostRoles;
  const int replicas = each_replica ? static_cast<int>(layout.replicas()) : 1;
  const int cp = static_cast<int>(layout.cp);
  std::vector<int> representatives, all;
  for (int stage = 0; stage < layout.pp; ++stage) {
    for (int replica = 0; replica < replicas; ++replica) {
      representatives.push_back(grid.rank_at({.cp = replica % cp, .dp = replica / cp, .pp = stage}));
    }
  }
  RecordedWorld collapsed = record_ranks(config, representatives, hardware, options);
  for (int rank = 0; rank < grid.world(); ++rank) {
    const Coordinates at = grid.coordinates(rank);
    collapsed.world.role_of_rank.push_back(at.pp * replicas + (each_replica ? at.dp * cp + at.cp : 0));
    all.push_back(rank);
  }
  std::string why_not;
  const int threads = threads_for(config, representatives.size());
  if (std::optional<PricedWorld> priced = price(collapsed.world, source_of(costs), why_not, threads)) {
    collapsed.priced = std::move(*priced);
    return collapsed;
  }
  RecordedWorld whole = record_ranks(config, all, hardware, options);
  whole.world = whole_world(whole.world.programs);
  whole.priced = price(whole.world, source_of(costs), threads_for(config, all.size()));
  return whole;
}

/// Every kind of communication that has a closed formula on this stage, with its bytes; -1 where a part has none.
std::vector<SentBytes> expected_of_stage(const TrainConfig& config, std::int64_t stage) {
  std::vector<SentBytes> kinds;
  for (const Volume& volume : communication_volumes(config.model, config.layout, config.stack, stage)) {
    const std::string kind = communication_kind(volume.group, volume.op, volume.recomputed);
    auto found = std::find_if(kinds.begin(), kinds.end(), [&](const auto& known) { return known.kind == kind; });
    if (found == kinds.end()) found = kinds.insert(kinds.end(), {kind, 0, 0});
    found->expected_bytes = volume.bytes < 0 || found->expected_bytes < 0 ? -1 : found->expected_bytes + volume.bytes;
  }
  return kinds;
}

/// The formulas' bytes as the mean over stages.
std::vector<CommunicationTime> expected_communication(const std::vector<std::vector<SentBytes>>& stages) {
  std::vector<CommunicationTime> kinds;
  for (const std::vector<SentBytes>& stage : stages) {
    for (const SentBytes& sent : stage) {
      auto found = std::find_if(kinds.begin(), kinds.end(), [&](const auto& known) { return known.kind == sent.kind; });
      if (found == kinds.end()) found = kinds.insert(kinds.end(), {.kind = sent.kind, .expected_bytes = 0});
      const bool known = sent.expected_bytes >= 0 && found->expected_bytes >= 0;
      found->expected_bytes =
          known ? found->expected_bytes + sent.expected_bytes / static_cast<double>(stages.size()) : -1;
    }
  }
  return kinds;
}

/// What the ranks of a stage really sent beside what the formulas say: of each kind the rank that is furthest off.
std::vector<SentBytes> sent_by_stage(std::vector<SentBytes> expected, const std::vector<RoleMetrics>& roles,
                                     const std::vector<std::int64_t>& stages, std::int64_t stage) {
  const auto find = [](auto& list, const std::string& kind) {
    return std::find_if(list.begin(), list.end(), [&](const auto& entry) { return entry.kind == kind; });
  };
  for (std::size_t role = 0; role < roles.size(); ++role) {  // kinds that no formula speaks of
    if (stages[role] != stage) continue;
    for (const KindTotal& total : roles[role].communication) {
      if (find(expected, total.kind) == expected.end()) expected.push_back({total.kind, 0, -1});
    }
  }
  for (SentBytes& sent : expected) {
    double worst = -1;
    for (std::size_t role = 0; role < roles.size(); ++role) {
      if (stages[role] != stage) continue;
      const auto total = find(roles[role].communication, sent.kind);
      const double bytes = total == roles[role].communication.end() ? 0 : total->bytes;
      const double off = std::abs(bytes - std::max(0.0, sent.expected_bytes));
      if (off > worst) {
        worst = off;
        sent.bytes = bytes;
      }
    }
  }
  return expected;
}

/// The pipeline stage of each role.
std::vector<std::int64_t> stages_of(const Layout& layout, const World& world) {
  const RankGrid grid(layout);
  std::vector<std::int64_t> stages;
  for (const Program* program : world.programs) stages.push_back(grid.coordinates(program->rank).pp);
  return stages;
}

void fill_rates(const TrainConfig& config, const HardwareProfile& hardware, VariantResult& result) {
  const Layout& layout = config.layout;
  // A flash kernel skips what the causal mask leaves out, so counting the full matrix would credit it with work it need
  // not do.
  const FlopsFormula formula = flops_formula_of(config.model.family, layout.attention == AttentionKernel::flash);
  const FlopsCount model = model_flops(config.model, layout, formula);
  result.flops_model = model.total();
  result.flops_hardware = hardware_flops(config.model, layout, formula, config.stack.recomputes_head).total();
  result.flops_formula = model.formula;
  const auto gpus = static_cast<double>(layout.world());
  const double per_gpu = result.flops_model / result.iteration_s / gpus;
  result.model_tflops_per_gpu = per_gpu * 1e-12;
  result.tokens_per_s_per_gpu =
      static_cast<double>(layout.global_batch * config.model.seq) / result.iteration_s / gpus;
  if (const auto peak = hardware.peak_flops.find(layout.precision); peak != hardware.peak_flops.end()) {
    result.mfu = per_gpu / peak->second;
    result.hfu = result.flops_hardware / result.iteration_s / gpus / peak->second;
    result.speed_of_light_s = result.flops_model / gpus / peak->second;
  }
  const ScheduleShape shape = schedule_shape(layout);
  result.bubble_formula_step = bubble_over_step(shape);
  result.bubble_formula_ideal = bubble_over_ideal(shape);
}

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

/// Keeps one StageResult per pipeline stage and adds its memory.
void fill_stages(const TrainConfig& config, const HardwareProfile& hardware, const std::vector<Program>& programs,
                 std::vector<MeasuredMemory> memory, VariantResult& result) {
  const RankGrid grid(config.layout);
  std::vector<StageResult> stages;
  result.fits = true;
  for (std::size_t role = 0; role < programs.size(); ++role) {
    const Coordinates at = grid.coordinates(programs[role].rank);
    if (!shows_stage(at)) continue;
    StageResult& stage = stages.emplace_back(std::move(result.stages[role]));
    stage.stage = at.pp;
    MeasuredMemory& own = memory[static_cast<std::size_t>(at.pp)];
    stage.memory = std::move(own.stage);
    result.fits = result.fits && own.fits;
    result.peak_memory_gib = std::max(result.peak_memory_gib, stage.memory.peak_bytes / kGiB);
  }
  result.stages = std::move(stages);
  result.capacity_gib = static_cast<double>(hardware.memory_bytes) / kGiB;
}

}  // namespace

HostCost host_of(const Stack& stack, const HardwareProfile& hardware) {
  const bool graph = stack.cuda_graphs && stack.cuda_graph_scope.full_iteration;
  const LaunchMode mode = graph                   ? LaunchMode::graph
                            : stack.launch_blocking ? LaunchMode::blocking
                                                    : LaunchMode::eager;
  return host_cost(hardware, mode, stack.step_fixed_s);
}

VariantResult simulate(const TrainConfig& config, const HardwareProfile& hardware, const SimulateOptions& options) {
  if (std::vector<Violation> problems = validate(config, "", Wanted::times); !problems.empty()) throw Error(std::move(problems));
  if (options.injection.delay_s > 0) {
    std::this_thread::sleep_for(std::chrono::duration<double>(options.injection.delay_s));
  }
  const Placement placement = place(config.layout, hardware.gpus_per_node);
  const CostModel costs(hardware, placement, host_of(config.stack, hardware));
  RecordedWorld recorded = record_world(config, costs, hardware, options);
  if (options.verify) {
    const std::vector<Finding> findings = verify(recorded.world.programs, recorded.world.role_of_rank);
    CHECK(findings.empty()) << "the verifier refuses the recorded step:\n" << to_string(findings);
  }
  stop_if_cancelled(options);
  const int threads = threads_for(config, recorded.programs.size());
  const ReplayResult replayed = replay(recorded.priced, ReplayOrder::by_role, threads);
  stop_if_cancelled(options);

  VariantResult result;
  std::vector<std::vector<SentBytes>> expected;
  for (std::int64_t stage = 0; stage < config.layout.pp; ++stage) expected.push_back(expected_of_stage(config, stage));
  result.communication = expected_communication(expected);
  const std::vector<RoleMetrics> roles = apply_metrics(recorded.world, replayed, result, threads);
  const std::vector<std::int64_t> stages = stages_of(config.layout, recorded.world);
  fill_rates(config, hardware, result);
  result.bubble_parts =
      bubble_parts(schedule_shape(config.layout), roles, stages, result.bubble_share * result.iteration_s);
  fill_stages(config, hardware, recorded.programs, std::move(recorded.memory), result);
  for (StageResult& stage : result.stages) {
    stage.sent = sent_by_stage(expected[static_cast<std::size_t>(stage.stage)], roles, stages, stage.stage);
  }
  if (!options.trace_file.empty()) write_step_trace(recorded.world.programs, replayed.timelines, options.trace_file);
  return result;
}

}  // namespace benchsuite
