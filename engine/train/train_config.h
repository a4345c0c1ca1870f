// The configuration of a training run, as a user writes it:
//
//   { "schema_version": 1,
//     "model": NAME | {...}, "layout": {...}, "stack": NAME | {...},
//     "data": {"path": "text.txt", "split": [0, 0.9], "shuffle": true},
//     "optimizer": {"lr": 1e-3, "min_lr": 1e-4, "warmup": 20, "decay": "cosine", "decay_steps": 200,
//                   "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1, "clip": 1.0},
//     "steps": 200, "seed": 1234,
//     "checkpoint": {"every": 50, "keep": 2, "dir": "checkpoints"},
//     "log": "train.jsonl" }
//
// model, layout, stack, data.path, optimizer.lr and steps must be there. Defaults: the whole file, shuffled; min_lr 0, no
// warm-up, cosine to its minimum at `steps`, betas 0.9 and 0.95, eps 1e-8, weight_decay 0.1, clip 1; seed 1234; no
// checkpoint (with one: every 0, that is at the end and when interrupted only; keep 2); no log. data.path is relative to the
// file, checkpoint.dir and log to the working folder.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/json_reader.h"
#include "engine/train/config.h"
#include "engine/train/data.h"
#include "engine/train/lr.h"
#include "engine/train/optimizer.h"

namespace benchsuite {

inline constexpr int kTrainSchemaVersion = 1;

struct CheckpointConfig {
  std::string dir;         ///< empty: no checkpoints
  std::int64_t every = 0;  ///< steps; 0: at the end and when interrupted
  std::int64_t keep = 2;   ///< newest checkpoints that stay
};

struct TrainingPlan {
  std::string file;  ///< where it was written, for messages
  TrainConfig config;
  DataConfig data;
  LearningRate learning_rate;
  float beta1 = 0.9f, beta2 = 0.95f, epsilon = 1e-8f;
  OptimizerConfig optimizer;
  std::int64_t steps = 0;
  std::uint64_t seed = 1234;
  CheckpointConfig checkpoint;
  std::string log;
};

/// Loads the model or stack ("model", "stack") that a name means, with the file it came from; nothing, with a violation,
/// when there is none.
using LoadPart = std::function<std::optional<std::pair<Json, std::string>>(const std::string& part, const std::string& name,
                                                                           std::vector<Violation>& problems)>;

/// Reads and judges everything, the parts against each other too. On any violation the plan must not be run.
TrainingPlan read_training(const Json& json, const std::string& file, const LoadPart& load,
                           std::vector<Violation>& problems);

/// Everything that decides the numbers: model, layout, stack, optimizer, seed and `data` (what was read). Two runs with equal
/// identities train the same, whatever their `steps`, checkpoints and log.
Json identity_of(const TrainingPlan& plan, const TextData& data);

/// One violation for every leaf in which two identities differ: value of `now`, what `then` says, and what to do.
std::vector<Violation> differences(const Json& now, const Json& then, const std::string& file);

}  // namespace benchsuite
