#include "suite/cases/resolve.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "engine/device/sim/cost_model.h"
#include "engine/parallel/rank_grid.h"
#include "suite/cases/stable_hash.h"

namespace benchsuite {

namespace {

constexpr std::array<const char*, 4> kParts = {"model", "layout", "stack", "hardware"};

DataKind kind_of(const std::string& part) {
  if (part == "model") return DataKind::model;
  return part == "stack" ? DataKind::stack : DataKind::hardware;
}

/// A part of the configuration before parsing: its JSON and the file its base came from.
struct Part {
  Json json = Json::object();
  std::string file;       ///< for violations
  std::string path;       ///< dotted key of the part in that file
  std::string reference;  ///< name or path it was loaded by, "" for an object
  bool found = false;
};

/// Loads a part given by name, path or object.
Part load(const std::string& name, const Json& value, const std::string& said_by, const std::string& case_file,
          const DataRoot& root, std::vector<Violation>& problems) {
  Part part;
  if (value.is_object()) {
    part = {value, said_by, name, "", true};
    return part;
  }
  if (!value.is_string() || name == "layout") {
    if (!value.is_null()) {
      problems.push_back({said_by, name, value.dump(), "must be a name or an object", "write a name, a path or {...}"});
    }
    return part;
  }
  part.reference = value.get<std::string>();
  const std::size_t before = problems.size();
  const std::string file = root.locate(kind_of(name), part.reference, case_file, name, problems);
  if (file.empty()) {
    for (std::size_t i = before; i < problems.size(); ++i) problems[i].file = said_by;
    return part;
  }
  part.json = parse_json_file(file);
  if (name == "hardware") {  // while the folder of the profile it may be based on is known
    part.json = resolve_profile(part.json, file, problems);
    part.json.erase("based_on");
  }
  part.file = root.shorten(file);
  part.found = true;
  return part;
}

/// Every leaf key below `json`, dotted.
void leaves(const Json& json, const std::string& prefix, std::vector<std::string>& out) {
  if (!json.is_object()) {
    out.push_back(prefix);
    return;
  }
  for (const auto& [key, value] : json.items()) leaves(value, prefix.empty() ? key : prefix + "." + key, out);
}

std::string suggest(const std::string& key, const std::vector<std::string>& candidates) {
  for (const std::string& candidate : candidates) {
    if (candidate.ends_with("." + key)) return candidate;  // the person left the first word out
  }
  return did_you_mean(key, candidates);
}

struct Parsed {
  ModelConfig model;
  Layout layout;
  Stack stack;
  HardwareProfile hardware;
};

/// Names the last override that set `key` (or what lies above it) as the place of the mistake.
void attribute(Violation& violation, const std::string& key, const std::vector<Override>& sets) {
  for (const Override& set : sets) {
    if (key != set.key && !key.starts_with(set.key + ".")) continue;
    violation.file = set.file;
    violation.key = key;
  }
}

/// Parses the four parts; violations of a key that an override set are attributed to who set it.
Parsed parse(std::array<Part, 4>& parts, const std::vector<Override>& sets, std::vector<Violation>& problems) {
  Parsed parsed;
  std::array<std::vector<Violation>, 4> found;
  parsed.model = read_model(parts[0].json, parts[0].file, parts[0].path, found[0]);
  parsed.layout = read_layout(parts[1].json, parts[1].file, parts[1].path, found[1]);
  parsed.stack = read_stack(parts[2].json, parts[2].file, parts[2].path, found[2]);
  parsed.hardware = read_hardware(parts[3].json, parts[3].file, found[3]);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    for (Violation& violation : found[i]) {
      const std::string part = kParts[i];
      const bool whole = violation.key == part || violation.key.starts_with(part + ".");
      attribute(violation, whole ? violation.key : part + "." + violation.key, sets);
      problems.push_back(std::move(violation));
    }
  }
  return parsed;
}

/// What the parts demand of each other.
std::vector<Violation> judge_together(const ResolvedVariant& variant, const std::string& file) {
  std::vector<Violation> found = validate(variant.config, file, Wanted::times);
  if (!found.empty()) return found;
  const Layout& layout = variant.config.layout;
  const HardwareProfile& hardware = *variant.hardware;
  if (hardware.nics_per_node == 0 && !hardware.free_communication && layout.world() > hardware.gpus_per_node) {
    found.push_back({file, "layout", std::to_string(layout.world()) + " ranks",
                     "need several nodes, but " + variant.hardware_name + " is one node of " +
                         std::to_string(hardware.gpus_per_node),
                     "choose a profile with a network, or a smaller tp, pp, cp or dp"});
    return found;
  }
  try {
    place(layout, hardware.gpus_per_node);
  } catch (const Error& error) {
    if (error.kind() != Error::Kind::config) throw;
    for (Violation violation : error.violations()) {
      violation.file = file;
      found.push_back(std::move(violation));
    }
  }
  return found;
}

/// What changes performance: everything but names, titles and sources.
std::string hash_of(const Json& resolved) {
  Json reduced = resolved;
  for (const char* part : {"model", "stack", "hardware"}) {
    for (const char* key : {"name", "title", "source", "sources", "memory_source"}) reduced[part].erase(key);
  }
  return stable_hash(reduced);
}

/// `parts`: those of the case, which the variant changes.
ResolvedVariant resolve_variant(const CaseFile& source, const VariantSpec& spec, const std::vector<Override>& sets,
                                const DataRoot& root, std::array<Part, 4> parts, std::vector<Violation>& problems) {
  ResolvedVariant variant;
  variant.id = spec.id;
  variant.title = spec.title.empty() ? spec.id : spec.title;
  std::vector<Violation> found;
  std::vector<Override> all = spec.set;
  all.insert(all.end(), sets.begin(), sets.end());
  for (const Override& set : all) {
    const std::size_t dot = set.key.find('.');
    const std::string head = set.key.substr(0, dot);
    const auto at = std::find(kParts.begin(), kParts.end(), head);
    if (at == kParts.end()) {
      std::vector<std::string> candidates(kParts.begin(), kParts.end());
      for (std::size_t i = 0; i < parts.size(); ++i) leaves(parts[i].json, kParts[i], candidates);
      const std::string guess = suggest(set.key, candidates);
      found.push_back(
          {set.file, set.key, set.value.dump(), "unknown key",
           guess.empty() ? "keys start with model., layout., stack. or hardware." : "did you mean \"" + guess + "\"?"});
      continue;
    }
    Part& part = parts[static_cast<std::size_t>(at - kParts.begin())];
    if (dot == std::string::npos) {
      part = load(head, set.value, set.file, source.file, root, found);
      continue;
    }
    const std::string wrong = put(part.json, set.key.substr(dot + 1), set.value);
    if (!wrong.empty())
      found.push_back({set.file, set.key, set.value.dump(), wrong, "set what lies above it as a whole"});
    if (!part.reference.empty() && part.reference.find(" (changed)") == std::string::npos)
      part.reference += " (changed)";
  }
  const bool loaded = std::all_of(parts.begin(), parts.end(), [](const Part& part) { return part.found; });
  if (loaded && found.empty()) {
    Parsed parsed = parse(parts, all, found);
    variant.config.model = parsed.model;
    variant.config.layout = parsed.layout;
    variant.config.stack = parsed.stack;
    variant.hardware_name = parts[3].reference.empty() ? parsed.hardware.name : parts[3].reference;
    variant.hardware = std::make_shared<const HardwareProfile>(std::move(parsed.hardware));
    if (found.empty()) {
      for (Violation& violation : judge_together(variant, source.file)) {
        attribute(violation, violation.key, all);
        found.push_back(std::move(violation));
      }
    }
    variant.resolved = {{"model", to_json(variant.config.model)},
                        {"layout", to_json(variant.config.layout)},
                        {"stack", to_json(variant.config.stack)},
                        {"hardware", parts[3].json}};
    variant.hash = hash_of(variant.resolved);
  }
  problems.insert(problems.end(), found.begin(), found.end());
  return variant;
}

void refuse_equal(const ResolvedCase& resolved, std::vector<Violation>& problems) {
  for (std::size_t i = 0; i < resolved.variants.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (resolved.variants[j].hash != resolved.variants[i].hash) continue;
      problems.push_back({resolved.source.file, "variants", resolved.variants[i].id,
                          "resolves to the same configuration as \"" + resolved.variants[j].id + "\"",
                          "change or remove one of them"});
    }
  }
}

/// Leaves the first of every configuration.
void merge_equal(std::vector<ResolvedVariant>& variants, std::vector<std::string>& notes) {
  std::vector<ResolvedVariant> kept;
  for (ResolvedVariant& variant : variants) {
    const auto first = std::find_if(kept.begin(), kept.end(),
                                    [&](const ResolvedVariant& other) { return other.hash == variant.hash; });
    if (first == kept.end()) {
      kept.push_back(std::move(variant));
    } else {
      first->title += (first->title.empty() ? "" : "; ") + fmt::format("under --set also {}", variant.id);
      notes.push_back(fmt::format("{} is the same as {} under this --set: measured once", variant.id, first->id));
    }
  }
  variants = std::move(kept);
}

bool same(const Violation& a, const Violation& b) {
  return a.file == b.file && a.key == b.key && a.value == b.value && a.problem == b.problem && a.remedy == b.remedy;
}

}  // namespace

std::string put(Json& target, const std::string& key, const Json& value) {
  Json* at = &target;
  std::size_t begin = 0;
  while (true) {
    if (!at->is_object())
      return fmt::format("\"{}\" holds {}, which has no keys", key.substr(0, begin - 1), at->dump());
    const std::size_t dot = key.find('.', begin);
    const std::string word = key.substr(begin, dot == std::string::npos ? dot : dot - begin);
    if (word.empty()) return "the key has an empty part";
    if (dot == std::string::npos) {
      (*at)[word] = value;
      return "";
    }
    if (!at->contains(word)) (*at)[word] = Json::object();
    at = &(*at)[word];
    begin = dot + 1;
  }
}

std::string read_method_note(const std::string& case_file) {
  std::ifstream file(std::filesystem::path(case_file).replace_extension(".md"), std::ios::binary);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  return text.str();
}

ResolvedCase resolve_case(const CaseFile& source, const std::vector<Override>& sets, const DataRoot& root,
                          std::vector<Violation>& problems) {
  ResolvedCase result;
  result.source = source;
  result.method_note = read_method_note(source.file);
  std::vector<Violation> found;
  const std::array<Part, 4> parts = {load("model", source.model, source.file, source.file, root, found),
                                     load("layout", source.layout, source.file, source.file, root, found),
                                     load("stack", source.stack, source.file, source.file, root, found),
                                     load("hardware", source.hardware, source.file, source.file, root, found)};
  for (const VariantSpec& spec : source.variants) {
    result.variants.push_back(resolve_variant(source, spec, sets, root, parts, found));
  }
  // A mistake in what the variants share shows once, not once a variant.
  for (const Violation& violation : found) {
    const bool known =
        std::any_of(problems.begin(), problems.end(), [&](const Violation& other) { return same(violation, other); });
    if (!known) problems.push_back(violation);
  }
  if (!found.empty()) return result;

  if (sets.empty()) {
    refuse_equal(result, problems);
  } else {
    merge_equal(result.variants, result.notes);
  }
  for (const ResolvedVariant& variant : result.variants) {
    if (variant.config.layout.attention != AttentionKernel::flash || !variant.hardware) continue;
    const std::string stand_in = attention_stand_in(*variant.hardware, variant.config.stack.fused_attention);
    if (!stand_in.empty()) result.notes.push_back(variant.id + ": " + stand_in);
  }
  Json hashes = Json::object();
  Json variants = Json::array();
  for (const ResolvedVariant& variant : result.variants) {
    hashes[variant.id] = variant.hash;
    Json entry = {{"id", variant.id}, {"title", variant.title}, {"hash", variant.hash}};
    entry.update(variant.resolved);
    variants.push_back(std::move(entry));
  }
  result.hash = stable_hash(hashes);
  Json comparisons = Json::array();
  for (const ComparisonSpec& comparison : source.comparisons) {
    comparisons.push_back(
        {{"id", comparison.id}, {"title", comparison.title}, {"from", comparison.from}, {"to", comparison.to}});
  }
  Json refs = Json::array();
  for (const CaseReference& reference : source.refs) {
    refs.push_back({{"kind", reference.kind}, {"cite", reference.cite}, {"where", reference.where}});
  }
  result.resolved = {{"schema_version", kCaseSchemaVersion},
                     {"id", source.id},
                     {"title", source.title},
                     {"file", root.shorten(source.file)},
                     {"tags", source.tags},
                     {"refs", refs},
                     {"hash", result.hash},
                     {"variants", variants},
                     {"comparisons", comparisons}};
  return result;
}

}  // namespace benchsuite
