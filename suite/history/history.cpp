#include "suite/history/history.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <tuple>

#include "engine/core/error.h"
#include "suite/expectations/tracked_metrics.h"
#include "suite/results/statistics.h"

namespace benchsuite {

namespace {

constexpr std::int64_t kApplicationId = 0x62736869;  // "bshi": tells our file from any other SQLite file

constexpr const char* kSchema = R"(
CREATE TABLE runs (
  id INTEGER PRIMARY KEY, run_id TEXT NOT NULL UNIQUE, started TEXT NOT NULL, device TEXT NOT NULL, system TEXT NOT NULL,
  engine_commit TEXT NOT NULL, suite_version TEXT NOT NULL, host TEXT NOT NULL, exit_code INTEGER NOT NULL);
CREATE TABLE series (
  id INTEGER PRIMARY KEY, case_id TEXT NOT NULL, variant TEXT NOT NULL, metric TEXT NOT NULL, device TEXT NOT NULL,
  system TEXT NOT NULL, case_hash TEXT NOT NULL, unit TEXT NOT NULL,
  UNIQUE (case_id, variant, metric, device, system, case_hash));
CREATE TABLE samples (
  series INTEGER NOT NULL REFERENCES series (id), started TEXT NOT NULL, run INTEGER NOT NULL REFERENCES runs (id),
  value REAL NOT NULL, samples INTEGER NOT NULL, spread REAL NOT NULL, status TEXT NOT NULL,
  PRIMARY KEY (series, started, run)) WITHOUT ROWID;
CREATE INDEX samples_of_run ON samples (run);
)";

std::int64_t pragma(Database& database, const char* name) {
  Statement statement(database, std::string("PRAGMA ") + name);
  return statement.step() ? statement.integer(0) : 0;
}

bool has_tables(Database& database) {
  Statement statement(database, "SELECT count(*) FROM sqlite_master");
  return statement.step() && statement.integer(0) > 0;
}

void refuse(const std::string& path, const std::string& problem, const std::string& remedy) {
  throw Error({Violation{"command line", "--history", path, problem, remedy}});
}

/// Checks that the file is ours and of our version, and makes the tables in an empty one.
void prepare(Database& database, Database::Mode mode) {
  const std::int64_t version = pragma(database, "user_version"), application = pragma(database, "application_id");
  if (has_tables(database) || application != 0) {
    if (application != kApplicationId) {
      refuse(database.path(), "an SQLite file of another program", "name another file");
    }
    if (version > kHistorySchemaVersion) {
      refuse(database.path(),
             fmt::format("schema_version {} is newer than {}, which this build reads", version, kHistorySchemaVersion),
             "use the newer build, or name another file");
    }
    return;
  }
  if (mode == Database::Mode::read) refuse(database.path(), "the history is empty", "run something first");
  Transaction transaction(database);
  if (!has_tables(database)) {  // another process may have been faster
    database.execute(kSchema);
    database.execute(fmt::format("PRAGMA application_id = {}", kApplicationId));
    database.execute(fmt::format("PRAGMA user_version = {}", kHistorySchemaVersion));
  }
  transaction.commit();
}

std::string made_folder(const std::string& path, Database::Mode mode) {
  std::error_code failure;
  const auto folder = std::filesystem::path(path).parent_path();
  if (mode == Database::Mode::write && !folder.empty()) std::filesystem::create_directories(folder, failure);
  if (mode == Database::Mode::read && !std::filesystem::exists(path, failure)) {
    refuse(path, "there is no history yet", "run something first, or name the file with --history");
  }
  return path;  // where the folder can't be made, opening the file says why
}

/// The relative spread of a variant's step, which what follows from the step shares.
double relative_spread(const VariantResult& variant) {
  if (variant.step_samples_s.size() < 2) return 0;
  const double middle = median(variant.step_samples_s);
  return middle > 0 ? scaled_mad(variant.step_samples_s) / middle : 0;
}

}  // namespace

History::History(const std::string& path, Database::Mode mode, int wait_ms)
    : database_(made_folder(path, mode), mode, wait_ms) {
  prepare(database_, mode);
}

std::int64_t History::record(const Run& run, const std::string& system) {
  Transaction transaction(database_);
  Statement add_run(database_,
                    "INSERT OR IGNORE INTO runs (run_id, started, device, system, engine_commit, suite_version, host, "
                    "exit_code) VALUES (?, ?, ?, ?, ?, ?, ?, ?)");
  add_run.bind(1, run.run_id).bind(2, run.started).bind(3, run.device).bind(4, system).bind(5, run.engine_commit);
  add_run.bind(6, run.suite_version).bind(7, run.host).bind(8, static_cast<std::int64_t>(run.exit_code)).run();
  // A resumed run ends later than its first attempt, with another exit code.
  Statement update(database_, "UPDATE runs SET exit_code = ? WHERE run_id = ?");
  update.bind(1, static_cast<std::int64_t>(run.exit_code)).bind(2, run.run_id).run();
  Statement find_run(database_, "SELECT id FROM runs WHERE run_id = ?");
  find_run.bind(1, run.run_id).step();
  const std::int64_t run_row = find_run.integer(0);

  Statement add_series(
      database_,
      "INSERT OR IGNORE INTO series (case_id, variant, metric, device, system, case_hash, unit) VALUES "
      "(?, ?, ?, ?, ?, ?, ?)");
  Statement find_series(database_,
                        "SELECT id FROM series WHERE case_id = ? AND variant = ? AND metric = ? AND device = ? AND "
                        "system = ? AND case_hash = ?");
  Statement add_sample(
      database_,
      "INSERT OR IGNORE INTO samples (series, started, run, value, samples, spread, status) VALUES (?, "
      "?, ?, ?, ?, ?, ?)");
  Statement changes(database_, "SELECT changes()");
  std::int64_t written = 0;
  for (const CaseResult& result : run.cases) {
    for (const VariantResult& variant : result.variants) {
      const double spread = relative_spread(variant);
      for (const TrackedMetric& metric : tracked_metrics()) {
        const std::optional<double> value = tracked_value(variant, metric);
        if (!value) continue;
        const auto bind_key = [&](Statement& statement) -> Statement& {
          return statement.bind(1, result.id)
              .bind(2, variant.id)
              .bind(3, metric.name)
              .bind(4, run.device)
              .bind(5, system)
              .bind(6, result.case_hash);
        };
        bind_key(add_series).bind(7, metric.unit).run();
        bind_key(find_series).step();
        const std::int64_t series = find_series.integer(0);
        find_series.reset();
        const auto samples = static_cast<std::int64_t>(std::max<std::size_t>(1, variant.step_samples_s.size()));
        add_sample.bind(1, series).bind(2, run.started).bind(3, run_row).bind(4, *value);
        add_sample.bind(5, metric.follows_step ? samples : 1);
        add_sample.bind(6, metric.follows_step ? std::abs(*value) * spread : 0.0);
        add_sample.bind(7, name_of(variant.status)).run();
        changes.step();
        written += changes.integer(0);
        changes.reset();
      }
    }
  }
  transaction.commit();
  return written;
}

std::vector<HistoryRun> History::runs(std::int64_t last) {
  Statement statement(
      database_,
      "SELECT run_id, started, device, system, engine_commit, suite_version, host, exit_code, (SELECT "
      "count(*) FROM samples WHERE run = runs.id) FROM runs ORDER BY started DESC, run_id DESC LIMIT ?");
  statement.bind(1, last > 0 ? last : std::int64_t{-1});
  std::vector<HistoryRun> found;
  while (statement.step()) {
    found.push_back({statement.text(0), statement.text(1), statement.text(2), statement.text(3), statement.text(4),
                     statement.text(5), statement.text(6), statement.integer(7), statement.integer(8)});
  }
  return found;
}

std::vector<HistoryRow> History::rows(const HistoryQuery& query) {
  struct Series {
    std::int64_t id;
    HistoryRow row;
  };
  std::vector<Series> all;
  Statement find(database_,
                 "SELECT id, case_id, variant, metric, device, system, case_hash, unit FROM series WHERE (?1 = '' OR "
                 "case_id = ?1) AND (?2 = '' OR variant GLOB ?2) AND (?3 = '' OR metric = ?3) AND (?4 = '' OR device = "
                 "?4) ORDER BY case_id, variant, metric, device, system");
  find.bind(1, query.case_id).bind(2, query.variant).bind(3, query.metric).bind(4, query.device);
  while (find.step()) {
    HistoryRow row;
    row.case_id = find.text(1);
    row.variant = find.text(2);
    row.metric = find.text(3);
    row.device = find.text(4);
    row.system = find.text(5);
    row.case_hash = find.text(6);
    row.unit = find.text(7);
    all.push_back({find.integer(0), row});
  }
  // The newest first, so that LIMIT reads no more than it gives.
  Statement of_series(
      database_,
      "SELECT runs.run_id, samples.started, runs.engine_commit, value, samples, spread, status, samples.run FROM "
      "samples JOIN runs ON runs.id = samples.run WHERE series = ? AND (?2 = '' OR runs.run_id = ?2) "
      "ORDER BY series DESC, samples.started DESC, samples.run DESC LIMIT ?3");
  std::vector<HistoryRow> rows;
  const auto same_line = [](const HistoryRow& a, const HistoryRow& b) {
    return a.case_id == b.case_id && a.variant == b.variant && a.metric == b.metric && a.device == b.device &&
           a.system == b.system;
  };
  for (std::size_t i = 0; i < all.size();) {
    const std::size_t begin = rows.size();
    const HistoryRow& line = all[i].row;
    for (; i < all.size() && same_line(all[i].row, line); ++i) {
      of_series.bind(1, all[i].id).bind(2, query.run_id).bind(3, query.last > 0 ? query.last : std::int64_t{-1});
      while (of_series.step()) {
        HistoryRow row = all[i].row;
        row.run_id = of_series.text(0);
        row.started = of_series.text(1);
        row.commit = of_series.text(2);
        row.value = of_series.number(3);
        row.samples = of_series.integer(4);
        row.spread = of_series.number(5);
        row.status = of_series.text(6);
        row.sequence = of_series.integer(7);
        rows.push_back(std::move(row));
      }
      of_series.reset();
    }
    const auto first = rows.begin() + static_cast<std::ptrdiff_t>(begin);
    std::stable_sort(first, rows.end(), [](const HistoryRow& a, const HistoryRow& b) {
      return std::tie(a.started, a.sequence) < std::tie(b.started, b.sequence);
    });
    const auto count = static_cast<std::size_t>(rows.end() - first);
    if (query.last > 0 && count > static_cast<std::size_t>(query.last)) {
      rows.erase(first, rows.end() - static_cast<std::ptrdiff_t>(query.last));
    }
  }
  return rows;
}

std::int64_t History::prune(std::int64_t keep) {
  std::int64_t removed = 0;
  {
    Transaction transaction(database_);
    // Newest runs of each device by rank; the others go, and series that nothing belongs to any more.
    database_.execute(fmt::format(
        "CREATE TEMP TABLE gone AS SELECT id FROM (SELECT id, row_number() OVER (PARTITION BY device, system "
        "ORDER BY started DESC, run_id DESC) AS place FROM runs) WHERE place > {}",
        keep));
    database_.execute("DELETE FROM samples WHERE run IN (SELECT id FROM gone)");
    database_.execute("DELETE FROM runs WHERE id IN (SELECT id FROM gone)");
    Statement count(database_, "SELECT count(*) FROM gone");
    count.step();
    removed = count.integer(0);
    count.reset();
    database_.execute("DELETE FROM series WHERE NOT EXISTS (SELECT 1 FROM samples WHERE samples.series = series.id)");
    database_.execute("DROP TABLE gone");
    transaction.commit();
  }
  if (removed > 0) database_.execute("VACUUM");
  return removed;
}

}  // namespace benchsuite
