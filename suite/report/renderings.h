// The renderings of a Run by name, for `run --format` and `report --format`.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "suite/results/run.h"

namespace benchsuite {

struct Rendering {
  std::string_view name;  ///< md, html, json, junit, csv
  std::string_view file;  ///< report.md, report.html, result.json, junit.xml, report.csv
  std::string (*text)(const Run& run);
};
std::span<const Rendering> renderings();

/// nullptr for a name that is none of them.
const Rendering* find_rendering(std::string_view name);

}  // namespace benchsuite
