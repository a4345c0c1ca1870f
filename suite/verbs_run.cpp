// run: select, measure, judge, write.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "suite/outcome.h"
#include "suite/report/console.h"
#include "suite/report/html.h"
#include "suite/report/markdown.h"
#include "suite/report/result_json.h"
#include "suite/results.h"
#include "suite/verbs.h"
#include "suite/verdict.h"
#include "suite/version.h"
#include "suite/waterfall.h"

namespace benchsuite {

namespace {

constexpr auto kHeartbeat = std::chrono::seconds(10);

std::int64_t now() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

/// What a person sees while the run goes. Human text leaves standard output free when result.json goes there.
class Screen {
 public:
  explicit Screen(const RunRequest& request)
      : out_(request.json == "-" ? stderr : stdout),
        quiet_(request.quiet),
        progress_(request.progress),
        colour_(wants_colour(request.no_color, ::fileno(out_))),
        live_(request.progress == Progress::automatic && !request.quiet && ::isatty(::fileno(out_)) == 1) {}

  void start(const CaseResult& result, std::string_view device) {
    if (!quiet_) write(console_start(result, device, colour_));
    total_ = result.variants.size();
    last_sign_ = std::chrono::steady_clock::now();
    counted_ = 0;
    if (live_) count(0);
  }
  void variant(const VariantResult& result) {
    ++counted_;
    if (live_) return count(counted_);
    if (quiet_ || progress_ != Progress::plain) return;
    last_sign_ = std::chrono::steady_clock::now();
    const bool measured = result.status == Status::pass;
    write(fmt::format(
        "         {}/{} {} {}\n", counted_, total_, result.id,
        measured ? fmt::format("{:.6g} s a step", result.iteration_s) : std::string(name_of(result.status))));
  }
  void waiting(std::size_t finished) {
    if (quiet_ || live_ || progress_ == Progress::none) return;
    if (std::chrono::steady_clock::now() - last_sign_ < kHeartbeat) return;
    last_sign_ = std::chrono::steady_clock::now();
    write(fmt::format("         still running: {} of {} variants done\n", finished, total_));
  }
  void finish(const CaseResult& result, const std::string& reproduce) {
    if (live_) write("\r\033[K");
    if (!quiet_) write(console_case(result, colour_, reproduce));
  }
  void line(const std::string& text) { write(text + "\n"); }

 private:
  void count(std::size_t finished) { write(fmt::format("\r\033[K         {}/{} variants", finished, total_)); }
  void write(const std::string& text) {
    std::fwrite(text.data(), 1, text.size(), out_);
    std::fflush(out_);
  }

  std::FILE* out_;
  bool quiet_;
  Progress progress_;
  bool colour_;
  bool live_;
  std::size_t total_ = 0, counted_ = 0;
  std::chrono::steady_clock::time_point last_sign_;
};

CaseResult blank(const SelectedCase& selected) {
  CaseResult result;
  result.id = selected.resolved.source.id;
  result.title = selected.resolved.source.title;
  result.case_hash = selected.resolved.hash;
  result.method_note = selected.resolved.method_note;
  return result;
}

const VariantResult* find(const CaseResult& result, const std::string& id) {
  for (const VariantResult& variant : result.variants) {
    if (variant.id == id && variant.status == Status::pass) return &variant;
  }
  return nullptr;
}

std::string reproduce_command(const RunRequest& request, const SelectedCase& selected) {
  const bool by_file = std::find(request.selection.files.begin(), request.selection.files.end(),
                                 selected.resolved.source.file) != request.selection.files.end();
  std::string text = "benchsuite run " + (by_file ? "--case-file " + selected.resolved.source.file
                                                  : "--case " + selected.resolved.source.id);
  for (const std::string& set : request.selection.sets) text += " --set '" + set + "'";
  if (request.options.device != Device::sim) text += " --device " + std::string(name_of(request.options.device));
  return text;
}

Json variant_event(const CaseResult& result, const VariantResult& variant) {
  return {{"event", "variant_finished"},
          {"case", result.id},
          {"variant", variant.id},
          {"status", name_of(variant.status)},
          {"reason_code", variant.reason_code},
          {"reason", variant.reason},
          {"iteration_s", variant.iteration_s},
          {"peak_memory_gib", variant.peak_memory_gib}};
}

CaseResult run_case(const SelectedCase& selected, const RunRequest& request, const RunOptions& options,
                    const std::atomic<int>& signal, EventLog& events, Screen& screen) {
  const auto begin = std::chrono::steady_clock::now();
  CaseResult result = blank(selected);
  CaseResult announced = result;
  announced.variants.resize(selected.resolved.variants.size());
  screen.start(announced, name_of(options.device));
  events.append({{"event", "case_started"},
                 {"time", iso_utc(now())},
                 {"case", result.id},
                 {"case_hash", result.case_hash},
                 {"variants", announced.variants.size()}});
  const StopWatch watch(options.timeout_s, signal);
  result.variants = run_variants(
      selected.resolved, options, watch,
      [&](const VariantResult& variant) {
        events.append(variant_event(result, variant));
        screen.variant(variant);
      },
      [&](std::size_t finished) { screen.waiting(finished); });
  for (const ComparisonSpec& comparison : selected.resolved.source.comparisons) {
    const VariantResult* from = find(result, comparison.from);
    const VariantResult* to = find(result, comparison.to);
    if (from && to) result.waterfalls.push_back(waterfall_between(comparison.id, *from, *to));
  }
  const JudgeContext context{std::string(name_of(options.device)), selected.as_written};
  judge_case(result, selected.expected ? &*selected.expected : nullptr, context);
  result.elapsed_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  events.append({{"event", "case_finished"},
                 {"time", iso_utc(now())},
                 {"case", result.id},
                 {"status", name_of(result.status)},
                 {"reason_code", result.reason_code},
                 {"reason", result.reason}});
  screen.finish(result, reproduce_command(request, selected));
  return result;
}

void write_results(const ResultsFolder& folder, const Run& run) {
  write_file(folder.file("report.md"), markdown_report(run));
  write_file(folder.file("report.html"), html_report(run));
  write_file(folder.file("result.json"), result_text(run));  // last: its presence says that the run ended
}

CaseResult not_run(const SelectedCase& selected, const char* code, const std::string& reason) {
  CaseResult result = blank(selected);
  result.status = Status::skip;
  result.reason_code = code;
  result.reason = reason;
  return result;
}

int nothing_matched(const RunRequest& request, const DataRoot& root) {
  const std::vector<std::string> known = root.names(DataKind::cases);
  std::string text = "no case matches";
  for (const std::string& name : request.selection.names) {
    text += " \"" + name + "\"";
    const std::string guess = did_you_mean(name, known);
    if (!guess.empty()) text += " (did you mean \"" + guess + "\"?)";
  }
  fmt::print(stderr, "benchsuite: {}; benchsuite list shows all cases\n", text);
  Run run;
  run.exit_code = kExitNothing;
  fmt::print(request.json == "-" ? stderr : stdout, "{}\n", console_summary(run, "nothing written"));
  return kExitNothing;
}

}  // namespace

int verb_run(const RunRequest& request, const std::atomic<int>& signal) {
  const FailurePolicy policy = FailurePolicy::from(request.fail_on, request.strict, request.require_reference);
  const DataRoot root = DataRoot::find();
  if (request.selection.names.empty() && request.selection.files.empty() && request.selection.tags.empty()) {
    throw Error({Violation{"command line", "--case", "", "nothing is selected",
                           "name a case (benchsuite list shows all), a --case-file or a --tag"}});
  }
  std::vector<Violation> problems;
  const std::vector<SelectedCase> selected = select_cases(request.selection, root, problems);
  if (!problems.empty()) throw Error(problems);
  if (selected.empty()) return nothing_matched(request, root);

  Run run;
  const std::int64_t started = now();
  run.run_id = make_run_id(started);
  run.suite_version = kSuiteVersion;
  run.engine_commit = engine_commit();
  run.device = name_of(request.options.device);
  run.argv = request.argv;
  run.started = iso_utc(started);
  run.host = host_name();

  ResultsFolder folder(request.out, run.run_id);
  folder.events().append({{"event", "run_started"},
                          {"time", run.started},
                          {"run_id", run.run_id},
                          {"argv", run.argv},
                          {"cases", selected.size()}});
  Json resolved = {{"schema_version", kCaseSchemaVersion}, {"cases", Json::array()}};
  for (const SelectedCase& entry : selected) resolved["cases"].push_back(entry.resolved.resolved);
  write_file(folder.file("resolved_case.json"), resolved.dump(2) + "\n");

  RunOptions options = request.options;
  if (request.trace) options.trace_folder = folder.path();
  Screen screen(request);
  std::string end;  // why the remaining cases are not run
  for (const SelectedCase& entry : selected) {
    if (!end.empty()) {
      run.cases.push_back(not_run(entry, "INCOMPLETE", end));
      continue;
    }
    run.cases.push_back(run_case(entry, request, options, signal, folder.events(), screen));
    if (signal.load() != 0) end = "not run: the run was stopped before";
    if (request.fail_fast && exit_of(run.cases.back(), policy, 0) != kExitPass) end = "not run: --fail-fast";
  }
  run.ended = iso_utc(now());
  run.exit_code = exit_of(run.cases, policy, signal.load());
  write_results(folder, run);
  folder.events().append({{"event", "run_finished"}, {"time", run.ended}, {"exit_code", run.exit_code}});
  if (request.json == "-") {
    const std::string text = result_text(run);
    std::fwrite(text.data(), 1, text.size(), stdout);
  } else if (!request.json.empty()) {
    write_file(request.json, result_text(run));
  }
  if (!anything_judged(run.cases)) screen.line("NOTHING WAS JUDGED");
  screen.line(console_summary(run, folder.path()));
  return run.exit_code;
}

}  // namespace benchsuite
