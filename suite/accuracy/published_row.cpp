#include "suite/accuracy/published_row.h"

#include <cmath>
#include <map>

namespace benchsuite {

namespace {

const std::pair<const char*, RowKind> kKinds[] = {
    {"throughput", RowKind::throughput}, {"oom", RowKind::oom},
    {"memory", RowKind::memory},         {"layer_time", RowKind::layer_time},
    {"config_only", RowKind::config_only}};

/// `over`'s keys laid over `under`'s, objects key by key.
Json laid_over(const Json& under, const Json& over) {
  if (!under.is_object() || !over.is_object()) return over;
  Json result = under;
  for (const auto& [key, value] : over.items()) {
    result[key] = result.contains(key) ? laid_over(result[key], value) : value;
  }
  return result;
}

Json object_of(const Json& row, const char* key, std::string& problem) {
  const auto found = row.find(key);
  if (found == row.end() || found->is_null()) return Json::object();
  if (found->is_object()) return *found;
  if (problem.empty()) problem = std::string(key) + " is no object";
  return Json::object();
}

PublishedRow read_row(const Json& json, std::size_t place) {
  PublishedRow row;
  row.id = "row " + std::to_string(place + 1);
  if (!json.is_object()) {
    row.problem = "the row is no object";
    return row;
  }
  if (const std::string id = PublishedRow::text(json, "id"); !id.empty()) row.id = id;
  if (const auto id = json.find("id"); id != json.end() && id->is_number()) row.id = id->dump();
  row.source = PublishedRow::text(json, "source");
  if (row.source.empty()) row.source = "source not stated";
  row.notes = PublishedRow::text(json, "notes");
  if (const auto found = json.find("verified"); found != json.end()) row.verified = *found == Json(true);
  row.model = object_of(json, "model", row.problem);
  row.cluster = object_of(json, "cluster", row.problem);
  row.layout = object_of(json, "layout", row.problem);
  row.measured = object_of(json, "measured", row.problem);
  const std::string kind = PublishedRow::text(json, "kind");
  if (!kind.empty()) {
    row.kind = RowKind::other;
    for (const auto& [word, meaning] : kKinds) {
      if (kind == word) row.kind = meaning;
    }
    if (row.kind == RowKind::other && row.problem.empty()) row.problem = "kind \"" + kind + "\" is not known";
  }
  return row;
}

}  // namespace

std::optional<std::int64_t> PublishedRow::integer(const Json& object, const char* key) {
  const std::optional<double> value = number(object, key);
  if (!value || *value != std::floor(*value) || std::abs(*value) > 1e15) return std::nullopt;
  return static_cast<std::int64_t>(*value);
}

std::optional<double> PublishedRow::number(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number() || !std::isfinite(found->get<double>())) return std::nullopt;
  return found->get<double>();
}

std::string PublishedRow::text(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

std::vector<PublishedRow> read_published_rows(const Json& json, const std::string& file) {
  std::vector<PublishedRow> rows;
  const auto refuse = [&](const std::string& key, const std::string& problem) {
    throw Error({Violation{file, key, "", problem,
                           "give an array of rows, or {\"groups\": [{\"common\": {...}, \"rows\": [...]}]}"}});
  };
  const auto add = [&](const Json& list, const Json& common) {
    for (const Json& row : list) rows.push_back(read_row(row.is_object() ? laid_over(common, row) : row, rows.size()));
  };
  if (json.is_array()) {
    add(json, Json::object());
  } else if (json.is_object() && json.contains("groups") && json["groups"].is_array()) {
    for (const Json& group : json["groups"]) {
      if (!group.is_object() || !group.contains("rows") || !group["rows"].is_array()) {
        refuse("groups", "a group has no rows");
      }
      add(group["rows"], group.value("common", Json::object()));
    }
  } else if (json.is_object() && json.contains("rows") && json["rows"].is_array()) {
    add(json["rows"], Json::object());
  } else {
    refuse("", "is no table of published rows");
  }
  std::map<std::string, int> seen;
  for (PublishedRow& row : rows) {
    if (const int count = ++seen[row.id]; count > 1) row.id += "#" + std::to_string(count);
  }
  return rows;
}

std::vector<PublishedRow> load_published_rows(const std::vector<std::string>& files) {
  std::vector<PublishedRow> rows;
  for (const std::string& file : files) {
    std::vector<PublishedRow> more = read_published_rows(parse_json_file(file), file);
    rows.insert(rows.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  }
  return rows;
}

}  // namespace benchsuite
