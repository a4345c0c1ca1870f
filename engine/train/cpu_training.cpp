#include "engine/train/cpu_training.h"

#include <mutex>
#include <span>

#include "engine/core/bf16.h"
#include "engine/core/rng.h"
#include "engine/device/cpu/run_ranks.h"

namespace benchsuite {

namespace {

constexpr std::uint32_t kTokenStream = 0x746F6B65u;

}  // namespace

std::int32_t synthetic_token(std::uint64_t seed, std::int64_t sample, std::int64_t position, std::int64_t vocab) {
  const auto words = philox(seed, {static_cast<std::uint32_t>(sample), static_cast<std::uint32_t>(sample >> 32),
                                   static_cast<std::uint32_t>(position), kTokenStream});
  return static_cast<std::int32_t>((std::uint64_t{words[0]} * static_cast<std::uint64_t>(vocab)) >> 32);
}

namespace {

/// Host work of all ranks of one training run.
class Host {
 public:
  Host(const TrainConfig& config, const CpuTrainingOptions& options) : config_(config), options_(options) {
    const RankGrid grid(config.layout);
    for (int rank = 0; rank < grid.world(); ++rank) {
      recorded_.push_back(record_step(config, rank, options.optimizer, options.faults));
      coordinates_.push_back(grid.coordinates(rank));
    }
    result_.loss.assign(static_cast<std::size_t>(options.steps), 0.0);
    result_.gradient_norm.assign(static_cast<std::size_t>(options.steps), 0.0);
  }

  CpuTrainingResult run(const RunWorld& run_world) {
    std::vector<const Program*> programs;
    for (const RecordedStep& step : recorded_) programs.push_back(&step.program);
    HostWorkOn<RankMemory> work;
    work.init = [this](RankMemory& rank) { initialise(rank); };
    work.before_step = [this](RankMemory& rank, int step) { fill(rank, step); };
    work.after_step = [this](RankMemory& rank, int step) { read_results(rank, step); };
    run_world(programs, work, options_.steps);
    return std::move(result_);
  }

 private:
  const StepBindings& bindings_of(const RankMemory& rank) const {
    return recorded_[static_cast<std::size_t>(rank.rank())].bindings;
  }

  void initialise(RankMemory& rank) {
    initialise_parameters(rank, bindings_of(rank), config_.model.layers, options_.seed, options_.nudge);
  }

  void fill(RankMemory& rank, int step) {
    const TokenSource source = [this](std::int64_t sample, std::span<std::int32_t> tokens) {
      for (std::size_t position = 0; position < tokens.size(); ++position) {
        tokens[position] =
            synthetic_token(options_.seed, sample, static_cast<std::int64_t>(position), config_.model.vocab);
      }
    };
    fill_inputs(rank, bindings_of(rank), config_, coordinates_[static_cast<std::size_t>(rank.rank())], step, options_.seed,
                source, {options_.learning_rate, options_.beta1, options_.beta2, options_.epsilon});
  }

  void read_results(RankMemory& rank, int step) {
    const StepBindings& bindings = bindings_of(rank);
    const Coordinates& at = coordinates_[static_cast<std::size_t>(rank.rank())];
    const std::scoped_lock lock(mutex_);
    if (at.tp == 0 && at.pp == config_.layout.pp - 1) {
      result_.loss[static_cast<std::size_t>(step)] +=
          static_cast<double>(rank.view<float>(bindings.loss)[0]) / static_cast<double>(config_.layout.dp);
    }
    if (rank.rank() == 0) {
      result_.gradient_norm[static_cast<std::size_t>(step)] = rank.view<float>(bindings.gradient_norm)[0];
    }
    if (step + 1 < options_.steps) return;
    collect(result_.parameters, rank, bindings.values);
    if (options_.collect_gradients) collect(result_.gradients, rank, bindings.gradients);
  }

  /// Every rank adds the pieces it has; replicas agree where they overlap.
  void collect(std::map<std::string, std::vector<float>>& into, RankMemory& rank,
               const std::vector<StepBindings::Piece>& pieces) const {
    const StepBindings& bindings = bindings_of(rank);
    for (const StepBindings::Piece& piece : pieces) {
      const Parameter& parameter = bindings.parameters[piece.parameter];
      if (parameter.shared_copy) continue;
      std::vector<float>& whole = into[parameter.name];
      whole.resize(static_cast<std::size_t>(parameter.global_rows * parameter.global_columns));
      const bool narrow = piece.tensor.dtype == DType::bf16;
      const std::span<const Bf16> halves = narrow ? rank.view<Bf16>(piece.tensor) : std::span<Bf16>();
      const std::span<const float> floats = narrow ? std::span<float>() : rank.view<float>(piece.tensor);
      for_each_element(bindings, piece, [&](std::size_t i, std::int64_t global) {
        whole[static_cast<std::size_t>(global)] = narrow ? widen(halves[i]) : floats[i];
      });
    }
  }

  const TrainConfig& config_;
  const CpuTrainingOptions& options_;
  std::vector<RecordedStep> recorded_;
  std::vector<Coordinates> coordinates_;
  std::mutex mutex_;
  CpuTrainingResult result_;
};

}  // namespace

CpuTrainingResult train_on(const TrainConfig& config, const CpuTrainingOptions& options, const RunWorld& run) {
  std::vector<Violation> problems = validate(config, "", Wanted::numbers);
  if (!problems.empty()) throw Error(std::move(problems));
  return Host(config, options).run(run);
}

CpuTrainingResult train_on_cpu(const TrainConfig& config, const CpuTrainingOptions& options) {
  const Poison poison = options.poison ? Poison::on : Poison::off;
  return train_on(config, options,
                  [poison](const std::vector<const Program*>& programs, const HostWorkOn<RankMemory>& host, int steps) {
                    run_ranks(programs, {host.init, host.before_step, host.after_step}, steps, poison);
                  });
}

}  // namespace benchsuite
