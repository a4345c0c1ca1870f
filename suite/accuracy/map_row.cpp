#include "suite/accuracy/map_row.h"

#include <fmt/format.h>

#include <algorithm>

#include "suite/accuracy/row_fields.h"
#include "suite/accuracy/row_kernels.h"
#include "suite/cases/resolve.h"

namespace benchsuite {

namespace {

/// Words for what the engine's families are called in rows.
ModelFamily family_of(const PublishedRow& row, std::vector<std::string>& assumptions) {
  const std::string family = PublishedRow::text(row.model, "family");
  if (family == "gpt" || family == "llama") return family == "llama" ? ModelFamily::llama : ModelFamily::gpt;
  static constexpr std::pair<const char*, const char*> kAlike[] = {
      {"gpt (MPT)", "ALiBi positions cost nothing of their own"},
      {"bloom", "ALiBi positions cost nothing of their own; the norm of the embedding is left out"},
      {"opt", "ReLU runs as GELU"}};
  for (const auto& [name, note] : kAlike) {
    if (family != name) continue;
    assumptions.push_back("model family " + family + " runs as gpt: " + note);
    return ModelFamily::gpt;
  }
  if (family == "moe") throw Unmapped{"mixture-of-experts models are not in the engine"};
  throw Unmapped{family.empty() ? "model.family is not stated" : "model family \"" + family + "\" is not in the engine"};
}

class Mapper {
 public:
  Mapper(const PublishedRow& row, const SourceRule& rule, const std::vector<Setting>& settings, MappedRow& out)
      : row_(row), rule_(rule), settings_(settings), out_(out) {}

  /// The value of model.* or layout.*: a setting, else what the row states, else the rule's default (noted).
  Json value(const std::string& dotted) {
    for (const Setting& setting : settings_) {
      if (setting.key == dotted) return setting.value;
    }
    if (const Json stated = row_value(row_, dotted); !stated.is_null()) return stated;
    for (const auto& [key, fallback] : rule_.defaults) {
      if (key != dotted) continue;
      const std::string note = dotted + " = " + fallback.dump() + " (default of the source)";
      if (std::find(out_.assumptions.begin(), out_.assumptions.end(), note) == out_.assumptions.end()) {
        out_.assumptions.push_back(note);
      }
      return fallback;
    }
    return nullptr;
  }

  std::int64_t whole(const std::string& dotted) {
    const Json found = value(dotted);
    if (found.is_null()) throw Unmapped{dotted + " is not stated"};
    return count_of(dotted, found);
  }
  std::int64_t whole_or(const std::string& dotted, std::int64_t fallback) {
    const Json found = value(dotted);
    return found.is_null() || found == Json(fallback) ? fallback : count_of(dotted, found);
  }

  void model();
  void layout();
  void kernels();
  void refuse_what_is_missing() const;

 private:
  std::int64_t data_parallel(const Layout& layout);
  void batch(Layout& layout);
  std::int64_t virtual_stages(const Layout& layout, std::int64_t layers);
  void recompute(Layout& layout);
  void precision(Layout& layout);

  const PublishedRow& row_;
  const SourceRule& rule_;
  const std::vector<Setting>& settings_;
  MappedRow& out_;
};

void Mapper::refuse_what_is_missing() const {
  const auto has = [&](const std::string& text, const char* word) { return text.find(word) != std::string::npos; };
  const Json& layout = row_.layout;
  if (has(row_.id, "lora") || has(row_.source, "LoRA")) throw Unmapped{"LoRA trains adapters alone, which the engine doesn't"};
  if (const std::string schedule = text_in(layout, "layout", "schedule").value_or("1f1b");
      !schedule.starts_with("1f1b") && !schedule.starts_with("interleaved")) {
    throw Unmapped{"schedule \"" + schedule + (has(schedule, "zb") ? "\" is not in the engine" : "\" is none that rows are simulated with")};
  }
  for (const char* key : {"activation_cpu_offload", "cpu_offloading", "offload"}) {
    const Json offloads = layout.value(key, Json());
    const bool none = offloads.is_null() || offloads == Json(false) || offloads == Json("none");
    if (!none) throw Unmapped{"offloading to the host is not in the engine"};
  }
  if (const std::string variant = text_in(layout, "layout", "variant").value_or(""); !variant.empty()) {
    throw Unmapped{"variant \"" + variant + "\" is no feature that a stack describes"};
  }
  if (const auto group = count_in(layout, "layout", "fsdp_group")) {
    const auto gpus = count_in(row_.cluster, "cluster", "gpus");
    if (gpus && *group != *gpus) {
      throw Unmapped{fmt::format("sharding over groups of {} of {} ranks is not in the engine", *group, *gpus)};
    }
  }
}

void Mapper::model() {
  ModelConfig& model = out_.config.model;
  model.family = family_of(row_, out_.assumptions);
  if (count_in(row_.model, "model", "experts").value_or(1) > 1) {
    throw Unmapped{"mixture-of-experts models are not in the engine"};
  }
  model.name = PublishedRow::text(row_.model, "name");
  model.layers = whole("model.layers");
  model.hidden = whole("model.hidden");
  model.heads = whole("model.heads");
  model.kv_heads = whole_or("model.kv_heads", model.heads);
  model.seq = whole("model.seq");
  model.vocab = whole("model.vocab");
  const bool gated = model.family == ModelFamily::llama;
  model.ffn_hidden = gated ? whole("model.ffn_hidden") : whole_or("model.ffn_hidden", 4 * model.hidden);
  model.dropout = gated ? 0 : 0.1;
  if (const Json dropout = value("model.dropout"); !dropout.is_null()) {
    model.dropout = *number_in({{"dropout", dropout}}, "model", "dropout");
  }
  if (model.family == ModelFamily::gpt && model.kv_heads != model.heads) {
    // Rotary positions, no biases, grouped queries, one wide product into the MLP: of the engine's blocks the gated ones
    // with two thirds of the width have the same weights and products.
    model.family = ModelFamily::llama;
    out_.assumptions.push_back(fmt::format(
        "grouped queries and a plain MLP of width {}: runs as gated MLP of width {}, the same weights and products",
        model.ffn_hidden, model.ffn_hidden * 2 / 3));
    model.ffn_hidden = model.ffn_hidden * 2 / 3;
    model.dropout = 0;
  }
}

std::int64_t Mapper::data_parallel(const Layout& layout) {
  const auto gpus = count_in(row_.cluster, "cluster", "gpus");
  const std::int64_t model_ranks = layout.tp * layout.pp * layout.cp;
  const Json stated = value("layout.dp");
  if (!stated.is_null() && stated != Json("world")) {
    const std::int64_t dp = whole("layout.dp");
    if (gpus && (*gpus % model_ranks != 0 || *gpus / model_ranks != dp)) {
      throw Unmapped{fmt::format("tp x pp x cp x dp = {} x {} x {} x {} is not the {} GPUs of the cluster", layout.tp,
                                 layout.pp, layout.cp, dp, *gpus)};
    }
    return dp;
  }
  if (!gpus) throw Unmapped{"neither layout.dp nor cluster.gpus is stated"};
  if (*gpus % model_ranks != 0) {
    throw Unmapped{fmt::format("{} GPUs are no multiple of tp x pp x cp = {}", *gpus, model_ranks)};
  }
  return *gpus / model_ranks;
}

void Mapper::batch(Layout& layout) {
  const auto rounds = count_in(row_.layout, "layout", "num_microbatches");
  Json micro = row_value(row_, "layout.micro_batch"), global = row_value(row_, "layout.global_batch");
  const bool drawn = std::any_of(settings_.begin(), settings_.end(), [](const auto& s) { return s.key == "layout.micro_batch"; });
  if (micro.is_null() && !drawn && global.is_number() && rounds) {
    const std::int64_t all = count_of("layout.global_batch", global), passes = *rounds * layout.dp;
    if (all % passes == 0) micro = all / passes;
  }
  if (micro.is_null()) micro = value("layout.micro_batch");
  if (!micro.is_null() && micro != Json("all")) micro = count_of("layout.micro_batch", micro);
  if (global.is_null() && micro.is_number() && rounds) global = micro.get<std::int64_t>() * *rounds * layout.dp;
  if (global.is_null()) global = value("layout.global_batch");
  if (global == Json("micro_batch") && micro.is_number()) global = micro.get<std::int64_t>() * layout.dp;
  if (!global.is_null() && global != Json("micro_batch")) global = count_of("layout.global_batch", global);
  if (micro == Json("all") && global.is_number()) micro = std::max<std::int64_t>(1, global.get<std::int64_t>() / layout.dp);
  if (!micro.is_number_integer()) throw Unmapped{"layout.micro_batch is not stated"};
  if (!global.is_number_integer()) throw Unmapped{"layout.global_batch is not stated"};
  layout.micro_batch = micro.get<std::int64_t>();
  layout.global_batch = global.get<std::int64_t>();
}

std::int64_t Mapper::virtual_stages(const Layout& layout, std::int64_t layers) {
  // What one stage says of virtual stages means nothing; what is no count is refused there too.
  count_in(row_.layout, "layout", "vpp");
  if (layout.pp == 1) return 1;
  const Json found = value("layout.vpp");
  if (found == Json("layers_per_stage")) return layers % layout.pp == 0 ? layers / layout.pp : 1;
  return found.is_null() ? 1 : whole("layout.vpp");
}

void Mapper::recompute(Layout& layout) {
  const Json found = value("layout.recompute");
  if (found.is_null()) throw Unmapped{"layout.recompute is not stated"};
  Json written = found;
  if (const std::string modules = text_in(row_.layout, "layout", "recompute_modules").value_or(""); !modules.empty()) {
    Json list = Json::array();
    for (std::size_t at = 0; at < modules.size();) {
      const std::size_t end = std::min(modules.find_first_of("+,", at), modules.size());
      list.push_back(modules.substr(at, end - at));
      at = end + 1;
    }
    written = {{"granularity", "selective"}, {"modules", list}};
  }
  std::vector<Violation> problems;
  const Json holder = {{"tp", 1}, {"pp", 1}, {"dp", 1}, {"micro_batch", 1}, {"global_batch", 1}, {"recompute", written}};
  layout.recompute = read_layout(holder, row_.id, "layout", problems).recompute;
  if (!problems.empty()) throw Unmapped{"layout.recompute = " + written.dump() + " is not in the engine"};
}

void Mapper::precision(Layout& layout) {
  const Json found = value("layout.precision");
  if (found == Json("bf16")) {
    layout.precision = DType::bf16;
  } else if (found == Json("fp16/bf16")) {
    layout.precision = DType::bf16;
    out_.assumptions.push_back("fp16 or bf16: runs as bf16");
  } else if (found == Json("fp16")) {
    layout.precision = DType::fp16;
    out_.assumptions.push_back("fp16: the checks of its loss scale are not counted");
  } else if (found == Json("fp8")) {
    layout.precision = DType::fp8;
  } else if (found == Json("fp32")) {
    layout.precision = DType::fp32;
  } else if (found.is_null()) {
    throw Unmapped{"layout.precision is not stated"};
  } else {
    throw Unmapped{"precision " + found.dump() + " is not in the engine"};
  }
}

void Mapper::layout() {
  Layout& layout = out_.config.layout;
  layout.tp = whole("layout.tp");
  layout.pp = whole("layout.pp");
  layout.cp = whole_or("layout.cp", 1);
  layout.ep = whole_or("layout.ep", 1);
  layout.dp = data_parallel(layout);
  batch(layout);
  layout.vpp = virtual_stages(layout, out_.config.model.layers);
  layout.layer_split = split_of(value("layout.layer_split"), out_.config.model.layers, layout.pp, layout.vpp);
  layout.schedule = layout.vpp > 1 ? ScheduleKind::interleaved : ScheduleKind::one_f_one_b;
  const bool sequence_parallel = flag_of("layout.sequence_parallel", value("layout.sequence_parallel")).value_or(false);
  layout.sequence_parallel = sequence_parallel && layout.tp > 1;
  layout.zero_stage = static_cast<int>(whole_or("layout.zero_stage", 0));
  if (layout.replicas() == 1) layout.zero_stage = 0;
  recompute(layout);
  precision(layout);
  const Json attention = value("layout.attention");
  if (attention == Json("flash")) {
    layout.attention = AttentionKernel::flash;
  } else if (attention == Json("unfused")) {
    layout.attention = AttentionKernel::unfused;
  } else {
    throw Unmapped{attention.is_null() ? "layout.attention is not stated"
                                       : "attention " + attention.dump() + " is not in the engine"};
  }
}

void Mapper::kernels() {
  const std::string unknown = apply_kernels(value("layout.attention_kernel"), value("layout.rmsnorm_kernel"),
                                            out_.config.layout.attention, out_.config.stack);
  if (!unknown.empty()) out_.assumptions.push_back(unknown + ": runs as the stack's");
}

void apply_to_stack(const std::vector<Setting>& settings, Stack& stack) {
  Json json = to_json(stack);
  bool any = false;
  for (const Setting& setting : settings) {
    if (!setting.key.starts_with("stack.")) continue;
    any = true;
    put(json, setting.key.substr(6), setting.value);
  }
  if (!any) return;
  std::vector<Violation> problems;
  stack = read_stack(json, "stack", "", problems);
  if (!problems.empty()) throw Error(std::move(problems));
}

/// The row's cluster with what the settings say of it.
Json cluster_with(const PublishedRow& row, const std::vector<Setting>& settings) {
  Json cluster = row.cluster;
  for (const Setting& setting : settings) {
    if (setting.key.starts_with("cluster.")) cluster[setting.key.substr(8)] = setting.value;
  }
  return cluster;
}

/// The profile of the row's cluster. Throws Unmapped where there is none, or its nodes are others than the row's.
std::string machine_of(const Json& cluster, const Layout& layout, StackShelf& shelf, const DataRoot& root,
                       std::vector<std::string>& assumptions) {
  const ProfileOf found = profile_of(cluster, root);
  if (found.name.empty()) throw Unmapped{found.note};
  if (!found.note.empty()) assumptions.push_back(found.note);
  const int node = shelf.machine(found.name).gpus_per_node;
  const auto stated = count_in(cluster, "cluster", "gpus_per_node");
  if (stated && *stated != node && *stated != found.gpus_per_tray) {
    throw Unmapped{fmt::format("cluster.gpus_per_node = {}: the profile {} has {} in a node", *stated, found.name, node)};
  }
  if (layout.world() > node && !found.network_stated) {
    const Json text = cluster.value("interconnect", Json());
    assumptions.push_back(fmt::format("cluster.interconnect {}: runs on the network of {}",
                                      text.is_null() ? "is not stated" : "= " + text.dump() + " names no NICs of a profile",
                                      found.name));
  }
  return found.name;
}

/// What neither the row nor its source says: the stack's alternatives, then the rule's own.
std::vector<UnstatedSetting> unstated_settings(const PublishedRow& row, const SourceRule& rule,
                                               const std::vector<UnstatedSetting>& alternatives, const Layout& layout) {
  std::vector<UnstatedSetting> settings;
  const auto add = [&](const UnstatedSetting& setting) {
    const bool stated = setting.key == "cluster.interconnect" ? states_nics(row.cluster) : !row_value(row, setting.key).is_null();
    if (!stated && matters(setting.key, layout)) settings.push_back(setting);
  };
  for (const UnstatedSetting& setting : alternatives) {
    const bool own = std::any_of(rule.unstated.begin(), rule.unstated.end(), [&](const auto& o) { return o.key == setting.key; });
    const bool stated = std::find(rule.stated.begin(), rule.stated.end(), setting.key) != rule.stated.end();
    if (!own && !stated) add(setting);
  }
  for (const UnstatedSetting& setting : rule.unstated) add(setting);
  return settings;
}

}  // namespace

bool matters(const std::string& key, const Layout& layout) {
  static constexpr const char* kTensor[] = {"layout.sequence_parallel", "stack.overlaps_tensor_backward",
                                            "stack.overlaps_tensor_gemms"};
  static constexpr const char* kPipeline[] = {"layout.vpp", "stack.overlaps_pipeline", "stack.overlaps_pipeline_interleaved",
                                              "stack.scatters_pipeline_activations"};
  static constexpr const char* kData[] = {"layout.zero_stage", "stack.overlaps_gradient_reduction",
                                          "stack.overlaps_parameter_gather"};
  constexpr std::int64_t kNode = 8;  // GPUs of every node whose interconnect a source leaves open
  if (key == "cluster.interconnect") return layout.world() > kNode;
  const auto in = [&](const auto& keys) { return std::find(std::begin(keys), std::end(keys), key) != std::end(keys); };
  return !(in(kTensor) && layout.tp == 1) && !(in(kPipeline) && layout.pp == 1) && !(in(kData) && layout.dp * layout.cp == 1);
}

const HardwareProfile& StackShelf::machine(const std::string& name) {
  if (const auto known = machines_.find(name); known != machines_.end()) return known->second;
  return machines_.emplace(name, load_hardware(root_.file_of(DataKind::hardware, name))).first->second;
}

const StackShelf::Entry& StackShelf::get(const std::string& name) {
  if (const auto known = known_.find(name); known != known_.end()) return known->second;
  std::vector<Violation> problems;
  const std::string file = root_.locate(DataKind::stack, name, "", "stack", problems);
  if (!problems.empty()) throw Error(std::move(problems));
  const Json json = parse_json_file(file);
  Entry entry{read_stack(json, file, "", problems), {}};
  if (json.contains("alternatives")) {
    entry.alternatives = read_unstated_settings(json["alternatives"], file, "alternatives", problems);
  }
  if (!problems.empty()) throw Error(std::move(problems));
  return known_.emplace(name, std::move(entry)).first->second;
}

MappedRow map_row(const PublishedRow& row, const SourceRules& rules, StackShelf& stacks, const DataRoot& root,
                  const std::vector<Setting>& settings) {
  MappedRow out;
  out.set = row.source;
  try {
    if (!row.problem.empty()) throw Unmapped{row.problem};
    const SourceRule* rule = rules.rule_of(row);
    if (!rule) throw Unmapped{"no rule of expected/published/sources.json fits the row"};
    out.set = rule->set;
    if (!rule->unmapped.empty()) throw Unmapped{rule->unmapped};
    if (rule->knows_no_source()) {
      out.assumptions.push_back(fmt::format("stack {}: no rule knows the source \"{}\"", rule->stack, row.source));
    }
    if (row.kind == RowKind::config_only) throw Unmapped{"only the configuration is published, no measurement"};
    Mapper mapper(row, *rule, settings, out);
    mapper.refuse_what_is_missing();
    mapper.model();
    mapper.layout();
    out.stack = rule->stack;
    out.held_memory = rule->held_memory;
    const StackShelf::Entry& stack = stacks.get(rule->stack);
    out.config.stack = stack.stack;
    std::vector<Setting> scripts;
    for (const auto& [key, value] : rule->defaults) scripts.push_back({key, value});
    apply_to_stack(scripts, out.config.stack);
    mapper.kernels();
    apply_to_stack(settings, out.config.stack);
    out.hardware = machine_of(cluster_with(row, settings), out.config.layout, stacks, root, out.assumptions);
    // FLOPs are counted of the model as stated, not of what stands in for it.
    ModelConfig stated = out.config.model;
    stated.ffn_hidden = PublishedRow::integer(row.model, "ffn_hidden").value_or(stated.ffn_hidden);
    if (PublishedRow::text(row.model, "family") == "gpt") stated.family = ModelFamily::gpt;
    out.published = read_measured(row, stated, out.config.layout);
    if (out.published.nothing()) {
      throw Unmapped{"nothing that was measured can be compared: no time, rate or memory, or FLOPs by a convention that is "
                     "not stated"};
    }
    if (const std::vector<Violation> problems = validate(out.config, row.id, Wanted::times); !problems.empty()) {
      const Violation& first = problems.front();
      throw Unmapped{first.key + " = " + first.value + ": " + first.problem};
    }
    out.unstated = unstated_settings(row, *rule, stack.alternatives, out.config.layout);
    out.mapped = true;
  } catch (const Unmapped& why) {
    out.reason = why.reason;
  }
  return out;
}

}  // namespace benchsuite
