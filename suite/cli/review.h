// Flags of the verbs that look at results.
#pragma once

#include <CLI/CLI.hpp>

#include <optional>
#include <string>

#include "suite/compare/verb_compare.h"
#include "suite/environment/verb_env.h"
#include "suite/history/verb_history.h"

namespace benchsuite {

struct ReviewRequests {
  CompareRequest compare;
  HistoryRequest history;
  EnvRequest env;
  std::string format = "json";
  std::int64_t last_points = 100;
};

void define_review(CLI::App& app, ReviewRequests& requests);

/// Carries the parsed verb out when it is one of these.
std::optional<int> run_review(const CLI::App& app, ReviewRequests& requests, const SimulateFunction& simulate);

}  // namespace benchsuite
