#include "engine/device/sim/provenance_reader.h"

#include <algorithm>
#include <cmath>

namespace benchsuite {

namespace {

bool inside(Range range, double value) {
  switch (range) {
    case Range::positive:
      return value > 0;
    case Range::not_negative:
      return value >= 0;
    case Range::share:
      return value > 0 && value <= 1;
    case Range::share_or_zero:
      return value >= 0 && value <= 1;
    case Range::any:
      return true;
  }
  return false;
}

const char* words(Range range) {
  switch (range) {
    case Range::positive:
      return "above 0";
    case Range::not_negative:
      return "0 or more";
    case Range::share:
      return "above 0 and at most 1";
    case Range::share_or_zero:
      return "between 0 and 1";
    case Range::any:
      return "a number";
  }
  return "";
}

void read_errors(ObjectReader& error) {
  double middle = 0, high = 0;
  error.required("median", middle);
  error.required("p90", high);
}

}  // namespace

void ProvenanceReader::section(ObjectReader& parent, const char* key, bool must,
                               const std::function<void(ObjectReader&)>& body) {
  const Json* value = parent.raw(key, must);
  if (!value) return;
  ObjectReader reader(*value, file_, parent.dotted(key), problems_);
  if (!value->is_object()) return;
  body(reader);
  reader.finish();
}

void ProvenanceReader::section_of_list(ObjectReader& parent, const char* key,
                                       const std::function<void(ObjectReader&)>& body) {
  const Json* list = parent.raw(key, true);
  if (!list) return;
  if (!list->is_array() || list->empty())
    return parent.problem(key, "must be a list with entries", "write [{...}, ...]");
  for (std::size_t i = 0; i < list->size(); ++i) {
    ObjectReader reader((*list)[i], file_, parent.dotted(key) + "[" + std::to_string(i) + "]", problems_);
    if (!(*list)[i].is_object()) continue;
    body(reader);
    reader.finish();
  }
}

void ProvenanceReader::read_sources(ObjectReader& top) {
  const Json* sources = top.raw("sources", true);
  if (!sources) return;
  if (!sources->is_object())
    return top.problem("sources", "an object is needed here", "write {\"key\": \"origin\", ...}");
  for (const auto& [key, text] : sources->items()) {
    sources_.push_back(key);
    if (!text.is_string() || text.get_ref<const std::string&>().empty())
      problems_.push_back({file_, "sources." + key, text.dump(), "must be text", "name the public origin"});
  }
}

void ProvenanceReader::provenance(ObjectReader& reader) {
  std::string source;
  reader.required("source", source);
  for (std::size_t start = 0; start < source.size();) {
    const std::size_t comma = std::min(source.find(", ", start), source.size());
    const std::string key = source.substr(start, comma - start);
    if (std::find(sources_.begin(), sources_.end(), key) == sources_.end())
      reader.problem("source", "\"" + key + "\" is not a key of \"sources\"", "add it to the top-level \"sources\"");
    start = comma + 2;
  }
  std::int64_t rows = 1;
  reader.optional("rows", rows);
  if (rows < 1) reader.problem("rows", "must be 1 or more", "give the number of measurements behind the value");
  std::string status = "measured", reason, note;
  reader.choice("status", status, {{"measured", "measured"}, {"proxy", "proxy"}});
  reader.optional("reason", reason);
  reader.optional("note", note);
  if (status == "proxy" && reason.empty())
    reader.problem("reason", "a proxy needs a reason", "say what stands in for what");
  section(reader, "fit_error", false, read_errors);
  for (const char* key : {"held_back", "other_machines"}) {
    section(reader, key, false, [&](ObjectReader& held) {
      whole(held, "rows");
      read_errors(held);
      section(held, "of_size", false, read_errors);
    });
  }
  if (!reader.has("spread")) return;
  section_of_list(reader, "spread", [&](ObjectReader& other) {
    std::string name;
    other.required("source", name);
    whole(other, "rows");
    read_errors(other);
    double bias = 0;
    other.optional("bias", bias);
  });
}

ModelError ProvenanceReader::model_error(const Json& section) {
  for (const char* key : {"other_machines", "held_back", "fit_error"}) {
    const auto found = section.find(key);
    if (found == section.end() || !found->is_object()) continue;
    const auto number = [](const Json& holder, const char* name) {
      const auto value = holder.find(name);
      return value != holder.end() && value->is_number() ? value->get<double>() : 0.0;
    };
    const auto shared = found->find("of_size");
    const Json of_size = shared != found->end() && shared->is_object() ? *shared : Json::object();
    return {number(*found, "median"), number(*found, "p90"), number(of_size, "median"), number(of_size, "p90")};
  }
  return {};
}

double ProvenanceReader::quantity(ObjectReader& parent, const char* key, const char* unit, double scale, Range range) {
  double value = 0;
  section(parent, key, true, [&](ObjectReader& reader) {
    const std::size_t before = problems_.size();
    reader.required("value", value);
    const bool stated = problems_.size() == before;
    if (stated && !inside(range, value))
      reader.problem("value", std::string("must be ") + words(range), "correct the value");
    std::string given;
    reader.required("unit", given);
    if (!given.empty() && given != unit)
      reader.problem("unit", "the unit must be \"" + std::string(unit) + "\"", "convert the value to that unit");
    provenance(reader);
    std::string drawn_as;
    reader.optional("as", drawn_as);
    if (!reader.has("range")) return;
    const std::vector<double> ends = numbers(reader, "range");
    if (!stated) return;
    if (ends.size() != 2 || ends[0] > value || ends[1] < value || !inside(range, ends[0]) || !inside(range, ends[1]))
      reader.problem("range", "must be [low, high] around the value", "give the spread of the sources");
  });
  return value * scale;
}

int ProvenanceReader::count(ObjectReader& parent, const char* key) {
  const double value = quantity(parent, key, "count", 1, Range::positive);
  if (value != std::floor(value) || value > 1e6) {
    parent.problem(key, "must be a whole number below a million", "correct the value");
    return 1;
  }
  return static_cast<int>(value);
}

double ProvenanceReader::number(ObjectReader& reader, const char* key, Range range) {
  double value = 0;
  const std::size_t before = problems_.size();
  reader.required(key, value);
  if (problems_.size() == before && !inside(range, value))
    reader.problem(key, std::string("must be ") + words(range), "correct the value");
  return value;
}

std::int64_t ProvenanceReader::whole(ObjectReader& reader, const char* key) {
  std::int64_t value = 0;
  const std::size_t before = problems_.size();
  reader.required(key, value);
  if (problems_.size() == before && value < 1) reader.problem(key, "must be 1 or more", "correct the value");
  return value;
}

std::vector<double> ProvenanceReader::numbers(ObjectReader& reader, const char* key) {
  const Json* list = reader.raw(key, true);
  std::vector<double> values;
  if (!list) return values;
  bool good = list->is_array() && !list->empty();
  for (std::size_t i = 0; good && i < list->size(); ++i) {
    good = (*list)[i].is_number();
    if (good) values.push_back((*list)[i].get<double>());
  }
  if (!good) reader.problem(key, "must be a list of numbers", "write [1, 2, ...]");
  return values;
}

std::vector<double> ProvenanceReader::ascending(ObjectReader& reader, const char* key) {
  std::vector<double> values = numbers(reader, key);
  if (std::adjacent_find(values.begin(), values.end(), std::greater_equal<>()) != values.end())
    reader.problem(key, "must ascend", "sort the list");
  return values;
}

Curve ProvenanceReader::curve(ObjectReader& reader, const char* x_key) {
  Curve result{ascending(reader, x_key), numbers(reader, "slowdown")};
  if (result.x.size() != result.y.size()) {
    reader.problem("slowdown", std::string("needs one number for each of ") + x_key, "make the lists equally long");
    return {};
  }
  return result;
}

}  // namespace benchsuite
