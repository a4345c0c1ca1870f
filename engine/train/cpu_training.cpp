#include "engine/train/cpu_training.h"

#include <cmath>
#include <mutex>
#include <numbers>

#include "engine/core/rng.h"
#include "engine/device/cpu/run_ranks.h"

namespace benchsuite {

namespace {

/// FNV-1a: a parameter's random stream belongs to its name.
std::uint64_t hash_of(std::string_view name) {
  std::uint64_t hash = 0xCBF29CE484222325u;
  for (const char letter : name) hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001B3u;
  return hash;
}

constexpr std::uint32_t kTokenStream = 0x746F6B65u;

}  // namespace

std::int32_t synthetic_token(std::uint64_t seed, std::int64_t sample, std::int64_t position, std::int64_t vocab) {
  const auto words = philox(seed, {static_cast<std::uint32_t>(sample), static_cast<std::uint32_t>(sample >> 32),
                                   static_cast<std::uint32_t>(position), kTokenStream});
  return static_cast<std::int32_t>((std::uint64_t{words[0]} * static_cast<std::uint64_t>(vocab)) >> 32);
}

float initial_value(std::uint64_t seed, const Parameter& parameter, std::int64_t index, std::int64_t layers) {
  switch (parameter.initial) {
    case Parameter::Initial::zeros: return 0.0f;
    case Parameter::Initial::ones: return 1.0f;
    case Parameter::Initial::normal:
    case Parameter::Initial::scaled_normal: break;
  }
  const std::uint64_t stream = hash_of(parameter.name);
  const auto words = philox(seed, {static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32),
                                   static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32)});
  // Box-Muller; 1 - u is in (0, 1].
  const double radius = std::sqrt(-2.0 * std::log(1.0 - static_cast<double>(uniform_from(words[0]))));
  const double normal = radius * std::cos(2.0 * std::numbers::pi * static_cast<double>(uniform_from(words[1])));
  const bool scaled = parameter.initial == Parameter::Initial::scaled_normal;
  return static_cast<float>(normal * (scaled ? 0.02 / std::sqrt(2.0 * static_cast<double>(layers)) : 0.02));
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

  CpuTrainingResult run() {
    std::vector<const Program*> programs;
    for (const RecordedStep& step : recorded_) programs.push_back(&step.program);
    HostWork work;
    work.init = [this](CpuRank& rank) { initialise(rank); };
    work.before_step = [this](CpuRank& rank, int step) { fill_inputs(rank, step); };
    work.after_step = [this](CpuRank& rank, int step) { read_results(rank, step); };
    run_ranks(programs, work, options_.steps, options_.poison ? Poison::on : Poison::off);
    return std::move(result_);
  }

 private:
  const StepBindings& bindings_of(const CpuRank& rank) const {
    return recorded_[static_cast<std::size_t>(rank.rank())].bindings;
  }

  static std::int64_t global_index(const Parameter& parameter, std::int64_t row, std::int64_t column) {
    return (parameter.first_row + row) * parameter.global_columns + parameter.first_column + column;
  }

  template <class Body>
  static void for_each_element(const Parameter& parameter, Body body) {
    for (std::int64_t row = 0; row < parameter.rows; ++row) {
      for (std::int64_t column = 0; column < parameter.columns; ++column) {
        body(row * parameter.columns + column, global_index(parameter, row, column));
      }
    }
  }

  void initialise(CpuRank& rank) {
    for (const Parameter& parameter : bindings_of(rank).parameters) {
      float* values = rank.data(parameter.value);
      for_each_element(parameter, [&](std::int64_t local, std::int64_t global) {
        values[local] = initial_value(options_.seed, parameter, global, config_.model.layers);
        if (global == options_.nudge.index && parameter.name == options_.nudge.parameter) {
          values[local] += options_.nudge.by;
        }
      });
    }
  }

  void fill_inputs(CpuRank& rank, int step) {
    const StepBindings& bindings = bindings_of(rank);
    const Layout& layout = config_.layout;
    const std::int64_t s = config_.model.seq, b = layout.micro_batch;
    const int replica = coordinates_[static_cast<std::size_t>(rank.rank())].dp;
    for (std::size_t i = 0; i < bindings.inputs.size(); ++i) {
      const MicroBatchInputs& inputs = bindings.inputs[i];
      const auto samples = rank.view<std::int32_t>(inputs.samples);
      for (std::int64_t j = 0; j < b; ++j) {
        const std::int64_t in_step = (static_cast<std::int64_t>(i) * layout.dp + replica) * b + j;
        const std::int64_t sample = step * layout.global_batch + in_step;
        samples[static_cast<std::size_t>(j)] = static_cast<std::int32_t>(sample);
        const auto fill = [&](const Tensor& tensor, std::int64_t shift) {
          if (!tensor.valid()) return;
          const auto tokens = rank.view<std::int32_t>(tensor);
          for (std::int64_t position = 0; position < s; ++position) {
            tokens[static_cast<std::size_t>(position * b + j)] =
                synthetic_token(options_.seed, sample, position + shift, config_.model.vocab);
          }
        };
        fill(inputs.tokens, 0);
        fill(inputs.labels, 1);
      }
      samples[static_cast<std::size_t>(b)] = step;
      samples[static_cast<std::size_t>(b + 1)] = static_cast<std::int32_t>(options_.seed);
    }
    const auto scalars = rank.view<float>(bindings.step_scalars);
    scalars[0] = options_.learning_rate;
    scalars[1] = options_.beta1;
    scalars[2] = options_.beta2;
    scalars[3] = options_.epsilon;
    scalars[4] = static_cast<float>(step + 1);
  }

  void read_results(CpuRank& rank, int step) {
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
    if (step + 1 < options_.steps || at.dp != 0) return;
    for (const Parameter& parameter : bindings.parameters) {
      if (parameter.shared_copy) continue;
      collect(result_.parameters, parameter, rank.data(parameter.value));
      if (options_.collect_gradients) collect(result_.gradients, parameter, rank.data(parameter.gradient));
    }
  }

  static void collect(std::map<std::string, std::vector<float>>& into, const Parameter& parameter, const float* values) {
    std::vector<float>& whole = into[parameter.name];
    whole.resize(static_cast<std::size_t>(parameter.global_rows * parameter.global_columns));
    for_each_element(parameter, [&](std::int64_t local, std::int64_t global) {
      whole[static_cast<std::size_t>(global)] = values[local];
    });
  }

  const TrainConfig& config_;
  const CpuTrainingOptions& options_;
  std::vector<RecordedStep> recorded_;
  std::vector<Coordinates> coordinates_;
  std::mutex mutex_;
  CpuTrainingResult result_;
};

}  // namespace

CpuTrainingResult train_on_cpu(const TrainConfig& config, const CpuTrainingOptions& options) {
  std::vector<Violation> problems = validate(config, "");
  if (config.layout.precision != DType::fp32) {
    problems.push_back({"", "layout.precision", std::string(name_of(config.layout.precision)),
                        "device cpu computes in fp32", "set layout.precision to \"fp32\""});
  }
  if (!problems.empty()) throw Error(std::move(problems));
  return Host(config, options).run();
}

}  // namespace benchsuite
