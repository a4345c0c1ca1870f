// The renderings for a terminal (and a CI log): at most 120 columns, ANSI colour on request.
#pragma once

#include <string>
#include <string_view>

#include "suite/results/run.h"

namespace benchsuite {

inline constexpr std::size_t kConsoleColumns = 120;

/// "[ RUN  ] sp_recompute_13b  (12 variants on sim)": printed before a case starts.
std::string console_start(const CaseResult& result, std::string_view device, bool colour);

/// Status line, reason, table of variants, waterfalls, expectations, claims and the command that reproduces it (""
/// stands for `benchsuite run --case ID`). Ends in a newline.
std::string console_case(const CaseResult& result, bool colour, std::string_view reproduce = "");

/// The last line of a run, without newline, never coloured so that it can be grepped:
/// "benchsuite: 14 cases: 10 PASS, 1 WARN, 1 FAIL, 2 SKIP, 0 ERROR  [results/20260830T021500Z-7f3a]  exit=1".
/// The five counts are always there; other statuses follow when they occur.
std::string console_summary(const Run& run, std::string_view results_folder);

/// Whether text for this file descriptor should be coloured: a terminal, and neither --no-color nor NO_COLOR.
bool wants_colour(bool no_color, int descriptor);

}  // namespace benchsuite
