// compare: what changed between two results, two variants of one run, or two hardware profiles.
#pragma once

#include <string>
#include <vector>

#include "suite/measure/runner.h"

namespace benchsuite {

struct CompareRequest {
  std::vector<std::string> results;   ///< one or two: result.json files or folders of runs
  std::string from, to;               ///< variants of one run
  std::string only_case;              ///< of a run with several; or the case to run on two hardware profiles
  std::vector<std::string> hardware;  ///< two profiles: run the case on both
  std::vector<std::string> variants;  ///< globs
  bool force = false;                 ///< compare different case hashes all the same
  bool no_color = false;
  std::string json;                   ///< "-": on standard output, text on standard error; or a file
  std::string out;                    ///< folder for compare.md, compare.html, compare.json
  SimulateFunction simulate;
};
/// 0: nothing got worse; 1: something that gates did; 2: not comparable; 3: a result is missing; 4: nothing to judge.
int verb_compare(const CompareRequest& request);

}  // namespace benchsuite
