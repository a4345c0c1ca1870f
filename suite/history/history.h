// The history of results: an SQLite file with one row per run, variant and metric.
//
//   runs     one per run: id, start, device, system fingerprint, commit, exit code
//   series   system fingerprint, device, case, case hash, variant, metric: what may be put in one line
//   samples  series, start, run -> value, number of samples behind it, spread, status of the variant
//
// A new case hash is another series, because what is measured is something else. Writing is all or nothing, and writing
// a run again changes nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "suite/history/sqlite.h"
#include "suite/results/run.h"

namespace benchsuite {

inline constexpr int kHistorySchemaVersion = 1;
inline constexpr const char* kDefaultHistory = "results/history.sqlite";

struct HistoryRun {
  std::string run_id, started, device, system, commit, suite_version, host;
  std::int64_t exit_code = 0;
  std::int64_t rows = 0;
};

struct HistoryRow {
  std::string run_id, started, commit;
  std::string system, device, case_id, case_hash, variant, metric, unit, status;
  double value = 0;
  std::int64_t samples = 1;  ///< values it is the median of; 1 and exact on sim
  double spread = 0;         ///< scaled MAD of them, in the unit of the value
  std::int64_t sequence = 0; ///< order of writing: runs may start in the same second
};

/// What to look for; an empty text means any. `last` keeps the newest runs of each series, 0 all.
struct HistoryQuery {
  std::string case_id, variant, metric, device, run_id;
  std::int64_t last = 0;
};

class History {
 public:
  /// Throws Error: config for a file of a newer version or of something else, io when it is locked or can't be used.
  /// In mode read the file has to be there.
  History(const std::string& path, Database::Mode mode, int wait_ms = 3000);

  /// Writes every measured variant of `run` (tracked metrics). Returns the number of new rows.
  std::int64_t record(const Run& run, const std::string& system);

  /// Newest first.
  std::vector<HistoryRun> runs(std::int64_t last);
  /// By case, variant, metric, device and system, then by time; so what one trend shows stands together, also where the
  /// case hash changes.
  std::vector<HistoryRow> rows(const HistoryQuery& query);
  /// Removes all but the newest `keep` runs of each device and system and returns how many went.
  std::int64_t prune(std::int64_t keep);

 private:
  Database database_;
};

}  // namespace benchsuite
