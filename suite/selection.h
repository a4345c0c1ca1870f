// Which cases a command line means, each with its expectations, all checked before anything runs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "suite/expected.h"
#include "suite/resolve.h"

namespace benchsuite {

struct Selection {
  std::vector<std::string> names;  ///< names or globs of cases in the root
  std::vector<std::string> files;  ///< case files anywhere
  std::vector<std::string> tags;   ///< cases that carry one of these
  std::vector<std::string> sets;   ///< KEY=VALUE, put into every variant
};

struct SelectedCase {
  ResolvedCase resolved;
  std::optional<ExpectedFile> expected;  ///< ROOT/expected/ID.json, where there is one
  bool as_written = true;  ///< the configuration is that of ROOT/cases/ID.json, which `expected` speaks about
};

/// Loads, resolves and checks. Every violation of every case is collected. An empty result without problems means that
/// nothing matched.
std::vector<SelectedCase> select_cases(const Selection& selection, const DataRoot& root,
                                       std::vector<Violation>& problems);

/// Reads ROOT/expected/ID.json when it is there.
std::optional<ExpectedFile> find_expected(const std::string& case_id, const DataRoot& root,
                                          std::vector<Violation>& problems);

}  // namespace benchsuite
