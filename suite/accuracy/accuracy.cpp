#include "suite/accuracy/accuracy.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <mutex>
#include <thread>

#include "engine/model/flops.h"
#include "suite/accuracy/ablation.h"
#include "suite/accuracy/ensemble.h"
#include "suite/accuracy/relative.h"
#include "suite/accuracy/row_job.h"

namespace benchsuite {

namespace {

namespace fs = std::filesystem;

std::vector<std::string> row_files(const AccuracyOptions& options, const DataRoot& root) {
  std::vector<Violation> problems;
  std::vector<std::string> files = options.files;
  for (const std::string& file : files) {
    std::error_code ignored;
    if (!fs::is_regular_file(file, ignored)) {
      problems.push_back({"command line", "--rows", file, "is no file", "give a JSON table of published rows"});
    }
  }
  if (!problems.empty()) throw Error(std::move(problems));
  if (files.empty()) {
    for (const auto& entry : fs::directory_iterator(root.path() + "/expected/published")) {
      const std::string name = entry.path().filename().string();
      if (entry.path().extension() == ".json" && name != "sources.json" && name != "first_scores.json") {
        files.push_back(entry.path().string());
      }
    }
    std::sort(files.begin(), files.end());
  }
  return files;
}

/// The share of the ensemble's draws in which a set's mean error is at most its target.
void add_share_of_draws(const std::vector<RowResult>& rows, const std::vector<std::vector<double>>& draws, Score& score) {
  if (!score.target_mean_pct) return;
  std::size_t count = 0;
  for (const auto& row : draws) count = std::max(count, row.size());
  if (count == 0) return;
  std::size_t meeting = 0;
  bool drawn = false;
  for (std::size_t draw = 0; draw < count; ++draw) {
    double sum = 0, n = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (rows[i].set != score.name || !rows[i].error_pct || draw >= draws[i].size()) continue;
      sum += std::abs(100 * (draws[i][draw] / rows[i].published_seconds() - 1));
      n += 1;
    }
    drawn = drawn || n > 0;
    meeting += n > 0 && sum / n <= *score.target_mean_pct ? 1 : 0;
  }
  if (drawn) score.share_of_draws = static_cast<double>(meeting) / static_cast<double>(count);
}

/// The untouched first scores, where the root has them.
void add_first_scores(const DataRoot& root, std::vector<Score>& sets) {
  const std::string file = root.path() + "/expected/published/first_scores.json";
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored)) return;
  const Json first = parse_json_file(file);
  for (const Json& one : first.value("scores", Json::array())) {
    for (Score& score : sets) {
      if (one.value("set", "") == score.name) score.first_mean_abs_pct = PublishedRow::number(one, "mean_abs_pct");
    }
  }
}

}  // namespace

AccuracyReport run_accuracy(const AccuracyOptions& options, const AccuracyProgress& progress,
                            const std::atomic<int>& signal) {
  const auto started = std::chrono::steady_clock::now();
  const DataRoot root = DataRoot::find();
  const SourceRules rules = load_source_rules(root.path() + "/expected/published/sources.json");
  std::vector<PublishedRow> rows = load_published_rows(row_files(options, root));
  if (!options.source.empty()) {
    std::erase_if(rows, [&](const PublishedRow& row) {
      const SourceRule* rule = rules.rule_of(row);
      return !holds_text(row.source, options.source) && !holds_text(row.id, options.source) &&
             !(rule && holds_text(rule->set, options.source));
    });
  }
  AccuracyReport report;
  report.selection = options.source;
  report.draws = options.draws;
  report.unstated_drawn = options.draw_unstated;
  report.seed = options.seed;
  RowJobs jobs(root, rules, options);
  std::vector<std::vector<double>> draws;
  report.rows = jobs.run(rows, progress, signal, &draws);
  report.simulated = jobs.simulated();
  report.all = score_all(report.rows);
  report.sources = score_by(report.rows, false, rules);
  report.sets = score_by(report.rows, true, rules);
  add_sub_scores(rows, report.rows, rules, report.sets, report.all);
  for (Score& score : report.sets) add_share_of_draws(report.rows, draws, score);
  for (Score& score : relative_scores(rows, report.rows, draws, rules)) report.sets.push_back(std::move(score));
  add_first_scores(root, report.sets);
  if (options.ablate) report.ablation = ablate(rows, report.rows, jobs, rules, options.threads, progress, signal);
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  return report;
}

}  // namespace benchsuite
