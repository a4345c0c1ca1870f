// What one training run is: a model, how it is laid out, and the software's features. Judged here as a whole.
#pragma once

#include <string>
#include <vector>

#include "engine/core/error.h"
#include "engine/model/config.h"
#include "engine/parallel/layout.h"
#include "engine/parallel/stack.h"

namespace benchsuite {

struct TrainConfig {
  ModelConfig model;
  Layout layout;
  Stack stack;
};

/// What is wanted of a configuration. Some can be recorded and timed but not computed: context parallelism (the exchange of
/// keys and values, which runs behind the attention of the part at hand, is not recorded), fp8 and fp16 products (the latter
/// without its loss scale), and the layouts of logits and gates that two features of a stack name.
enum class Wanted : std::uint8_t { times, numbers };

/// Everything that keeps the configuration from running, each with key (model.*, layout.*), value and remedy; empty
/// when it can run. A rule whose own inputs are already refused is not judged. `file` is where the user wrote it.
std::vector<Violation> validate(const TrainConfig& config, const std::string& file, Wanted wanted);

/// What can run but is probably not meant, one sentence each. Assumes a valid configuration.
std::vector<std::string> notes(const TrainConfig& config);

}  // namespace benchsuite
