// The verbs that look at results: compare, history, env.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "suite/runner.h"

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

enum class HistoryAction : std::uint8_t { list, show, trend, export_rows, prune };
enum class ExportFormat : std::uint8_t { json, csv };

struct HistoryRequest {
  HistoryAction action = HistoryAction::list;
  std::string file;
  std::string run_id, case_id, variant, metric, device;
  std::int64_t last = 0;  ///< runs, or points of each series; 0: all
  std::int64_t keep = -1;
  ExportFormat format = ExportFormat::json;
  bool json = false;
};
int verb_history(const HistoryRequest& request);

struct EnvRequest {
  bool json = false;
  std::string other;  ///< folder of a run, result.json or env.json to hold this environment against
};
/// 1 when `other` is given and differs.
int verb_env(const EnvRequest& request);

}  // namespace benchsuite
