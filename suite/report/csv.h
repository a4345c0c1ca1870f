// report.csv: every number of a run, one a line, for a spreadsheet or a data frame.
//
//   record,case,variant,name,value,unit,pass_low,pass_high,warn_low,warn_high,target,verdict,kind,source
//
// record is metric, sample, category, communication, stage, memory, loss, waterfall or check; variant is empty for checks and
// "FROM -> TO" for waterfalls. Numbers have all their digits; an empty field is "none". RFC 4180: CR LF, quotes
// doubled. Text that a spreadsheet would take for a formula starts with an apostrophe.
#pragma once

#include <string>

#include "suite/results/run.h"

namespace benchsuite {

std::string csv_report(const Run& run);

}  // namespace benchsuite
