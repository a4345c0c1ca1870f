// The verbs about cases and files: list, show, report, validate. Each returns an exit code (suite/results/outcome.h) and
// throws Error for what the person must mend.
#pragma once

#include <string>
#include <vector>

#include "suite/run/selection.h"

namespace benchsuite {

struct ListRequest {
  std::vector<std::string> tags;
  bool json = false, details = false, suites = false;
};
int verb_list(const ListRequest& request);

struct ShowRequest {
  Selection selection;
  bool json = false;
};
int verb_show(const ShowRequest& request);

struct ReportRequest {
  std::vector<std::string> results;  ///< result.json files or folders of runs
  std::vector<std::string> formats;  ///< console, md, html, json, junit, csv
  std::string out;                   ///< folder; empty: standard output
  bool no_color = false;
};
int verb_report(const ReportRequest& request);

struct ValidateRequest {
  std::vector<std::string> files;  ///< empty: everything in the root
};
int verb_validate(const ValidateRequest& request);

}  // namespace benchsuite
