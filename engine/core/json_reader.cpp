#include "engine/core/json_reader.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <set>
#include <sstream>

namespace benchsuite {

namespace {

/// Deeper than any file of ours; what works on a tree recursively must not exhaust the stack on a hostile one.
constexpr int kDeepest = 100;

bool nests_too_deeply(const std::string& text) {
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char letter = text[i];
    if (quoted) {
      if (letter == '\\') ++i;
      quoted = letter != '"';
    } else if (letter == '"') {
      quoted = true;
    } else if (letter == '/' && i + 1 < text.size() && (text[i + 1] == '/' || text[i + 1] == '*')) {
      const bool line = text[i + 1] == '/';
      const std::size_t end = line ? text.find('\n', i) : text.find("*/", i + 2);
      if (end == std::string::npos) return false;
      i = line ? end : end + 1;
    } else if (letter == '[' || letter == '{') {
      if (++depth > kDeepest) return true;
    } else if (letter == ']' || letter == '}') {
      --depth;
    }
  }
  return false;
}

/// Follows the parser and remembers the first key, dotted, that an object has twice: JSON readers silently keep the last.
struct DuplicateKeys {
  struct Level {
    std::set<std::string> keys;
    std::string at;  ///< the key read last
  };
  std::vector<Level> levels;
  std::string found;

  bool operator()(int, Json::parse_event_t event, Json& value) {
    switch (event) {
      case Json::parse_event_t::object_start:
        levels.emplace_back();
        break;
      case Json::parse_event_t::object_end:
        levels.pop_back();
        break;
      case Json::parse_event_t::key: {
        const std::string& key = value.get_ref<const std::string&>();
        Level& level = levels.back();
        level.at = key;
        if (level.keys.insert(key).second || !found.empty()) break;
        for (const Level& outer : levels) found += (found.empty() ? "" : ".") + outer.at;
        break;
      }
      default:
        break;
    }
    return true;
  }
};

}  // namespace

Json parse_json(const std::string& text, const std::string& name) {
  if (nests_too_deeply(text)) {
    throw Error({Violation{name, "", "", "nested more than 100 levels deep", "no file of benchsuite is"}});
  }
  try {
    DuplicateKeys duplicates;
    Json json = Json::parse(text, std::ref(duplicates), true, true);
    if (!duplicates.found.empty()) {
      throw Error({Violation{name, duplicates.found, "", "is given twice", "keep one of them"}});
    }
    return json;
  } catch (const nlohmann::json::parse_error& failure) {
    // The parser knows the byte; people look for line and column.
    const std::size_t end = std::min(failure.byte == 0 ? 0 : failure.byte - 1, text.size());
    const std::string_view before(text.data(), end);
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const std::size_t line_start = before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
    std::string what = failure.what();
    if (const auto colon = what.rfind(": "); colon != std::string::npos) what = what.substr(colon + 2);
    std::ostringstream message;
    message << "malformed JSON at line " << line << ", column " << end - line_start + 1 << ": " << what;
    throw Error({Violation{name, "", "", message.str(), "mend the file at that place"}});
  } catch (const nlohmann::json::exception& failure) {  // a number too large for a double, such as 1e999
    throw Error({Violation{name, "", "", std::string("malformed JSON: ") + failure.what(), "mend the file"}});
  }
}

Json parse_json_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error(Error::Kind::io, path + ": can't open the file; check the path and its permissions");
  std::ostringstream text;
  text << file.rdbuf();
  if (file.bad()) throw Error(Error::Kind::io, path + ": can't read the file");
  return parse_json(text.str(), path);
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates) {
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(2, word.size() / 3) + 1;
  std::vector<std::size_t> row;
  for (const std::string& candidate : candidates) {
    row.resize(candidate.size() + 1);
    for (std::size_t j = 0; j < row.size(); ++j) row[j] = j;
    for (std::size_t i = 1; i <= word.size(); ++i) {
      std::size_t diagonal = row[0];
      row[0] = i;
      for (std::size_t j = 1; j <= candidate.size(); ++j) {
        const std::size_t substitution = diagonal + (word[i - 1] == candidate[j - 1] ? 0 : 1);
        diagonal = row[j];
        row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitution});
      }
    }
    if (row.back() < best_distance) {
      best_distance = row.back();
      best = candidate;
    }
  }
  return best;
}

ObjectReader::ObjectReader(const Json& object, std::string file, std::string path, std::vector<Violation>& problems)
    : file_(std::move(file)), path_(std::move(path)), problems_(problems) {
  if (object.is_object()) {
    object_ = &object;
  } else {
    problems_.push_back({file_, path_, object.dump(), "an object is needed here", "write {\"key\": value, ...}"});
  }
}

std::string ObjectReader::dotted(const char* key) const { return path_.empty() ? key : path_ + "." + key; }

const Json* ObjectReader::find(const char* key, bool must) {
  known_.emplace_back(key);
  if (!object_) return nullptr;
  const auto found = object_->find(key);
  if (found != object_->end()) return &*found;
  if (must) problems_.push_back({file_, dotted(key), "", "missing", std::string("add \"") + key + "\""});
  return nullptr;
}

void ObjectReader::problem(const char* key, const std::string& what, const std::string& remedy) {
  std::string value;
  if (object_ && object_->contains(key)) value = object_->at(key).dump();
  problems_.push_back({file_, dotted(key), value, what, remedy});
}

void ObjectReader::finish() {
  if (!object_) return;
  for (const auto& [key, value] : object_->items()) {
    if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
    const std::string guess = did_you_mean(key, known_);
    std::string remedy;
    if (!guess.empty()) {
      remedy = "did you mean \"" + guess + "\"?";
    } else {
      remedy = "known keys:";
      for (const std::string& name : known_) remedy += " " + name;
    }
    problems_.push_back({file_, dotted(key.c_str()), value.dump(), "unknown key", remedy});
  }
}

void ObjectReader::wrong_type(const char* key, const Json& value, const char* wanted) {
  problems_.push_back({file_, dotted(key), value.dump(), std::string("must be ") + wanted,
                       std::string("write ") + wanted});
}

void ObjectReader::bad_choice(const char* key, const Json& value, const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  std::string remedy = "choose one of: " + list;
  if (value.is_string()) {
    const std::string guess = did_you_mean(value.get<std::string>(), names);
    if (!guess.empty()) remedy = "did you mean \"" + guess + "\"? (" + list + ")";
  }
  problems_.push_back({file_, dotted(key), value.dump(), "not a known choice", remedy});
}

void ObjectReader::read(const char* key, const Json& value, bool& out) {
  if (!value.is_boolean()) return wrong_type(key, value, "true or false");
  out = value.get<bool>();
}

void ObjectReader::read(const char* key, const Json& value, std::int64_t& out) {
  const bool fits = value.is_number_integer() &&
                    !(value.is_number_unsigned() &&
                      value.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()));
  if (!fits) return wrong_type(key, value, "a whole number");
  out = value.get<std::int64_t>();
}

void ObjectReader::read(const char* key, const Json& value, int& out) {
  std::int64_t wide = 0;
  const std::size_t before = problems_.size();
  read(key, value, wide);
  if (problems_.size() != before) return;
  if (!std::in_range<int>(wide)) return wrong_type(key, value, "a whole number below 2^31");
  out = static_cast<int>(wide);
}

void ObjectReader::read(const char* key, const Json& value, double& out) {
  if (!value.is_number() || !std::isfinite(value.get<double>())) return wrong_type(key, value, "a number");
  out = value.get<double>();
}

void ObjectReader::read(const char* key, const Json& value, std::string& out) {
  if (!value.is_string()) return wrong_type(key, value, "a string");
  out = value.get<std::string>();
}

void ObjectReader::read(const char* key, const Json& value, std::vector<std::string>& out) {
  std::vector<std::string> words;
  if (!value.is_array()) return wrong_type(key, value, "a list of strings");
  for (const Json& item : value) {
    if (!item.is_string()) return wrong_type(key, value, "a list of strings");
    words.push_back(item.get<std::string>());
  }
  out = std::move(words);
}

}  // namespace benchsuite
