// Strict reading of JSON objects into plain structs: unknown keys are refused with a "did you mean",
// every problem is collected (file, dotted key, value, remedy), nothing is silently defaulted.
//
//   std::vector<Violation> problems;
//   ObjectReader reader(json, "cases/a.json", "layout", problems);
//   reader.required("tp", layout.tp);
//   reader.optional("vpp", layout.vpp);
//   reader.finish();                       // reports unknown keys
//   if (!problems.empty()) throw Error(problems);
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/core/error.h"

namespace benchsuite {

using Json = nlohmann::ordered_json;

/// Parses a file (comments allowed). Throws Error of kind io when unreadable, config with line and column when malformed.
Json parse_json_file(const std::string& path);

/// Parses text; `name` stands for the file in messages.
Json parse_json(const std::string& text, const std::string& name);

/// The candidate closest to `word` (edit distance at most 2 or a third of its length), or "".
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

class ObjectReader {
 public:
  /// `path` is the dotted key of the object itself ("" at top level). A value that is not an object is a violation.
  ObjectReader(const Json& object, std::string file, std::string path, std::vector<Violation>& problems);

  bool has(const char* key) const { return object_ && object_->contains(key); }

  /// Reads a key that must be there: bool, integer, number or string by the type of `out`.
  template <class T>
  void required(const char* key, T& out) {
    if (const Json* value = find(key, true)) read(key, *value, out);
  }
  /// Reads a key that may be absent; `out` keeps its default then.
  template <class T>
  void optional(const char* key, T& out) {
    if (const Json* value = find(key, false)) read(key, *value, out);
  }
  /// One of a fixed set of words; the violation lists them.
  template <class E>
  void choice(const char* key, E& out, std::initializer_list<std::pair<const char*, E>> words, bool must = false) {
    const Json* value = find(key, must);
    if (!value) return;
    std::vector<std::string> names;
    for (const auto& [word, meaning] : words) {
      if (value->is_string() && value->get_ref<const std::string&>() == word) {
        out = meaning;
        return;
      }
      names.emplace_back(word);
    }
    bad_choice(key, *value, names);
  }
  /// The raw value (marks the key as known), or nullptr when absent.
  const Json* raw(const char* key, bool must = false) { return find(key, must); }

  /// Adds a violation about a key of this object.
  void problem(const char* key, const std::string& what, const std::string& remedy);

  /// Reports every key that nothing asked for.
  void finish();

  const std::string& file() const { return file_; }
  std::string dotted(const char* key) const;
  std::vector<Violation>& problems() { return problems_; }

 private:
  const Json* find(const char* key, bool must);
  void read(const char* key, const Json& value, bool& out);
  void read(const char* key, const Json& value, int& out);
  void read(const char* key, const Json& value, std::int64_t& out);
  void read(const char* key, const Json& value, double& out);
  void read(const char* key, const Json& value, std::string& out);
  void read(const char* key, const Json& value, std::vector<std::string>& out);
  void wrong_type(const char* key, const Json& value, const char* wanted);
  void bad_choice(const char* key, const Json& value, const std::vector<std::string>& names);

  const Json* object_ = nullptr;
  std::string file_;
  std::string path_;
  std::vector<Violation>& problems_;
  std::vector<std::string> known_;
};

}  // namespace benchsuite
