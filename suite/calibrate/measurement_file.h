// The text of a file of measurements.
#pragma once

#include <string>

namespace benchsuite {

/// "-" is standard input. An empty file is an empty text. Throws Error (config) naming `option` when it can't be read.
std::string read_measurement_file(const std::string& path, const std::string& option);

}  // namespace benchsuite
