#include "suite/calibrate/measurement_file.h"

#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>

#include "engine/core/error.h"

namespace benchsuite {

std::string read_measurement_file(const std::string& path, const std::string& option) {
  const auto text_of = [](std::istream& stream) {
    return std::string(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
  };
  if (path == "-") return text_of(std::cin);
  std::ifstream stream(path, std::ios::binary);
  std::error_code none;
  if (!stream || std::filesystem::is_directory(path, none))
    throw Error({Violation{"command line", option, path, "can't be read", "check the path and its permissions"}});
  return text_of(stream);
}

}  // namespace benchsuite
