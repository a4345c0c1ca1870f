// report.html: one self-contained page. No script, no request to anywhere, pictures are inline SVG; light and dark by
// the reader's preference, from 400 pixels wide to paper. Every string of the run is escaped.
#pragma once

#include <string>

#include "suite/results/run.h"

namespace benchsuite {

std::string html_report(const Run& run);

}  // namespace benchsuite
