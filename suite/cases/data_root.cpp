#include "suite/cases/data_root.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "engine/core/json_reader.h"

namespace benchsuite {

namespace fs = std::filesystem;

namespace {

bool is_root(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path / "cases", ignored);
}

const char* word_of(DataKind kind) {
  switch (kind) {
    case DataKind::cases:
      return "case";
    case DataKind::model:
      return "model";
    case DataKind::stack:
      return "stack";
    case DataKind::hardware:
      return "hardware profile";
    case DataKind::expected:
      return "expectation";
    case DataKind::suite:
      return "suite";
  }
  return "?";
}

bool is_path(const std::string& reference) {
  return reference.find('/') != std::string::npos || reference.ends_with(".json");
}

}  // namespace

DataRoot DataRoot::find() {
  if (const char* given = std::getenv("BENCHSUITE_ROOT"); given && *given) {
    if (!is_root(given)) {
      throw Error({Violation{"environment", "BENCHSUITE_ROOT", given, "there is no cases/ folder in it",
                             "point it at a benchsuite checkout"}});
    }
    return DataRoot(given);
  }
  std::error_code failure;
  const fs::path executable = fs::read_symlink("/proc/self/exe", failure);
  if (!failure) {
    fs::path folder = executable.parent_path();
    for (int level = 0; level < 4 && !folder.empty(); ++level, folder = folder.parent_path()) {
      if (is_root(folder)) return DataRoot(folder.string());
    }
  }
  if (is_root(".")) return DataRoot(".");
  throw Error({Violation{"environment", "BENCHSUITE_ROOT", "", "the folder with cases/ and expected/ was not found",
                         "set BENCHSUITE_ROOT to a benchsuite checkout or run from inside one"}});
}

std::string DataRoot::folder(DataKind kind) const {
  switch (kind) {
    case DataKind::cases:
      return path_ + "/cases";
    case DataKind::model:
      return path_ + "/cases/models";
    case DataKind::stack:
      return path_ + "/cases/stacks";
    case DataKind::hardware:
      return path_ + "/cases/hardware";
    case DataKind::expected:
      return path_ + "/expected";
    case DataKind::suite:
      return path_ + "/cases/suites";
  }
  return path_;
}

std::string DataRoot::file_of(DataKind kind, const std::string& name) const {
  return folder(kind) + "/" + name + ".json";
}

std::vector<std::string> DataRoot::names(DataKind kind) const {
  std::vector<std::string> found;
  std::error_code failure;
  for (fs::directory_iterator entry(folder(kind), failure), end; !failure && entry != end; entry.increment(failure)) {
    std::error_code ignored;
    if (entry->path().extension() == ".json" && entry->is_regular_file(ignored)) {
      found.push_back(entry->path().stem().string());
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::string DataRoot::locate(DataKind kind, const std::string& reference, const std::string& referrer,
                             const std::string& key, std::vector<Violation>& problems) const {
  std::error_code ignored;
  if (is_path(reference)) {
    const fs::path beside = fs::path(referrer).parent_path() / reference;  // an absolute reference stays absolute
    if (fs::is_regular_file(beside, ignored)) return beside.string();
    if (fs::is_regular_file(reference, ignored)) return reference;
    problems.push_back({referrer, key, reference, "there is no such file", "check the path"});
    return "";
  }
  const std::string file = file_of(kind, reference);
  if (fs::is_regular_file(file, ignored)) return file;
  const std::vector<std::string> known = names(kind);
  std::string list;
  for (const std::string& name : known) list += (list.empty() ? "" : ", ") + name;
  const std::string guess = did_you_mean(reference, known);
  const std::string remedy = (guess.empty() ? std::string("known: ") : "did you mean \"" + guess + "\"? known: ") +
                             (known.empty() ? "none" : list);
  problems.push_back({referrer, key, reference, std::string("unknown ") + word_of(kind), remedy});
  return "";
}

std::string DataRoot::shorten(const std::string& file) const {
  const fs::path relative = fs::path(file).lexically_normal().lexically_relative(fs::path(path_).lexically_normal());
  if (relative.empty() || *relative.begin() == "..") return file;
  return relative.string();
}

}  // namespace benchsuite
