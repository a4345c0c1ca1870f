// Which cases a command line means, each with its expectations, all checked before anything runs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "suite/cases/resolve.h"
#include "suite/expectations/expected.h"

namespace benchsuite {

struct Selection {
  std::vector<std::string> names;  ///< names or globs of cases in the root
  std::vector<std::string> files;  ///< case files anywhere
  std::vector<std::string> tags;   ///< cases that carry one of these
  std::vector<std::string> exclude;   ///< globs of cases that are left out
  std::vector<std::string> variants;  ///< globs: only these variants are run; empty: all
  std::vector<std::string> only;      ///< ids: of what the above select, only these; empty: all
  bool skip_own_hardware = false;  ///< leave out variants that choose their own hardware: a --set would make them equal
  std::vector<std::string> sets;   ///< KEY=VALUE, put into every variant
};

struct SelectedCase {
  ResolvedCase resolved;
  std::optional<ExpectedFile> expected;  ///< ROOT/expected/ID.json, where there is one
  bool as_written = true;  ///< the configuration is that of ROOT/cases/ID.json, which `expected` speaks about
  bool partial = false;    ///< only some of its variants are run
};

/// Loads, resolves and checks. Every violation of every case is collected. An empty result without problems means that
/// nothing matched. A case none of whose variants match `variants` is left out.
std::vector<SelectedCase> select_cases(const Selection& selection, const DataRoot& root,
                                       std::vector<Violation>& problems);

/// Reads ROOT/expected/ID.json when it is there.
std::optional<ExpectedFile> find_expected(const std::string& case_id, const DataRoot& root,
                                          std::vector<Violation>& problems);

}  // namespace benchsuite
