#include "suite/accuracy/source_rules.h"

#include <algorithm>
#include <cctype>

namespace benchsuite {

namespace {

std::vector<std::pair<std::string, Json>> pairs_of(ObjectReader& reader, const char* key) {
  std::vector<std::pair<std::string, Json>> pairs;
  const Json* object = reader.raw(key);
  if (!object) return pairs;
  if (!object->is_object()) {
    reader.problem(key, "is no object", "give dotted keys and their values");
    return pairs;
  }
  for (const auto& [name, value] : object->items()) pairs.emplace_back(name, value);
  return pairs;
}

SourceRule read_rule(const Json& json, const std::string& file, const std::string& path, std::vector<Violation>& problems) {
  ObjectReader reader(json, file, path, problems);
  SourceRule rule;
  reader.required("set", rule.set);
  reader.required("id", rule.ids);
  reader.optional("sources", rule.sources);
  rule.where = pairs_of(reader, "where");
  reader.optional("unmapped", rule.unmapped);
  if (rule.unmapped.empty()) {
    reader.required("stack", rule.stack);
    reader.required("why", rule.why);
  }
  rule.defaults = pairs_of(reader, "defaults");
  reader.optional("stated", rule.stated);
  reader.choice("memory", rule.held_memory, {{"allocated", false}, {"held", true}});
  if (const Json* list = reader.raw("unstated")) {
    rule.unstated = read_unstated_settings(*list, file, path + ".unstated", problems);
  }
  reader.finish();
  return rule;
}

RelativeSet read_relative(const Json& json, const std::string& file, const std::string& path, std::vector<Violation>& problems) {
  ObjectReader reader(json, file, path, problems);
  RelativeSet set;
  reader.required("set", set.set);
  reader.required("of", set.of);
  reader.optional("id", set.ids);
  std::string compares;
  reader.required("compares", compares);
  set.compares = compares == "schedule" ? RelativeSet::Compares::schedule : RelativeSet::Compares::step;
  if (!compares.empty() && compares != "step" && compares != "schedule") {
    reader.problem("compares", "is nothing that is compared", "use \"step\" or \"schedule\"");
  }
  set.reference = pairs_of(reader, "reference");
  if (set.reference.empty()) reader.problem("reference", "names no row", "give dotted keys and values of the reference rows");
  reader.required("mean_abs_pct", set.mean_abs_pct);
  reader.required("why", set.why);
  reader.optional("residual", set.residual);
  reader.finish();
  return set;
}

std::vector<SubTarget::Term> read_terms(ObjectReader& reader) {
  using Kind = SubTarget::Term::Kind;
  std::vector<SubTarget::Term> terms;
  for (auto& [key, value] : pairs_of(reader, "where")) {
    if (!value.is_object()) {
      terms.push_back({key, Kind::equal, value});
      continue;
    }
    const auto one = value.begin();
    const bool known = value.size() == 1 && (one.key() == "at_most" || one.key() == "multiple_of") && one->is_number_integer() &&
                       one->get<std::int64_t>() > 0;
    if (known) terms.push_back({key, one.key() == "at_most" ? Kind::at_most : Kind::multiple_of, *one});
    else reader.problem("where", key + " has no such condition", "give a value, {\"at_most\": N} or {\"multiple_of\": N}");
  }
  return terms;
}

SubTarget read_sub_target(const Json& json, const std::string& file, const std::string& path,
                          const std::vector<SourceRule>& rules, std::vector<Violation>& problems) {
  using Metric = SubTarget::Metric;
  ObjectReader reader(json, file, path, problems);
  SubTarget target;
  reader.required("set", target.set);
  reader.required("name", target.name);
  reader.optional("id", target.ids);
  target.where = read_terms(reader);
  reader.raw("metric", true);
  reader.choice("metric", target.metric,
                {{"mean_abs_pct", Metric::mean_abs_pct},
                 {"rank_correlation", Metric::rank_correlation},
                 {"worst_forward_pct", Metric::worst_forward_pct},
                 {"worst_backward_pct", Metric::worst_backward_pct},
                 {"memory_right_pct", Metric::memory_right_pct},
                 {"memory_side", Metric::memory_side}});
  double bound = 0;
  reader.optional("bound", bound);
  if (reader.raw("bound")) target.bound = bound;
  const bool known = target.set == kAllRows || std::any_of(rules.begin(), rules.end(), [&](const SourceRule& rule) {
                       return rule.set == target.set;
                     });
  if (!target.set.empty() && !known) reader.problem("set", "is no set of a rule", "name one, or \"all rows\"");
  reader.finish();
  return target;
}

/// Whether the row has these values.
bool holds(const PublishedRow& row, const std::vector<std::pair<std::string, Json>>& terms) {
  return std::all_of(terms.begin(), terms.end(), [&](const auto& term) { return row_value(row, term.first) == term.second; });
}

bool begins_with_one(const PublishedRow& row, const std::vector<std::string>& ids) {
  return std::any_of(ids.begin(), ids.end(), [&](const auto& id) { return row.id.starts_with(id); });
}

}  // namespace

bool holds_text(std::string text, std::string part) {
  for (std::string* each : {&text, &part}) {
    std::transform(each->begin(), each->end(), each->begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  }
  if (part.find('*') == std::string::npos) return text.find(part) != std::string::npos;
  std::size_t at = 0, from = 0;
  bool anchored = true;
  while (from <= part.size()) {
    const std::size_t star = std::min(part.find('*', from), part.size());
    const std::string piece = part.substr(from, star - from);
    const std::size_t found = text.find(piece, at);
    if (found == std::string::npos || (anchored && found != 0)) return false;
    at = found + piece.size();
    anchored = false;
    from = star + 1;
  }
  return part.ends_with('*') || text.ends_with(part.substr(part.rfind('*') + 1));
}

std::vector<UnstatedSetting> read_unstated_settings(const Json& list, const std::string& file, const std::string& path,
                                                    std::vector<Violation>& problems) {
  std::vector<UnstatedSetting> settings;
  if (!list.is_array()) {
    problems.push_back({file, path, list.dump(), "is no list", "give a list of {\"key\", \"values\", \"why\"}"});
    return settings;
  }
  for (std::size_t i = 0; i < list.size(); ++i) {
    ObjectReader reader(list[i], file, path + "[" + std::to_string(i) + "]", problems);
    UnstatedSetting& setting = settings.emplace_back();
    reader.required("key", setting.key);
    reader.required("why", setting.why);
    const bool known = setting.key.starts_with("model.") || setting.key.starts_with("layout.") ||
                       setting.key.starts_with("stack.") || setting.key.starts_with("cluster.");
    if (!setting.key.empty() && !known) {
      reader.problem("key", "names no setting", "begin it with model., layout., stack. or cluster.");
    }
    const Json* values = reader.raw("values", true);
    if (values && values->is_array() && values->size() > 1) {
      setting.values.assign(values->begin(), values->end());
    } else if (values) {
      reader.problem("values", "is no list of alternatives", "give two or more values");
    }
    reader.finish();
  }
  return settings;
}

Json row_value(const PublishedRow& row, const std::string& dotted) {
  const std::size_t dot = dotted.find('.');
  const std::string section = dotted.substr(0, dot), key = dot == std::string::npos ? "" : dotted.substr(dot + 1);
  const Json* object = section == "model"      ? &row.model
                       : section == "cluster"  ? &row.cluster
                       : section == "layout"   ? &row.layout
                       : section == "measured" ? &row.measured
                                               : nullptr;
  if (!object || !object->contains(key)) return nullptr;
  return (*object)[key];
}

bool SubTarget::covers(const PublishedRow& row, const std::string& set_of_row) const {
  if (set != kAllRows && set != set_of_row) return false;
  if (!ids.empty() && !begins_with_one(row, ids)) return false;
  return std::all_of(where.begin(), where.end(), [&](const Term& term) {
    Json value = row_value(row, term.key);
    if (term.key == "model.head_size") {
      const auto hidden = PublishedRow::integer(row.model, "hidden"), heads = PublishedRow::integer(row.model, "heads");
      if (hidden && heads && *heads > 0 && *hidden % *heads == 0) value = *hidden / *heads;
    }
    if (term.kind == Term::Kind::equal) return value == term.value;
    if (!value.is_number_integer()) return false;
    const auto have = value.get<std::int64_t>(), bound_value = term.value.get<std::int64_t>();
    return term.kind == Term::Kind::at_most ? have <= bound_value : have % bound_value == 0;
  });
}

bool RelativeSet::covers(const PublishedRow& row, const std::string& set_of_row) const {
  return std::find(of.begin(), of.end(), set_of_row) != of.end() && (ids.empty() || begins_with_one(row, ids));
}

bool RelativeSet::is_reference(const PublishedRow& row) const { return holds(row, reference); }

const SourceRule* SourceRules::rule_of(const PublishedRow& row) const {
  const auto first = [&](const auto& fits) -> const SourceRule* {
    for (const SourceRule& rule : rules) {
      if (fits(rule) && holds(row, rule.where)) return &rule;
    }
    return nullptr;
  };
  const auto by_id = [&](const SourceRule& rule) { return !rule.knows_no_source() && begins_with_one(row, rule.ids); };
  const auto by_source = [&](const SourceRule& rule) {
    return std::any_of(rule.sources.begin(), rule.sources.end(), [&](const auto& part) { return holds_text(row.source, part); });
  };
  if (const SourceRule* rule = first(by_id)) return rule;
  if (const SourceRule* rule = first(by_source)) return rule;
  return first([](const SourceRule& rule) { return rule.knows_no_source(); });
}

bool SourceRule::knows_no_source() const { return std::find(ids.begin(), ids.end(), "") != ids.end(); }

const SetTarget* SourceRules::target_of(const std::string& set) const {
  for (const SetTarget& target : targets) {
    if (target.set == set) return &target;
  }
  return nullptr;
}

SourceRules read_source_rules(const Json& json, const std::string& file, std::vector<Violation>& problems) {
  SourceRules result;
  ObjectReader reader(json, file, "", problems);
  std::int64_t version = 1;
  reader.optional("schema_version", version);
  if (const Json* notes = reader.raw("intervals")) {
    if (!notes->is_object()) reader.problem("intervals", "is no object", "give sets and their notes");
    for (const auto& [set, note] : notes->items()) {
      if (note.is_string()) result.interval_notes[set] = note.get<std::string>();
      else problems.push_back({file, "intervals." + set, note.dump(), "is no text", "say why the intervals miss rows"});
    }
  }
  const auto list_of = [&](const char* key) -> const Json* {
    const Json* list = reader.raw(key, true);
    if (!list || list->is_array()) return list;
    reader.problem(key, "is no list", "give a list of objects");
    return nullptr;
  };
  if (const Json* list = list_of("rules")) {
    for (std::size_t i = 0; i < list->size(); ++i) {
      result.rules.push_back(read_rule((*list)[i], file, "rules[" + std::to_string(i) + "]", problems));
    }
  }
  if (const Json* list = list_of("targets")) {
    for (std::size_t i = 0; i < list->size(); ++i) {
      ObjectReader target((*list)[i], file, "targets[" + std::to_string(i) + "]", problems);
      SetTarget& made = result.targets.emplace_back();
      target.required("set", made.set);
      target.required("mean_abs_pct", made.mean_abs_pct);
      double most = 0;
      target.optional("max_abs_pct", most);
      if (most > 0) made.max_abs_pct = most;
      target.optional("residual", made.residual);
      target.finish();
    }
  }
  if (reader.raw("sub_targets")) {
    if (const Json* list = list_of("sub_targets")) {
      for (std::size_t i = 0; i < list->size(); ++i) {
        result.sub_targets.push_back(
            read_sub_target((*list)[i], file, "sub_targets[" + std::to_string(i) + "]", result.rules, problems));
      }
    }
  }
  if (reader.raw("relative")) {
    if (const Json* list = list_of("relative")) {
      for (std::size_t i = 0; i < list->size(); ++i) {
        result.relative.push_back(read_relative((*list)[i], file, "relative[" + std::to_string(i) + "]", problems));
      }
    }
  }
  reader.finish();
  return result;
}

SourceRules load_source_rules(const std::string& file) {
  std::vector<Violation> problems;
  SourceRules rules = read_source_rules(parse_json_file(file), file, problems);
  if (!problems.empty()) throw Error(std::move(problems));
  return rules;
}

}  // namespace benchsuite
