#include "engine/train/train_config.h"

#include <fmt/format.h>

#include <filesystem>
#include <limits>

#include "engine/train/tokenizer.h"

namespace benchsuite {

namespace {

/// Two numbers in a list.
void read_pair(ObjectReader& reader, const char* key, double& first, double& second) {
  const Json* value = reader.raw(key);
  if (!value) return;
  if (!value->is_array() || value->size() != 2 || !(*value)[0].is_number() || !(*value)[1].is_number()) {
    return reader.problem(key, "must be a list of two numbers", "write [a, b]");
  }
  first = (*value)[0].get<double>();
  second = (*value)[1].get<double>();
}

void read_data(const Json& json, const std::string& file, TrainingPlan& plan, std::vector<Violation>& problems) {
  ObjectReader reader(json, file, "data", problems);
  reader.required("path", plan.data.path);
  read_pair(reader, "split", plan.data.first, plan.data.last);
  reader.optional("shuffle", plan.data.shuffle);
  reader.finish();
  if (!(plan.data.first >= 0 && plan.data.first < plan.data.last && plan.data.last <= 1)) {
    reader.problem("split", "must be two fractions of the file, rising from 0 to 1", "write e.g. [0, 0.9]");
  }
  const std::filesystem::path written = plan.data.path;
  if (!written.empty()) plan.data.path = (std::filesystem::path(file).parent_path() / written).lexically_normal().string();
}

void read_optimizer(const Json& json, const std::string& file, TrainingPlan& plan, std::vector<Violation>& problems) {
  ObjectReader reader(json, file, "optimizer", problems);
  LearningRate& rate = plan.learning_rate;
  double beta1 = plan.beta1, beta2 = plan.beta2, epsilon = 1e-8, decay = plan.optimizer.weight_decay,
         clip = plan.optimizer.clip;
  reader.required("lr", rate.peak);
  reader.optional("min_lr", rate.minimum);
  reader.optional("warmup", rate.warmup);
  reader.choice("decay", rate.decay, {{"cosine", Decay::cosine}, {"constant", Decay::constant}});
  rate.decay_steps = plan.steps;
  reader.optional("decay_steps", rate.decay_steps);
  read_pair(reader, "betas", beta1, beta2);
  reader.optional("eps", epsilon);
  reader.optional("weight_decay", decay);
  reader.optional("clip", clip);
  reader.finish();
  const auto demand = [&](bool good, const char* key, const char* what, const char* remedy) {
    if (!good) reader.problem(key, what, remedy);
  };
  demand(rate.peak > 0 || !reader.has("lr"), "lr", "must be more than 0", "write e.g. 1e-3");
  demand(rate.minimum >= 0 && rate.minimum <= rate.peak, "min_lr", "must lie between 0 and lr", "lower it");
  demand(rate.warmup >= 0, "warmup", "must not be negative", "write a number of steps, or 0");
  if (rate.decay == Decay::cosine && plan.steps > 0) {
    demand(rate.decay_steps >= std::max<std::int64_t>(rate.warmup, 1), reader.has("decay_steps") ? "decay_steps" : "warmup",
           "the warm-up must end before the decay does", "raise decay_steps (default: steps) or lower warmup");
  }
  demand(beta1 >= 0 && beta1 < 1 && beta2 >= 0 && beta2 < 1, "betas", "must lie in [0, 1)", "write e.g. [0.9, 0.95]");
  demand(epsilon > 0, "eps", "must be more than 0", "write e.g. 1e-8");
  demand(decay >= 0, "weight_decay", "must not be negative", "write e.g. 0.1, or 0");
  demand(clip >= 0, "clip", "must not be negative", "write the largest gradient norm, or 0 for none");
  plan.beta1 = static_cast<float>(beta1);
  plan.beta2 = static_cast<float>(beta2);
  plan.epsilon = static_cast<float>(epsilon);
  plan.optimizer.weight_decay = static_cast<float>(decay);
  plan.optimizer.clip = static_cast<float>(clip);
}

void read_checkpoint(const Json& json, const std::string& file, CheckpointConfig& out, std::vector<Violation>& problems) {
  ObjectReader reader(json, file, "checkpoint", problems);
  reader.required("dir", out.dir);
  reader.optional("every", out.every);
  reader.optional("keep", out.keep);
  reader.finish();
  if (reader.has("dir") && out.dir.empty()) reader.problem("dir", "must name a folder", "write e.g. \"checkpoints\"");
  if (out.every < 0) reader.problem("every", "must not be negative", "write a number of steps, or 0 for the end only");
  if (out.keep < 1) reader.problem("keep", "must be at least 1", "write how many checkpoints stay");
}

/// Model or stack: a name, loaded, or an object.
template <class Read>
void read_part(ObjectReader& reader, const char* key, const LoadPart& load, Read read) {
  const Json* value = reader.raw(key, true);
  if (!value) return;
  if (!value->is_string()) return read(*value, reader.file(), std::string(key));
  if (const auto found = load(key, value->get<std::string>(), reader.problems())) read(found->first, found->second, "");
}

/// What model, layout, stack and steps demand of each other, once each is good.
void judge_together(const TrainingPlan& plan, std::vector<Violation>& problems) {
  std::vector<Violation> found = validate(plan.config, plan.file, Wanted::numbers);
  const ModelConfig& model = plan.config.model;
  if (model.vocab < kByteVocab) {
    found.push_back({plan.file, "model.vocab", std::to_string(model.vocab), "the text is read as bytes, which need 256 tokens",
                     "set it to 256 or more"});
  }
  const std::int64_t most = std::numeric_limits<std::int32_t>::max();
  if (found.empty() && plan.steps > most / plan.config.layout.global_batch) {
    found.push_back({plan.file, "steps", std::to_string(plan.steps), "the run has more than 2^31 samples",
                     "lower steps or layout.global_batch"});
  }
  problems.insert(problems.end(), found.begin(), found.end());
}

void collect_leaves(const Json& json, const std::string& prefix, std::vector<std::pair<std::string, Json>>& out) {
  if (!json.is_object()) {
    out.emplace_back(prefix, json);
    return;
  }
  for (const auto& [key, value] : json.items()) collect_leaves(value, prefix.empty() ? key : prefix + "." + key, out);
}

}  // namespace

TrainingPlan read_training(const Json& json, const std::string& file, const LoadPart& load,
                           std::vector<Violation>& problems) {
  TrainingPlan plan;
  plan.file = file;
  const std::size_t before = problems.size();
  ObjectReader reader(json, file, "", problems);
  std::int64_t version = kTrainSchemaVersion, seed = 1234;
  reader.required("schema_version", version);
  if (version != kTrainSchemaVersion) reader.problem("schema_version", "not a version this build reads", "write 1");
  read_part(reader, "model", load, [&](const Json& part, const std::string& from, const std::string& path) {
    plan.config.model = read_model(part, from, path, problems);
  });
  if (const Json* layout = reader.raw("layout", true)) plan.config.layout = read_layout(*layout, file, "layout", problems);
  read_part(reader, "stack", load, [&](const Json& part, const std::string& from, const std::string& path) {
    plan.config.stack = read_stack(part, from, path, problems);
  });
  const bool parts_are_good = problems.size() == before;
  reader.required("steps", plan.steps);
  if (reader.has("steps") && plan.steps < 1) reader.problem("steps", "must be at least 1", "write how many steps to train");
  reader.optional("seed", seed);
  if (seed < 0) reader.problem("seed", "must not be negative", "write a whole number from 0");
  plan.seed = static_cast<std::uint64_t>(seed);
  reader.optional("log", plan.log);
  if (const Json* data = reader.raw("data", true)) read_data(*data, file, plan, problems);
  if (const Json* optimizer = reader.raw("optimizer", true)) read_optimizer(*optimizer, file, plan, problems);
  if (const Json* checkpoint = reader.raw("checkpoint")) read_checkpoint(*checkpoint, file, plan.checkpoint, problems);
  reader.finish();
  if (parts_are_good) judge_together(plan, problems);
  return plan;
}

Json identity_of(const TrainingPlan& plan, const TextData& data) {
  Json model = to_json(plan.config.model), stack = to_json(plan.config.stack);
  for (Json* part : {&model, &stack}) {
    for (const char* key : {"name", "title", "source", "memory_source"}) part->erase(key);
  }
  const LearningRate& rate = plan.learning_rate;
  const bool cosine = rate.decay == Decay::cosine;
  return {{"model", model},
          {"layout", to_json(plan.config.layout)},
          {"stack", stack},
          {"data", {{"checksum", fmt::format("fnv1a64:{:016x}", data.checksum())}, {"shuffle", plan.data.shuffle}}},
          {"optimizer",
           {{"lr", rate.peak},
            {"min_lr", cosine ? rate.minimum : rate.peak},
            {"warmup", rate.warmup},
            {"decay", cosine ? "cosine" : "constant"},
            {"decay_steps", cosine ? rate.decay_steps : 0},
            {"betas", {plan.beta1, plan.beta2}},
            {"eps", plan.epsilon},
            {"weight_decay", plan.optimizer.weight_decay},
            {"clip", plan.optimizer.clip}}},
          {"seed", plan.seed}};
}

std::vector<Violation> differences(const Json& now, const Json& then, const std::string& file) {
  std::vector<std::pair<std::string, Json>> mine, theirs;
  collect_leaves(now, "", mine);
  collect_leaves(then, "", theirs);
  std::vector<Violation> found;
  const auto value_in = [](const auto& leaves, const std::string& key) -> const Json* {
    for (const auto& [name, value] : leaves) {
      if (name == key) return &value;
    }
    return nullptr;
  };
  const auto report = [&](const std::string& key, const Json* here, const Json* there) {
    const std::string remedy = key == "data.checksum" ? "train on the same text, or start anew without --resume"
                                                      : "set it as in the checkpoint, or start anew without --resume";
    found.push_back({file, key, here ? here->dump() : "", there ? "the checkpoint has " + there->dump()
                                                                : "the checkpoint has no such setting", remedy});
  };
  for (const auto& [key, value] : mine) {
    const Json* there = value_in(theirs, key);
    if (!there || *there != value) report(key, &value, there);
  }
  for (const auto& [key, value] : theirs) {
    if (!value_in(mine, key)) report(key, nullptr, &value);
  }
  return found;
}

}  // namespace benchsuite
