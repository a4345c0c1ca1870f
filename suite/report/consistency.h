// Whether a stored result says what its own numbers say: a damaged or doctored file must not pass for a good one.
#pragma once

#include <string>
#include <vector>

#include "engine/core/error.h"
#include "suite/results/run.h"

namespace benchsuite {

/// Violations: a check that passed without a value or outside its bounds, a case that passed although a check or a
/// variant did not, exit code 0 over a failed case.
std::vector<Violation> contradictions(const Run& run, const std::string& file);

/// Reads the result.json of `given` (a file or the folder of a run) and refuses one that contradicts itself.
/// Throws Error (config).
Run load_result(const std::string& given);

/// `given`, or the result.json in it when it is a folder.
std::string result_file(const std::string& given);

}  // namespace benchsuite
