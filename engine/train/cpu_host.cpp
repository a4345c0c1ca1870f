#include "engine/train/cpu_host.h"

#include <cmath>
#include <numbers>
#include <string_view>
#include <vector>

#include "engine/core/bf16.h"
#include "engine/core/fnv1a.h"
#include "engine/core/rng.h"

namespace benchsuite {

namespace {

struct Start {
  std::uint64_t seed;
  std::int64_t layers;
  const Nudge& nudge;

  float of(const Parameter& parameter, std::int64_t global) const {
    const float value = initial_value(seed, parameter, global, layers);
    return global == nudge.index && parameter.name == nudge.parameter ? value + nudge.by : value;
  }
};

}  // namespace

float initial_value(std::uint64_t seed, const Parameter& parameter, std::int64_t index, std::int64_t layers) {
  switch (parameter.initial) {
    case Parameter::Initial::zeros: return 0.0f;
    case Parameter::Initial::ones: return 1.0f;
    case Parameter::Initial::normal:
    case Parameter::Initial::scaled_normal: break;
  }
  const std::uint64_t stream = fnv1a64(parameter.name);  // a random stream belongs to its parameter's name
  const auto words = philox(seed, {static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32),
                                   static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32)});
  // Box-Muller; 1 - u is in (0, 1].
  const double radius = std::sqrt(-2.0 * std::log(1.0 - static_cast<double>(uniform_from(words[0]))));
  const double normal = radius * std::cos(2.0 * std::numbers::pi * static_cast<double>(uniform_from(words[1])));
  const bool scaled = parameter.initial == Parameter::Initial::scaled_normal;
  return static_cast<float>(normal * (scaled ? 0.02 / std::sqrt(2.0 * static_cast<double>(layers)) : 0.02));
}

void initialise_parameters(RankMemory& rank, const StepBindings& bindings, std::int64_t layers, std::uint64_t seed,
                           const Nudge& nudge) {
  const Start start{seed, layers, nudge};
  for (const auto* pieces : {&bindings.values, &bindings.masters}) {
    for (const StepBindings::Piece& piece : *pieces) {
      const Parameter& parameter = bindings.parameters[piece.parameter];
      if (piece.tensor.dtype == DType::fp32) {
        const auto values = rank.view<float>(piece.tensor);
        for_each_element(bindings, piece, [&](std::size_t i, std::int64_t global) { values[i] = start.of(parameter, global); });
      } else {
        const auto values = rank.view<Bf16>(piece.tensor);
        for_each_element(bindings, piece, [&](std::size_t i, std::int64_t global) {
          values[i] = round_to_bf16(start.of(parameter, global));
        });
      }
    }
  }
}

void fill_inputs(RankMemory& rank, const StepBindings& bindings, const TrainConfig& config, const Coordinates& at,
                 std::int64_t step, std::uint64_t seed, const TokenSource& source, const StepScalars& step_scalars) {
  const Layout& layout = config.layout;
  const std::int64_t s = config.model.seq, b = layout.micro_batch;
  std::vector<std::int32_t> sequence(static_cast<std::size_t>(s + 1));
  for (std::size_t i = 0; i < bindings.inputs.size(); ++i) {
    const MicroBatchInputs& inputs = bindings.inputs[i];
    const auto samples = rank.view<std::int32_t>(inputs.samples);
    for (std::int64_t j = 0; j < b; ++j) {
      const std::int64_t in_step = (static_cast<std::int64_t>(i) * layout.dp + at.dp) * b + j;
      const std::int64_t sample = step * layout.global_batch + in_step;
      samples[static_cast<std::size_t>(j)] = static_cast<std::int32_t>(sample);
      if (!inputs.tokens.valid() && !inputs.labels.valid()) continue;
      source(sample, sequence);
      const auto fill = [&](const Tensor& tensor, std::int64_t shift) {
        if (!tensor.valid()) return;
        const auto tokens = rank.view<std::int32_t>(tensor);
        for (std::int64_t position = 0; position < s; ++position) {
          tokens[static_cast<std::size_t>(position * b + j)] = sequence[static_cast<std::size_t>(position + shift)];
        }
      };
      fill(inputs.tokens, 0);
      fill(inputs.labels, 1);
    }
    samples[static_cast<std::size_t>(b)] = static_cast<std::int32_t>(step);
    samples[static_cast<std::size_t>(b + 1)] = static_cast<std::int32_t>(seed);
  }
  const auto scalars = rank.view<float>(bindings.step_scalars);
  scalars[0] = step_scalars.learning_rate;
  scalars[1] = step_scalars.beta1;
  scalars[2] = step_scalars.beta2;
  scalars[3] = step_scalars.epsilon;
  scalars[4] = static_cast<float>(step + 1);
}

}  // namespace benchsuite
