// run: select, measure, judge, write; take up again what was stopped.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "engine/core/parallel.h"
#include "suite/cases/suite_file.h"
#include "suite/environment/environment.h"
#include "suite/environment/redaction.h"
#include "suite/environment/version.h"
#include "suite/history/history.h"
#include "suite/report/console.h"
#include "suite/report/junit.h"
#include "suite/report/renderings.h"
#include "suite/report/result_json.h"
#include "suite/results/outcome.h"
#include "suite/results/run_files.h"
#include "suite/run/run_case.h"
#include "suite/run/stored_request.h"
#include "suite/run/verb_run.h"

namespace benchsuite {

namespace fs = std::filesystem;

namespace {

constexpr const char* kStopped = "not run: the run was stopped before";

std::int64_t now() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

std::string reproduce_command(const RunRequest& request, const SelectedCase& selected) {
  const bool by_file = std::find(request.selection.files.begin(), request.selection.files.end(),
                                 selected.resolved.source.file) != request.selection.files.end();
  std::string text = "benchsuite run " + (by_file ? "--case-file " + selected.resolved.source.file
                                                  : "--case " + selected.resolved.source.id);
  for (const std::string& set : redact_arguments(request.selection.sets)) text += " --set '" + set + "'";
  for (const std::string& variant : request.selection.variants) text += " --variant '" + variant + "'";
  if (request.options.repeat > 1) text += fmt::format(" --repeat {}", request.options.repeat);
  if (request.options.device != Device::sim) text += " --device " + std::string(name_of(request.options.device));
  return text;
}

void write_results(const ResultsFolder& folder, const RunRequest& request, const Run& run, const SharedText& json) {
  std::vector<const Rendering*> wanted;
  for (const Rendering& rendering : renderings()) {
    const bool named = std::find(request.formats.begin(), request.formats.end(), rendering.name) != request.formats.end();
    if (named && rendering.name != "json") wanted.push_back(&rendering);
  }
  Files files(wanted.size());
  for_each_index(wanted.size(), request.options.threads, [&](std::size_t i) {
    files[i] = {folder.file(std::string(wanted[i]->file)), SharedText(wanted[i]->text(run))};
  });
  files.emplace_back(folder.file("result.json"), json);  // last: its presence says that the run ended
  write_files(files);
}

CaseResult not_run(const SelectedCase& selected, const std::string& reason) {
  CaseResult result = blank(selected);
  result.status = Status::skip;
  result.reason_code = "INCOMPLETE";
  result.reason = reason;
  return result;
}

int nothing_matched(const RunRequest& request, const DataRoot& root) {
  const std::vector<std::string> known = root.names(DataKind::cases);
  std::string text = "no case matches", remedy = "benchsuite list shows all cases";
  for (const std::string& name : request.selection.names) {
    text += " \"" + name + "\"";
    const std::string guess = did_you_mean(name, known);
    if (!guess.empty() && guess != name) text += " (did you mean \"" + guess + "\"?)";
  }
  for (const std::string& variant : request.selection.variants) {
    text += " with a variant \"" + variant + "\"";
    remedy = "benchsuite show CASE shows its variants";
  }
  fmt::print(stderr, "benchsuite: {}; {}\n", text, remedy);
  Run run;
  run.exit_code = kExitNothing;
  fmt::print(request.json == "-" ? stderr : stdout, "{}\n", console_summary(run, "nothing written"));
  return kExitNothing;
}

bool selects_something(const Selection& selection) {
  return !selection.names.empty() || !selection.files.empty() || !selection.tags.empty();
}

[[noreturn]] void refuse(const char* flag, const std::string& value, const std::string& problem,
                         const std::string& remedy) {
  throw Error({Violation{"command line", flag, value, problem, remedy}});
}

/// A file that can't be written shows before the run, not after it.
void check_output(const char* flag, const std::string& path) {
  if (path.empty()) return;
  if (fs::is_directory(path)) refuse(flag, path, "is a folder", "name a file in it");
  const fs::path folder = fs::path(path).parent_path();
  const std::string place = fs::exists(path) ? path : folder.empty() ? "." : folder.string();
  if (::access(place.c_str(), W_OK) != 0) {
    refuse(flag, path, std::string("can't be written: ") + std::strerror(errno), "choose a place you may write to");
  }
}

/// Puts a suite's cases and policy into the request; what the command line says stays.
void apply_suite(RunRequest& request, const DataRoot& root) {
  const SuiteFile suite = load_suite(request.suite, root);
  std::vector<Violation> problems;
  const std::vector<std::string> names = cases_of(suite, root, problems);
  if (!problems.empty()) throw Error(problems);
  request.selection.names.insert(request.selection.names.end(), names.begin(), names.end());
  if (request.maxfail == 0) request.maxfail = suite.maxfail;
  if (request.options.timeout_s == 0) request.options.timeout_s = suite.timeout_s;
  request.require_reference = request.require_reference || suite.require_reference;
  request.strict = request.strict || suite.strict;
}

/// What `stored` asked for, with output as `request` wants it.
RunRequest taken_up(const RunRequest& request, const StoredRequest& stored, const char* flag) {
  if (selects_something(request.selection) || !request.suite.empty() || !request.selection.sets.empty()) {
    refuse(flag, "", "the cases are those of that run", "leave out --case, --case-file, --tag, --suite and --set");
  }
  RunRequest result = stored.request;
  result.out = request.out;
  result.json = request.json;
  result.junit = request.junit;
  result.formats = request.formats;
  result.history = request.history;
  result.quiet = request.quiet;
  result.no_color = request.no_color;
  result.progress = request.progress;
  result.argv = request.argv;
  result.options.threads = request.options.threads;
  result.options.simulate = request.options.simulate;
  return result;
}

/// Ids of the cases of a run that failed by its own policy.
std::vector<std::string> failed_cases(const std::string& folder, const RunRequest& request) {
  const std::string file = folder + "/result.json";
  if (!fs::is_regular_file(file)) {
    refuse("--failed", folder, "that run has not ended", "finish it with --resume " + folder);
  }
  const FailurePolicy policy = FailurePolicy::from(request.fail_on, request.strict, request.require_reference);
  std::vector<std::string> ids;
  for (const CaseResult& result : run_from_json(parse_json_file(file), file).cases) {
    const int code = exit_of(result, policy, 0);
    if (code != kExitPass && code != kExitSkipped) ids.push_back(result.id);
  }
  return ids;
}

/// One run on its way: what it was asked for, where it writes.
class Execution {
 public:
  Execution(RunRequest request, std::vector<SelectedCase> selected, const std::atomic<int>& signal)
      : request_(std::move(request)),
        policy_(FailurePolicy::from(request_.fail_on, request_.strict, request_.require_reference)),
        selected_(std::move(selected)),
        signal_(signal),
        screen_(request_, selected_.size()) {}

  int start() {
    const std::int64_t started = now();
    run_.run_id = make_run_id(started);
    run_.suite_version = kSuiteVersion;
    run_.engine_commit = engine_commit();
    run_.device = name_of(request_.options.device);
    run_.argv = redact_arguments(request_.argv);
    run_.started = iso_utc(started);
    run_.host = host_name();
    run_.environment = capture_environment();
    StoredRequest stored{run_, request_, {}};
    for (const SelectedCase& entry : selected_)
      stored.cases.emplace_back(entry.resolved.source.id, entry.resolved.hash);
    ResultsFolder folder(request_.out, run_.run_id,
                         {{"env.json", SharedText(run_.environment.dump(2) + "\n")},
                          {"request.json", SharedText(to_json(stored).dump(2) + "\n")}});
    folder.events().append({{"event", "run_started"},
                            {"time", run_.started},
                            {"run_id", run_.run_id},
                            {"argv", run_.argv},
                            {"cases", selected_.size()}});
    return carry_out(folder);
  }

  int take_up(const StoredRequest& stored) {
    run_ = stored.frame;
    check_unchanged(stored);
    ResultsFolder folder = ResultsFolder::open(request_.resume);
    if (fs::is_regular_file(folder.file("result.json"))) {
      const std::string file = folder.file("result.json");
      const Run ended = run_from_json(parse_json_file(file), file);
      if (ran_to_the_end(ended)) {  // only what follows the results may be missing
        run_ = ended;
        screen_.line("the run is complete: nothing to resume");
        return tell(folder, SharedText(result_text(run_)));
      }
    }
    folder.events().append(
        {{"event", "run_resumed"}, {"time", iso_utc(now())}, {"argv", redact_arguments(request_.argv)}});
    return carry_out(folder);
  }

 private:
  static bool ran_to_the_end(const Run& run) {
    return std::all_of(run.cases.begin(), run.cases.end(),
                       [](const CaseResult& result) { return ran_to_its_end(result); }) &&
           run.exit_code != kExitInterrupted && run.exit_code != kExitTerminated;
  }

  /// Results of two programs or two configurations don't make one run.
  void check_unchanged(const StoredRequest& stored) {
    if (stored.frame.engine_commit != engine_commit()) {
      refuse("--resume", request_.resume,
             "the run was begun by engine " + stored.frame.engine_commit + ", this is " + engine_commit(),
             "finish it with that build, or start a new run");
    }
    std::vector<std::pair<std::string, std::string>> cases;
    for (const SelectedCase& entry : selected_) cases.emplace_back(entry.resolved.source.id, entry.resolved.hash);
    if (cases != stored.cases) {
      refuse("--resume", request_.resume, "the cases have changed since the run was begun", "start a new run");
    }
    const Json environment = capture_environment();
    if (system_fingerprint(environment, stored.frame.device) !=
        system_fingerprint(stored.frame.environment, stored.frame.device)) {
      refuse("--resume", request_.resume, "this machine is not the one the run was begun on",
             "resume it there, or start a new run");
    }
  }

  int carry_out(ResultsFolder& folder) {
    Json resolved = {{"schema_version", kCaseSchemaVersion}, {"cases", Json::array()}};
    for (const SelectedCase& entry : selected_) resolved["cases"].push_back(entry.resolved.resolved);
    write_file(folder.file("resolved_case.json"), resolved.dump(2) + "\n");
    RunOptions options = request_.options;
    if (request_.trace) options.trace_folder = folder.path();
    Parts parts(folder.path(), run_);
    std::string end;  // why the remaining cases are not run
    int failed = 0;
    for (const SelectedCase& entry : selected_) {
      if (!end.empty()) {
        run_.cases.push_back(not_run(entry, end));
        continue;
      }
      if (auto complete = parts.complete(blank(entry))) {
        screen_.kept(*complete);
        run_.cases.push_back(std::move(*complete));
      } else {
        run_.cases.push_back(run_case(entry, options, signal_,
                                      {folder.events(), parts, screen_, reproduce_command(request_, entry)}));
        if (signal_.load() != 0) end = kStopped;
      }
      const int code = exit_of(run_.cases.back(), policy_, 0);
      if (code != kExitPass && code != kExitSkipped) ++failed;
      if (request_.maxfail > 0 && failed >= request_.maxfail && end.empty()) {
        end = request_.maxfail == 1 ? "not run: --fail-fast" : fmt::format("not run: {} cases had failed", failed);
      }
    }
    run_.ended = iso_utc(now());
    run_.exit_code = exit_of(run_.cases, policy_, signal_.load());
    if (end == kStopped && run_.cases.back().reason == kStopped) {  // the signal came between two cases
      run_.exit_code = worse_exit(run_.exit_code, signal_.load() == SIGTERM ? kExitTerminated : kExitInterrupted);
    }
    const SharedText json = parts.text(run_);
    write_results(folder, request_, run_, json);
    folder.events().append({{"event", "run_finished"}, {"time", run_.ended}, {"exit_code", run_.exit_code}});
    return tell(folder, json);
  }

  /// History, --json and the last line.
  int tell(const ResultsFolder& folder, const SharedText& json) {
    remember();
    if (request_.json == "-") {
      for (const SharedText::Piece& piece : json.pieces()) std::fwrite(piece->data(), 1, piece->size(), stdout);
    } else if (!request_.json.empty()) {
      write_file(request_.json, json, "--json");
    }
    if (!request_.junit.empty()) write_file(request_.junit, junit_report(run_), "--junit");
    if (!anything_judged(run_.cases)) screen_.line("NOTHING WAS JUDGED");
    screen_.line(console_summary(run_, folder.path()));
    return run_.exit_code;
  }

  /// A history that can't be written costs a warning, never the run. What was broken on purpose is no history.
  void remember() const {
    if (request_.history.empty() || request_.options.injection.drop_recomputed_collectives) return;
    try {
      History(request_.history, Database::Mode::write).record(run_, system_fingerprint(run_.environment, run_.device));
    } catch (const Error& error) {
      for (const Violation& violation : error.violations())
        fmt::print(stderr, "benchsuite: warning: {}\n", to_string(violation));
      if (error.violations().empty()) fmt::print(stderr, "benchsuite: warning: {}\n", error.what());
      fmt::print(stderr, "benchsuite: warning: this run is not in the history\n");
    }
  }

  RunRequest request_;
  FailurePolicy policy_;
  std::vector<SelectedCase> selected_;
  const std::atomic<int>& signal_;
  Screen screen_;
  Run run_;
};

}  // namespace

int verb_run(const RunRequest& given, const std::atomic<int>& signal) {
  FailurePolicy::from(given.fail_on, given.strict, given.require_reference);  // bad words show before anything else
  const DataRoot root = DataRoot::find();
  RunRequest request = given;
  std::optional<StoredRequest> stored;
  if (!given.resume.empty() && !given.failed.empty()) {
    refuse("--failed", given.failed, "stands beside --resume", "finish the run first, then run its failed cases");
  }
  if (!given.resume.empty()) {
    if (!given.out.empty()) refuse("--out", given.out, "a resumed run stays in its folder", "leave it out");
    stored = read_stored_request(given.resume);
    request = taken_up(given, *stored, "--resume");
    request.resume = given.resume;
  } else if (!given.failed.empty()) {
    request = taken_up(given, read_stored_request(given.failed), "--failed");
    request.selection.only = failed_cases(given.failed, request);
    if (request.selection.only.empty()) {
      fmt::print(stderr, "benchsuite: no case of {} failed: there is nothing to run again\n", given.failed);
      return kExitNothing;
    }
  } else {
    if (!request.suite.empty()) apply_suite(request, root);
    if (request.suite.empty() && !selects_something(request.selection)) {
      refuse("--case", "", "nothing is selected",
             "name a case (benchsuite list shows all), a --case-file, a --tag or a --suite");
    }
  }
  check_output("--json", request.json == "-" ? "" : request.json);
  check_output("--junit", request.junit);
  std::vector<Violation> problems;
  std::vector<SelectedCase> selected;
  if (selects_something(request.selection)) selected = select_cases(request.selection, root, problems);
  if (!problems.empty()) throw Error(problems);
  if (selected.empty()) return nothing_matched(request, root);
  Execution execution(std::move(request), std::move(selected), signal);
  return stored ? execution.take_up(*stored) : execution.start();
}

}  // namespace benchsuite
