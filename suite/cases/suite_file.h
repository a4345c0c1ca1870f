// Suites (cases/suites/NAME.json): which cases belong together, and how they are run.
//
//   { "schema_version": 1, "id": "nightly", "title": "...",
//     "select": [{"tag": "nightly"}, {"case": "sp_*"}], "exclude": ["*_slow"],
//     "maxfail": 3, "timeout_s": 600, "require_reference": true, "strict": false }
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/core/json_reader.h"
#include "suite/cases/data_root.h"

namespace benchsuite {

inline constexpr int kSuiteSchemaVersion = 1;

struct SuiteFile {
  struct Pick {
    std::string tag, name;  ///< one of the two; `name` may be a glob
  };
  std::string file, id, title;
  std::vector<Pick> select;
  std::vector<std::string> exclude;  ///< globs
  int maxfail = 0;                   ///< stop after this many cases that fail; 0: run all
  double timeout_s = 0;              ///< of each case; 0: none
  bool require_reference = false, strict = false;
};

SuiteFile read_suite(const Json& json, const std::string& file, std::vector<Violation>& problems);

/// The cases a suite means, sorted by name. A tag or name that no case has is a violation, not an empty selection: a
/// suite that quietly shrinks is how coverage is lost.
std::vector<std::string> cases_of(const SuiteFile& suite, const DataRoot& root, std::vector<Violation>& problems);

/// Loads a suite by name (ROOT/cases/suites/NAME.json) or path. Throws Error (config).
SuiteFile load_suite(const std::string& reference, const DataRoot& root);

}  // namespace benchsuite
