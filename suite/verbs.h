// The verbs of the command line. Each returns an exit code (suite/outcome.h) and throws Error for what the person must
// mend.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "suite/runner.h"
#include "suite/selection.h"

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

enum class Progress : std::uint8_t { automatic, plain, none };

struct RunRequest {
  Selection selection;
  std::string suite;    ///< name or file of a suite
  std::string resume;   ///< folder of a run that was stopped: finish it
  std::string failed;   ///< folder of a run: run its failed cases again
  int maxfail = 0;      ///< stop after this many cases that fail; 0: run all
  std::string history;  ///< SQLite file; empty: none
  std::string out;
  std::string json;  ///< "-": result.json on standard output, human text on standard error; or a file
  std::string junit;                                  ///< also write junit.xml here
  std::vector<std::string> formats = {"md", "html"};  ///< renderings written beside result.json
  RunOptions options;
  bool trace = false, quiet = false, no_color = false, strict = false, require_reference = false;
  Progress progress = Progress::automatic;
  std::vector<std::string> fail_on;
  std::vector<std::string> argv;
};
int verb_run(const RunRequest& request, const std::atomic<int>& signal);

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

/// Whether standard output (or error) should be coloured.
bool wants_colour(bool no_color, int descriptor);

}  // namespace benchsuite
