// The conformance table as one page without anything from outside it.
#pragma once

#include <string>

#include "suite/results/conform_report.h"

namespace benchsuite {

std::string conform_html(const ConformReport& report);

}  // namespace benchsuite
