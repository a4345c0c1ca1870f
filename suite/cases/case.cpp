#include "suite/cases/case.h"

#include <algorithm>
#include <set>

namespace benchsuite {

namespace {

bool is_identifier(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char letter) {
    return (letter >= 'a' && letter <= 'z') || (letter >= '0' && letter <= '9') || letter == '_' || letter == '-';
  });
}

void require_identifier(ObjectReader& reader, const std::string& id) {
  if (!id.empty() && !is_identifier(id)) {
    reader.problem("id", "not an identifier", "use lower-case letters, digits, '_' and '-' only");
  }
}

std::string element(const char* list, std::size_t index) {
  return std::string(list) + "[" + std::to_string(index) + "]";
}

/// Calls `read(reader)` for each object of a list; `must` makes a missing or empty list a violation.
template <class Read>
void each(ObjectReader& reader, const char* key, bool must, const Read& read) {
  const Json* list = reader.raw(key, must);
  if (!list) return;
  if (!list->is_array() || (must && list->empty())) {
    reader.problem(key, must ? "must be a list with at least one object" : "must be a list of objects",
                   "write [{...}, ...]");
    return;
  }
  for (std::size_t i = 0; i < list->size(); ++i) {
    ObjectReader entry(list->at(i), reader.file(), reader.dotted(element(key, i).c_str()), reader.problems());
    read(entry);
    entry.finish();
  }
}

}  // namespace

Override parse_set(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw Error({Violation{"--set", "", text, "not of the form KEY=VALUE", "write for example --set layout.tp=8"}});
  }
  const std::string value = text.substr(equals + 1);
  Json parsed = Json::parse(value, nullptr, false);
  return {text.substr(0, equals), parsed.is_discarded() ? Json(value) : std::move(parsed), "--set"};
}

CaseFile read_case(const Json& json, const std::string& file, std::vector<Violation>& problems) {
  CaseFile result;
  result.file = file;
  ObjectReader reader(json, file, "", problems);
  int schema_version = kCaseSchemaVersion;
  reader.required("schema_version", schema_version);
  if (schema_version != kCaseSchemaVersion) {
    reader.problem("schema_version", "this build reads version " + std::to_string(kCaseSchemaVersion),
                   "use a build that knows the version, or rewrite the file");
  }
  reader.required("id", result.id);
  require_identifier(reader, result.id);
  reader.required("title", result.title);
  reader.optional("tags", result.tags);
  each(reader, "refs", false, [&](ObjectReader& entry) {
    CaseReference reference;
    entry.required("kind", reference.kind);
    entry.required("cite", reference.cite);
    entry.optional("where", reference.where);
    result.refs.push_back(reference);
  });
  for (const auto& [key, out] : {std::pair<const char*, Json*>{"model", &result.model},
                                 {"layout", &result.layout},
                                 {"stack", &result.stack},
                                 {"hardware", &result.hardware}}) {
    const Json* value = reader.raw(key, true);
    if (!value) continue;
    const bool may_be_named = out != &result.layout;
    if (!value->is_object() && !(may_be_named && value->is_string())) {
      reader.problem(key, may_be_named ? "must be a name or an object" : "must be an object",
                     may_be_named ? "write a name, a path or {...}" : "write {...}");
      continue;
    }
    *out = *value;
  }

  std::set<std::string> variant_ids;
  each(reader, "variants", true, [&](ObjectReader& entry) {
    VariantSpec variant;
    entry.required("id", variant.id);
    require_identifier(entry, variant.id);
    entry.optional("title", variant.title);
    if (!variant.id.empty() && !variant_ids.insert(variant.id).second) {
      entry.problem("id", "two variants have this id", "give each variant its own id");
    }
    if (const Json* set = entry.raw("set")) {
      if (set->is_object()) {
        for (const auto& [key, value] : set->items()) variant.set.push_back({key, value, file});
      } else {
        entry.problem("set", "must be an object", "write {\"layout.tp\": 8, ...}");
      }
    }
    result.variants.push_back(std::move(variant));
  });

  std::set<std::string> comparison_ids;
  const std::vector<std::string> known(variant_ids.begin(), variant_ids.end());
  each(reader, "comparisons", false, [&](ObjectReader& entry) {
    ComparisonSpec comparison;
    entry.required("id", comparison.id);
    entry.optional("title", comparison.title);
    entry.required("from", comparison.from);
    entry.required("to", comparison.to);
    if (!comparison.id.empty() && !comparison_ids.insert(comparison.id).second) {
      entry.problem("id", "two comparisons have this id", "give each comparison its own id");
    }
    for (const auto& [key, id] :
         {std::pair<const char*, const std::string&>{"from", comparison.from}, {"to", comparison.to}}) {
      if (id.empty() || variant_ids.contains(id)) continue;
      const std::string guess = did_you_mean(id, known);
      entry.problem(key, "no variant has this id",
                    guess.empty() ? "name a variant" : "did you mean \"" + guess + "\"?");
    }
    if (!comparison.from.empty() && comparison.from == comparison.to) {
      entry.problem("to", "a comparison needs two different variants", "name another variant");
    }
    result.comparisons.push_back(std::move(comparison));
  });
  reader.finish();
  return result;
}

}  // namespace benchsuite
