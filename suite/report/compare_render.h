// A Comparison for a terminal, a ticket, a browser and a program. All say the same.
#pragma once

#include <string>
#include <string_view>

#include "suite/results/comparison.h"

namespace benchsuite {

std::string_view name_of(Change change);

/// "+1.3 %" (relative to A), "–" without both values.
std::string change_text(const MetricChange& change);
/// "noise 0 (exact), floor 1 %": what a change has to be larger than.
std::string threshold_text(const MetricChange& change);
/// "to / from = 0.802 x (n = 1, exact)".
std::string ratio_text(const StepRatio& ratio);

/// At most 120 columns; ends in the verdict line, which can be grepped: "benchsuite compare: ... exit=N".
std::string compare_text(const Comparison& comparison, bool colour);
std::string compare_markdown(const Comparison& comparison);
/// One self-contained page: no script, no request.
std::string compare_html(const Comparison& comparison);
Json to_json(const Comparison& comparison);

}  // namespace benchsuite
