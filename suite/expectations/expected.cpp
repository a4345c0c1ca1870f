#include "suite/expectations/expected.h"

#include <algorithm>
#include <set>

namespace benchsuite {

namespace {

std::optional<Interval> read_interval(ObjectReader& reader, const char* key) {
  const Json* json = reader.raw(key);
  if (!json) return std::nullopt;
  const auto is_side = [](const Json& side) { return side.is_number() || side.is_null(); };
  if (!json->is_array() || json->size() != 2 || !is_side(json->at(0)) || !is_side(json->at(1))) {
    reader.problem(key, "must be a pair of numbers", "write [low, high]; null leaves a side open");
    return std::nullopt;
  }
  Interval interval;
  if (json->at(0).is_number()) interval.low = json->at(0).get<double>();
  if (json->at(1).is_number()) interval.high = json->at(1).get<double>();
  if (!interval.low && !interval.high)
    reader.problem(key, "both sides are open: nothing is asked", "give at least one bound");
  if (interval.low && interval.high && *interval.low > *interval.high) {
    reader.problem(key, "low is above high", "swap the two");
  }
  return interval;
}

bool inside(const Interval& inner, const Interval& outer) {
  const bool low = !outer.low || (inner.low && *inner.low >= *outer.low);
  const bool high = !outer.high || (inner.high && *inner.high <= *outer.high);
  return low && high;
}

/// Units whose values belong to one machine; sim may not be gated by somebody's measurement of them.
bool is_absolute_speed(const std::string& unit) {
  return unit == "s" || unit == "ms" || unit == "h" || unit.ends_with("/s");
}

void read_provenance(ObjectReader& reader, Expectation& expectation) {
  const Json* json = reader.raw("provenance", true);
  if (!json) return;
  ObjectReader provenance(*json, reader.file(), reader.dotted("provenance"), reader.problems());
  provenance.required("source", expectation.source);
  provenance.optional("where", expectation.where);
  provenance.optional("hardware", expectation.hardware);
  for (const char* free_text : {"url", "scope", "created", "author", "note"}) {
    std::string ignored;
    provenance.optional(free_text, ignored);
  }
  provenance.finish();
}

void check_claim(ObjectReader& reader, const Expectation& expectation) {
  for (const char* key : {"pass", "warn", "equals"}) {
    if (reader.has(key)) reader.problem(key, "a claim never gates", "remove it, or use another kind");
  }
  if (expectation.verdict.empty())
    reader.problem("verdict", "a claim needs its verdict", "say consistent, inconsistent, ...");
  if (expectation.explanation.empty()) {
    reader.problem("explanation", "a claim needs one sentence of arithmetic", "write it");
  }
}

void check_gate(ObjectReader& reader, const Expectation& expectation, bool has_tolerance) {
  if (!expectation.metric && !reader.has("metric")) {
    reader.problem("metric", "missing", "say what is judged: {\"value\": \"variant.metric\"}");
  }
  // What speaks of no variant holds whatever was measured: it would let a broken run pass.
  if (expectation.metric && variants_of(*expectation.metric).empty() && reader.problems().empty()) {
    reader.problem("metric", "speaks of no variant", "say what is judged: {\"value\": \"variant.metric\"}");
  }
  if (expectation.metric && expectation.equals && to_string(*expectation.metric) == to_string(*expectation.equals)) {
    reader.problem("equals", "is the metric itself, which always holds", "name what it should equal");
  }
  if (!expectation.verdict.empty()) reader.problem("verdict", "only a claim has a verdict of its own", "remove it");
  if (reader.has("equals")) {
    if (reader.has("pass") || reader.has("warn"))
      reader.problem("equals", "stands beside pass or warn", "keep one of the two");
    if (!has_tolerance)
      reader.problem("tolerance", "missing", "write {\"rel\": 1e-9, \"reason\": \"...\"}; 0 for exact");
  } else if (!reader.has("pass")) {
    reader.problem("pass", "missing", "give pass (and warn) bounds, or equals");
  }
  if (expectation.pass && expectation.warn && !inside(*expectation.pass, *expectation.warn)) {
    reader.problem("warn", "does not enclose pass", "the warn bounds are the outer ones");
  }
  const bool on_sim = expectation.devices.empty() || std::find(expectation.devices.begin(), expectation.devices.end(),
                                                               "sim") != expectation.devices.end();
  if (expectation.kind == ExpectationKind::measurement && on_sim && is_absolute_speed(expectation.unit)) {
    reader.problem("devices", "a measured time or rate of one machine can't gate the simulator",
                   "name the device it was measured for, or judge a ratio");
  }
}

Expectation read_expectation(ObjectReader& reader) {
  Expectation result;
  reader.required("id", result.id);
  reader.optional("title", result.title);
  if (result.title.empty()) result.title = result.id;
  if (const Json* metric = reader.raw("metric")) {
    result.metric = read_expression(*metric, reader.file(), reader.dotted("metric"), reader.problems());
  }
  reader.required("unit", result.unit);
  reader.choice("kind", result.kind,
                {{"measurement", ExpectationKind::measurement},
                 {"claim", ExpectationKind::claim},
                 {"bound", ExpectationKind::bound},
                 {"baseline", ExpectationKind::baseline}},
                true);
  result.pass = read_interval(reader, "pass");
  result.warn = read_interval(reader, "warn");
  if (const Json* equals = reader.raw("equals")) {
    result.equals = read_expression(*equals, reader.file(), reader.dotted("equals"), reader.problems());
  }
  const Json* tolerance = reader.raw("tolerance");
  if (tolerance) {
    ObjectReader entry(*tolerance, reader.file(), reader.dotted("tolerance"), reader.problems());
    std::string reason;
    entry.required("rel", result.tolerance);
    entry.required("reason", reason);
    if (result.tolerance < 0) entry.problem("rel", "is negative", "give 0 or more");
    entry.finish();
  }
  if (reader.has("target")) {
    double target = 0;
    reader.optional("target", target);
    result.target = target;
  }
  reader.choice("better", result.better,
                {{"lower", Better::lower}, {"higher", Better::higher}, {"neither", Better::neither}});
  reader.optional("devices", result.devices);
  for (const std::string& device : result.devices) {
    if (device != "sim" && device != "cpu" && device != "cuda") {
      reader.problem("devices", "unknown device \"" + device + "\"", "choose from sim, cpu, cuda");
    }
  }
  if (reader.has("verdict")) {
    reader.choice("verdict", result.verdict,
                  {{"consistent", std::string("consistent")},
                   {"approximately", std::string("approximately")},
                   {"inconsistent", std::string("inconsistent")},
                   {"underdetermined", std::string("underdetermined")},
                   {"needs-measurement", std::string("needs-measurement")},
                   {"needs-simulation", std::string("needs-simulation")}});
  }
  reader.optional("explanation", result.explanation);
  read_provenance(reader, result);
  if (result.kind == ExpectationKind::claim) {
    check_claim(reader, result);
  } else {
    check_gate(reader, result, tolerance != nullptr);
  }
  return result;
}

/// Puts `variant` in place of "{variant}" in every text of `json`.
Json filled_in(const Json& json, const std::string& variant) {
  static constexpr std::string_view kPlace = "{variant}";
  if (json.is_string()) {
    std::string text = json.get<std::string>();
    for (std::size_t at = text.find(kPlace); at != std::string::npos; at = text.find(kPlace, at + variant.size())) {
      text.replace(at, kPlace.size(), variant);
    }
    return text;
  }
  if (!json.is_structured()) return json;
  Json filled = json;
  for (Json& item : filled) item = filled_in(item, variant);
  return filled;
}

/// An entry with "variants": [...] stands for one expectation a variant; any other for itself.
std::vector<Json> expanded(const Json& entry, const std::string& file, const std::string& key,
                           std::vector<Violation>& problems) {
  if (!entry.is_object() || !entry.contains("variants")) return {entry};
  const Json& variants = entry["variants"];
  const bool named = variants.is_array() && !variants.empty() &&
                     std::all_of(variants.begin(), variants.end(), [](const Json& name) { return name.is_string(); });
  if (!named) {
    problems.push_back({file, key + ".variants", variants.dump(), "must be a list of variants", R"(write ["a", "b"])"});
    return {};
  }
  if (!entry.contains("id") || !entry["id"].is_string() ||
      entry["id"].get<std::string>().find("{variant}") == std::string::npos) {
    problems.push_back({file, key + ".id", "", "does not tell the variants apart", "write {variant} in it"});
    return {};
  }
  std::vector<Json> all;
  for (const Json& variant : variants) {
    all.push_back(filled_in(entry, variant.get<std::string>()));
    all.back().erase("variants");
  }
  return all;
}

}  // namespace

std::string Expectation::provenance() const {
  std::string text = source;
  if (!where.empty()) text += ", " + where;
  if (!hardware.empty()) text += " (" + hardware + ")";
  return text;
}

std::string_view name_of(ExpectationKind kind) {
  switch (kind) {
    case ExpectationKind::measurement:
      return "measurement";
    case ExpectationKind::claim:
      return "claim";
    case ExpectationKind::bound:
      return "bound";
    case ExpectationKind::baseline:
      return "baseline";
  }
  return "?";
}

ExpectedFile read_expected(const Json& json, const std::string& file, std::vector<Violation>& problems) {
  ExpectedFile result;
  result.file = file;
  ObjectReader reader(json, file, "", problems);
  int schema_version = kExpectedSchemaVersion;
  reader.required("schema_version", schema_version);
  if (schema_version != kExpectedSchemaVersion) {
    reader.problem("schema_version", "this build reads version " + std::to_string(kExpectedSchemaVersion),
                   "use a build that knows the version, or rewrite the file");
  }
  reader.required("case", result.case_id);
  std::set<std::string> ids;
  if (const Json* list = reader.raw("expectations", true)) {
    if (!list->is_array()) {
      reader.problem("expectations", "must be a list of objects", "write [{...}, ...]");
    } else {
      for (std::size_t i = 0; i < list->size(); ++i) {
        const std::string key = "expectations[" + std::to_string(i) + "]";
        for (const Json& one : expanded(list->at(i), file, key, problems)) {
          ObjectReader entry(one, file, key, problems);
          Expectation expectation = read_expectation(entry);
          if (!expectation.id.empty() && !ids.insert(expectation.id).second) {
            entry.problem("id", "two expectations have this id", "give each its own id");
          }
          entry.finish();
          result.expectations.push_back(std::move(expectation));
        }
      }
    }
  }
  reader.finish();
  return result;
}

void check_variants(const ExpectedFile& expected, const std::vector<std::string>& variants,
                    std::vector<Violation>& problems) {
  for (const Expectation& expectation : expected.expectations) {
    std::set<std::string> used;
    if (expectation.metric) used.merge(variants_of(*expectation.metric));
    if (expectation.equals) used.merge(variants_of(*expectation.equals));
    for (const std::string& id : used) {
      if (std::find(variants.begin(), variants.end(), id) != variants.end()) continue;
      const std::string guess = did_you_mean(id, variants);
      problems.push_back({expected.file, "expectations", expectation.id,
                          "the case \"" + expected.case_id + "\" has no variant \"" + id + "\"",
                          guess.empty() ? "name one of its variants" : "did you mean \"" + guess + "\"?"});
    }
  }
}

}  // namespace benchsuite
