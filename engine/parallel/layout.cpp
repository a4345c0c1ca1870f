#include "engine/parallel/layout.h"

#include <algorithm>

namespace benchsuite {

std::string_view name_of(RecomputeGranularity granularity) {
  switch (granularity) {
    case RecomputeGranularity::none:
      return "none";
    case RecomputeGranularity::selective:
      return "selective";
    case RecomputeGranularity::full:
      return "full";
  }
  return "?";
}

std::string_view name_of(RecomputeMethod method) {
  switch (method) {
    case RecomputeMethod::uniform:
      return "uniform";
    case RecomputeMethod::block:
      return "block";
  }
  return "?";
}

std::string_view name_of(RecomputeModule module) {
  switch (module) {
    case RecomputeModule::core_attn:
      return "core_attn";
    case RecomputeModule::layernorm:
      return "layernorm";
    case RecomputeModule::mlp:
      return "mlp";
  }
  return "?";
}

std::string_view name_of(AttentionKernel attention) {
  switch (attention) {
    case AttentionKernel::unfused:
      return "unfused";
    case AttentionKernel::flash:
      return "flash";
  }
  return "?";
}

std::string_view name_of(TensorPlacement placement) {
  switch (placement) {
    case TensorPlacement::packed:
      return "packed";
    case TensorPlacement::across_nodes:
      return "across_nodes";
  }
  return "?";
}

std::string_view name_of(ScheduleKind schedule) {
  switch (schedule) {
    case ScheduleKind::gpipe:
      return "gpipe";
    case ScheduleKind::one_f_one_b:
      return "1f1b";
    case ScheduleKind::interleaved:
      return "interleaved";
  }
  return "?";
}

bool RecomputeConfig::selects(RecomputeModule module) const {
  return granularity == RecomputeGranularity::selective &&
         std::find(modules.begin(), modules.end(), module) != modules.end();
}

namespace {

constexpr auto kGranularities = {std::pair<const char*, RecomputeGranularity>{"none", RecomputeGranularity::none},
                                 {"selective", RecomputeGranularity::selective},
                                 {"full", RecomputeGranularity::full}};
constexpr auto kModules = {RecomputeModule::core_attn, RecomputeModule::layernorm, RecomputeModule::mlp};

/// Modules of megatron-core's mixture-of-experts and latent-attention layers.
constexpr const char* kForeignModules[] = {"moe", "moe_act", "shared_experts", "mla_up_proj"};

void read_modules(ObjectReader& reader, std::vector<RecomputeModule>& out) {
  std::vector<std::string> words;
  const std::size_t before = reader.problems().size();
  reader.optional("modules", words);
  if (!reader.has("modules") || reader.problems().size() != before) return;
  if (words.empty()) {
    reader.problem("modules", "selective recompute of nothing",
                   "name at least one of core_attn, layernorm, mlp, or set granularity to \"none\"");
    return;
  }
  std::vector<std::string> names;
  for (const RecomputeModule module : kModules) names.emplace_back(name_of(module));
  std::vector<RecomputeModule> modules;
  for (const std::string& word : words) {
    const auto found = std::find(names.begin(), names.end(), word);
    if (std::find(std::begin(kForeignModules), std::end(kForeignModules), word) != std::end(kForeignModules)) {
      reader.problem("modules", "\"" + word + "\" is a module of models the engine does not have: its layers are dense, "
                     "with keys and values of their own",
                     "choose among core_attn, layernorm, mlp");
      continue;
    }
    if (found == names.end()) {
      const std::string guess = did_you_mean(word, names);
      reader.problem("modules", "\"" + word + "\" is not a module that can be recomputed",
                     (guess.empty() ? "" : "did you mean \"" + guess + "\"? ") + "(core_attn, layernorm, mlp)");
      continue;
    }
    const RecomputeModule module = kModules.begin()[found - names.begin()];
    if (std::find(modules.begin(), modules.end(), module) != modules.end()) {
      reader.problem("modules", "\"" + word + "\" stands there twice", "name each module once");
      continue;
    }
    modules.push_back(module);
  }
  if (!modules.empty()) out = std::move(modules);
}

/// The keys of a recompute object depend on its granularity: one that would be ignored is refused.
void read_recompute_object(ObjectReader& reader, RecomputeConfig& out) {
  const std::size_t before = reader.problems().size();
  reader.choice("granularity", out.granularity, kGranularities, true);
  const bool known = reader.problems().size() == before;
  const bool full = out.granularity == RecomputeGranularity::full;
  const bool selective = out.granularity == RecomputeGranularity::selective;

  reader.choice("method", out.method, {{"uniform", RecomputeMethod::uniform}, {"block", RecomputeMethod::block}});
  reader.optional("num_layers", out.num_layers);
  read_modules(reader, out.modules);
  reader.optional("distribute_saved_activations", out.distribute_saved_activations);
  reader.finish();
  if (!known) return;

  if (full && !reader.has("method")) {
    reader.problem(
        "method", "full recompute needs a method",
        "add \"method\": \"uniform\" (all layers, in chunks of num_layers) or \"block\" (the first num_layers "
        "of each chunk)");
  }
  if (full && !reader.has("num_layers")) {
    reader.problem("num_layers", "full recompute needs the number of layers",
                   "add \"num_layers\": 1, or more to keep fewer inputs (uniform) or recompute more layers (block)");
  }
  const std::string word(name_of(out.granularity));
  for (const char* key : {"method", "num_layers", "distribute_saved_activations"}) {
    if (!full && reader.has(key)) {
      reader.problem(key, "means nothing with granularity \"" + word + "\"",
                     "remove it or set granularity to \"full\"");
    }
  }
  if (!selective && reader.has("modules")) {
    reader.problem("modules", "means nothing with granularity \"" + word + "\"",
                   "remove it or set granularity to \"selective\"");
  }
}

void read_recompute(ObjectReader& layout, RecomputeConfig& out) {
  const Json* value = layout.raw("recompute");
  if (!value) return;
  if (value->is_object()) {
    ObjectReader reader(*value, layout.file(), layout.dotted("recompute"), layout.problems());
    read_recompute_object(reader, out);
  } else if (value->is_string()) {
    layout.choice("recompute", out.granularity, kGranularities);
  } else {
    layout.problem("recompute", "must be an object or one of \"none\", \"selective\", \"full\"",
                   "write {\"granularity\": \"full\", \"method\": \"uniform\", \"num_layers\": 1} or \"full\"");
  }
}

void read_layer_split(ObjectReader& layout, LayerSplit& out) {
  const Json* value = layout.raw("layer_split");
  if (!value) return;
  ObjectReader reader(*value, layout.file(), layout.dotted("layer_split"), layout.problems());
  reader.optional("first_stage", out.first_stage);
  reader.optional("last_stage", out.last_stage);
  reader.optional("counts_embedding", out.counts_embedding);
  reader.optional("counts_loss", out.counts_loss);
  if (const Json* stages = reader.raw("stages")) {
    const bool whole = stages->is_array() && std::all_of(stages->begin(), stages->end(),
                                                         [](const Json& layers) { return layers.is_number_integer(); });
    if (whole) {
      out.stages = stages->get<std::vector<std::int64_t>>();
    } else {
      reader.problem("stages", "must be a list of whole numbers", "list the layers of every pipeline stage");
    }
  }
  reader.finish();
}

Json to_json(const LayerSplit& split) {
  Json json;
  json["first_stage"] = split.first_stage;
  json["last_stage"] = split.last_stage;
  json["counts_embedding"] = split.counts_embedding;
  json["counts_loss"] = split.counts_loss;
  if (!split.stages.empty()) json["stages"] = split.stages;
  return json;
}

Json to_json(const RecomputeConfig& recompute) {
  Json json;
  json["granularity"] = name_of(recompute.granularity);
  if (recompute.granularity == RecomputeGranularity::full) {
    json["method"] = name_of(recompute.method);
    json["num_layers"] = recompute.num_layers;
    json["distribute_saved_activations"] = recompute.distribute_saved_activations;
  }
  if (recompute.granularity == RecomputeGranularity::selective) {
    json["modules"] = Json::array();
    for (const RecomputeModule module : recompute.modules) json["modules"].push_back(name_of(module));
  }
  return json;
}

}  // namespace

Layout read_layout(const Json& json, const std::string& file, const std::string& path,
                   std::vector<Violation>& problems) {
  Layout layout;
  ObjectReader reader(json, file, path, problems);
  reader.required("tp", layout.tp);
  reader.required("pp", layout.pp);
  reader.required("dp", layout.dp);
  reader.optional("vpp", layout.vpp);
  reader.optional("cp", layout.cp);
  reader.optional("ep", layout.ep);
  reader.required("micro_batch", layout.micro_batch);
  reader.required("global_batch", layout.global_batch);
  reader.optional("sequence_parallel", layout.sequence_parallel);
  read_recompute(reader, layout.recompute);
  reader.optional("zero_stage", layout.zero_stage);
  reader.choice("precision", layout.precision,
                {{"bf16", DType::bf16}, {"fp32", DType::fp32}, {"fp16", DType::fp16}, {"fp8", DType::fp8}});
  reader.choice("attention", layout.attention,
                {{"flash", AttentionKernel::flash}, {"unfused", AttentionKernel::unfused}});
  reader.choice("placement", layout.placement,
                {{"packed", TensorPlacement::packed}, {"across_nodes", TensorPlacement::across_nodes}});
  reader.choice("schedule", layout.schedule,
                {{"1f1b", ScheduleKind::one_f_one_b},
                 {"interleaved", ScheduleKind::interleaved},
                 {"gpipe", ScheduleKind::gpipe}});
  reader.optional("microbatch_group", layout.microbatch_group);
  read_layer_split(reader, layout.layer_split);
  reader.optional("cpu_offloading", layout.cpu_offloading);
  reader.finish();
  return layout;
}

Json to_json(const Layout& layout) {
  Json json;
  json["tp"] = layout.tp;
  json["pp"] = layout.pp;
  json["dp"] = layout.dp;
  json["vpp"] = layout.vpp;
  json["cp"] = layout.cp;
  json["ep"] = layout.ep;
  json["micro_batch"] = layout.micro_batch;
  json["global_batch"] = layout.global_batch;
  json["sequence_parallel"] = layout.sequence_parallel;
  json["recompute"] = to_json(layout.recompute);
  json["zero_stage"] = layout.zero_stage;
  json["precision"] = name_of(layout.precision);
  json["attention"] = name_of(layout.attention);
  json["placement"] = name_of(layout.placement);
  json["schedule"] = name_of(layout.schedule);
  json["microbatch_group"] = layout.microbatch_group;
  if (!layout.layer_split.even()) json["layer_split"] = to_json(layout.layer_split);
  if (layout.cpu_offloading) json["cpu_offloading"] = true;
  return json;
}

}  // namespace benchsuite
