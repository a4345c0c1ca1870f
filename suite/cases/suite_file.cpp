#include "suite/cases/suite_file.h"

#include <fnmatch.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "suite/cases/case.h"

namespace benchsuite {

namespace {

SuiteFile::Pick read_pick(const Json& json, ObjectReader& parent, std::size_t index) {
  SuiteFile::Pick pick;
  ObjectReader reader(json, parent.file(), "select[" + std::to_string(index) + "]", parent.problems());
  reader.optional("tag", pick.tag);
  reader.optional("case", pick.name);
  reader.finish();
  if (json.is_object() && pick.tag.empty() == pick.name.empty()) {
    parent.problem("select", "an entry needs either a tag or a case",
                   R"(write {"tag": "nightly"} or {"case": "sp_*"})");
  }
  return pick;
}

/// Tags of the cases of the root. A case that can't be read has none here; running it tells what is wrong.
std::vector<std::string> tags_of(const std::string& name, const DataRoot& root) {
  try {
    std::vector<Violation> ignored;
    const std::string file = root.file_of(DataKind::cases, name);
    return read_case(parse_json_file(file), file, ignored).tags;
  } catch (const Error&) {
    return {};
  }
}

}  // namespace

SuiteFile read_suite(const Json& json, const std::string& file, std::vector<Violation>& problems) {
  SuiteFile suite;
  suite.file = file;
  ObjectReader reader(json, file, "", problems);
  int schema_version = kSuiteSchemaVersion;
  reader.required("schema_version", schema_version);
  if (schema_version != kSuiteSchemaVersion) {
    reader.problem("schema_version", "this build reads version " + std::to_string(kSuiteSchemaVersion),
                   "use a build that knows the version, or rewrite the file");
  }
  reader.required("id", suite.id);
  reader.required("title", suite.title);
  if (const Json* list = reader.raw("select", true)) {
    if (!list->is_array() || list->empty()) {
      reader.problem("select", "must be a list with at least one object", R"(write [{"tag": "nightly"}])");
    } else {
      for (std::size_t i = 0; i < list->size(); ++i) suite.select.push_back(read_pick(list->at(i), reader, i));
    }
  }
  reader.optional("exclude", suite.exclude);
  reader.optional("maxfail", suite.maxfail);
  if (suite.maxfail < 0) reader.problem("maxfail", "is negative", "0 runs all, 1 stops at the first failure");
  reader.optional("timeout_s", suite.timeout_s);
  if (suite.timeout_s < 0) reader.problem("timeout_s", "is negative", "give seconds, or leave it out");
  reader.optional("require_reference", suite.require_reference);
  reader.optional("strict", suite.strict);
  reader.finish();
  return suite;
}

std::vector<std::string> cases_of(const SuiteFile& suite, const DataRoot& root, std::vector<Violation>& problems) {
  const std::vector<std::string> all = root.names(DataKind::cases);
  std::set<std::string> chosen;
  std::set<std::string> known_tags;
  for (const SuiteFile::Pick& pick : suite.select) {
    bool any = false;
    for (const std::string& name : all) {
      bool matches = !pick.name.empty() && ::fnmatch(pick.name.c_str(), name.c_str(), 0) == 0;
      if (!pick.tag.empty()) {
        const std::vector<std::string> tags = tags_of(name, root);
        known_tags.insert(tags.begin(), tags.end());
        matches = std::find(tags.begin(), tags.end(), pick.tag) != tags.end();
      }
      if (!matches) continue;
      any = true;
      chosen.insert(name);
    }
    if (any) continue;
    const std::string& word = pick.tag.empty() ? pick.name : pick.tag;
    const std::string guess =
        pick.tag.empty() ? did_you_mean(word, all) : did_you_mean(word, {known_tags.begin(), known_tags.end()});
    problems.push_back({suite.file, "select", word, pick.tag.empty() ? "no case has this name" : "no case has this tag",
                        guess.empty() ? "benchsuite list shows all" : "did you mean \"" + guess + "\"?"});
  }
  for (const std::string& pattern : suite.exclude) {
    std::erase_if(chosen, [&](const std::string& name) { return ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0; });
  }
  return {chosen.begin(), chosen.end()};
}

SuiteFile load_suite(const std::string& reference, const DataRoot& root) {
  std::vector<Violation> problems;
  const std::string file = root.locate(DataKind::suite, reference, "", "--suite", problems);
  for (Violation& problem : problems) problem.file = "command line";
  if (!problems.empty()) throw Error(problems);
  SuiteFile suite = read_suite(parse_json_file(file), root.shorten(file), problems);
  if (problems.empty() && std::filesystem::path(file).stem() != suite.id) {
    problems.push_back({suite.file, "id", suite.id, "differs from the file's name",
                        "call it \"" + std::filesystem::path(file).stem().string() + "\""});
  }
  if (!problems.empty()) throw Error(problems);
  return suite;
}

}  // namespace benchsuite
