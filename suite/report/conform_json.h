// The conformance report as data.
#pragma once

#include <string_view>

#include "engine/core/json_reader.h"
#include "suite/results/conform_report.h"

namespace benchsuite {

/// "bits" or "tolerance".
std::string_view word_of(ConformRow::Required required);

/// {"steps", "configurations": [{"id", "layout", "against", "max_abs_loss", "max_rel_grad_norm", "required", "verdict",
/// "note" where there is one}]}. A difference that is not a number is null.
Json to_json(const ConformReport& report);

}  // namespace benchsuite
