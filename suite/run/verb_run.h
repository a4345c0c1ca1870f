// run: cases selected, run, judged, written and told. The result is on disk the moment it is there.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "suite/measure/runner.h"
#include "suite/run/selection.h"

namespace benchsuite {

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

}  // namespace benchsuite
