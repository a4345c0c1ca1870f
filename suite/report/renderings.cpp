#include "suite/report/renderings.h"

#include "suite/report/csv.h"
#include "suite/report/html.h"
#include "suite/report/junit.h"
#include "suite/report/markdown.h"
#include "suite/report/result_json.h"

namespace benchsuite {

std::span<const Rendering> renderings() {
  static constexpr Rendering all[] = {{"md", "report.md", markdown_report},
                                      {"html", "report.html", html_report},
                                      {"json", "result.json", result_text},
                                      {"junit", "junit.xml", junit_report},
                                      {"csv", "report.csv", csv_report}};
  return all;
}

const Rendering* find_rendering(std::string_view name) {
  for (const Rendering& rendering : renderings()) {
    if (rendering.name == name) return &rendering;
  }
  return nullptr;
}

}  // namespace benchsuite
