// report.md: the run for a ticket or a pull request. GitHub-flavoured tables, no HTML.
#pragma once

#include <string>

#include "suite/results/run.h"

namespace benchsuite {

/// Verdict, then failures, then per case: variants, waterfalls, expectations, claims, method note.
std::string markdown_report(const Run& run);

}  // namespace benchsuite
