#include "suite/cli/cli.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>

#include "suite/accuracy/verb_accuracy.h"
#include "suite/cli/review.h"
#include "suite/cli/verbs.h"
#include "suite/conform/verb_conform.h"
#include "suite/environment/version.h"
#include "suite/hardware/verb_hardware.h"
#include "suite/history/history.h"
#include "suite/report/renderings.h"
#include "suite/run/verb_run.h"
#include "suite/results/outcome.h"
#include "suite/train/verb_train.h"

namespace benchsuite {

namespace {

/// Everything the parser fills; it lives as long as the parser.
struct Requests {
  TrainRequest train;
  ListRequest list;
  ShowRequest show;
  RunRequest run;
  ReportRequest report;
  ValidateRequest validate;
  HardwareRequests hardware;
  ConformRequest conform;
  AccuracyRequest accuracy;
  std::vector<std::string> injections;
  ReviewRequests review;
  std::string device = "sim", progress = "auto";
  bool keep_going = true, fail_fast = false, no_history = false;
};

void add_selection(CLI::App* verb, Selection& selection) {
  verb->add_option("--case-file", selection.files, "Case file outside cases/ (repeatable)")
      ->type_name("FILE")
      ->allow_extra_args(false);
  verb->add_option("--set", selection.sets,
                   "Put VALUE in every variant, e.g. layout.tp=8 or hardware=ideal (repeatable)")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
}

void define_list(CLI::App& app, Requests& requests) {
  CLI::App* verb = app.add_subcommand("list", "List the cases");
  verb->add_option("--tag", requests.list.tags, "Only cases with this tag (repeatable)")
      ->type_name("TAG")
      ->allow_extra_args(false);
  verb->add_flag("--json", requests.list.json, "As JSON");
  verb->add_flag("--long", requests.list.details, "With variants");
  verb->add_flag("--suites", requests.list.suites, "The suites and the cases each means");
  verb->footer("Example:\n  benchsuite list --long");
}

void define_show(CLI::App& app, Requests& requests) {
  CLI::App* verb = app.add_subcommand("show", "Show a case resolved: every setting, every expectation and its source");
  verb->add_option("case,--case", requests.show.selection.names, "Name or glob of a case")->type_name("CASE");
  add_selection(verb, requests.show.selection);
  verb->add_flag("--json", requests.show.json, "As JSON, hardware profile included");
  verb->footer("Example:\n  benchsuite show sp_recompute_13b --set layout.tp=8");
}

void define_run(CLI::App& app, Requests& requests) {
  RunRequest& run = requests.run;
  CLI::App* verb = app.add_subcommand("run", "Run cases, judge them and write results");
  verb->add_option("--case", run.selection.names, "Name or glob of cases (repeatable)")->type_name("CASE");
  add_selection(verb, run.selection);
  verb->add_option("--tag", run.selection.tags, "Only cases with this tag (repeatable)")
      ->type_name("TAG")
      ->allow_extra_args(false);
  verb->add_option("--suite", run.suite, "Cases and policy of cases/suites/NAME.json, or of a file")->type_name("NAME");
  verb->add_option("--exclude", run.selection.exclude, "Glob of cases to leave out (repeatable)")
      ->type_name("GLOB")
      ->allow_extra_args(false);
  verb->add_option("--variant", run.selection.variants,
                   "Glob of variants: run only these; expectations that need others have no reference (repeatable)")
      ->type_name("GLOB")
      ->allow_extra_args(false);
  verb->add_option("--resume", run.resume, "Finish a run that was stopped or killed: what it has is kept")
      ->type_name("RUN");
  verb->add_option("--failed", run.failed, "Run the failed cases of a run again, as they were asked for")
      ->type_name("RUN");
  run.history = kDefaultHistory;
  verb->add_option("--history", run.history, "SQLite file that remembers results (default results/history.sqlite)")
      ->type_name("FILE");
  verb->add_flag("--no-history", requests.no_history, "Remember nothing");
  verb->add_option("--device", requests.device, "sim (default), cpu or cuda")->type_name("DEVICE");
  verb->add_option("--out", run.out, "Folder of this run (default results/TIME-ID, with results/latest pointing at it)")
      ->type_name("DIR");
  verb->add_option("--json", run.json,
                   "Also write result.json here; - is standard output (human text then goes to standard error)")
      ->type_name("FILE");
  verb->add_option("--format", run.formats,
                   "Renderings beside result.json: md, html, junit, csv, separated by commas (default md,html)")
      ->delimiter(',')
      ->type_name("LIST")
      ->allow_extra_args(false);
  verb->add_option("--junit", run.junit, "Also write junit.xml here")->type_name("FILE");
  verb->add_flag("--trace", run.trace, "Write a Chrome/Perfetto trace of each variant");
  verb->add_flag("--verify", run.options.verify, "Prove every recorded Program sound before replaying it");
  verb->add_option("--timeout", run.options.timeout_s, "Time limit of each case; exit 124 when it is reached")
      ->type_name("SECONDS");
  verb->add_option("--repeat", run.options.repeat,
                   "Measure every variant N times, round by round, and tell the median (device sim: N equal replays)")
      ->type_name("N");
  verb->add_flag("-q,--quiet", run.quiet, "Only the summary line");
  verb->add_flag("--no-color", run.no_color, "No colours (also: NO_COLOR in the environment)");
  verb->add_option("--progress", requests.progress, "auto (default), plain or none")->type_name("HOW");
  verb->add_option("--fail-on", run.fail_on,
                   "What exits 1: regress (default), improve, warn, skip, noref, never (repeatable)")
      ->type_name("WHAT")
      ->allow_extra_args(false);
  verb->add_flag("--require-reference", run.require_reference, "A case without a reference exits 4");
  verb->add_flag("--strict", run.strict, "Warnings, skips and missing references exit 1 too");
  CLI::Option* fast = verb->add_flag("--fail-fast", requests.fail_fast, "Stop after the first case that fails");
  verb->add_option("--maxfail", run.maxfail, "Stop after N cases that fail")->type_name("N")->excludes(fast);
  verb->add_flag("--keep-going", requests.keep_going, "Run every case whatever happens (default)")->excludes(fast);
  verb->add_option("--inject", requests.injections,
                   "Break the run on purpose, to see the expectations notice: drop-recomputed-collectives, "
                   "delay=SECONDS (repeatable)")
      ->type_name("FAULT")
      ->allow_extra_args(false)
      ->group("Testing");
  verb->footer(
      "Examples:\n"
      "  benchsuite run --case sp_recompute_13b\n"
      "  benchsuite run --case 'sp_*' --set layout.tp=8 --out /tmp/tp8\n"
      "  benchsuite run --case-file my.json --json - --quiet\n"
      "  benchsuite run --suite nightly\n"
      "  benchsuite run --resume results/latest\n"
      "Exit codes: 0 passed, 1 an expectation failed, 2 bad usage or configuration, 3 the run broke, 4 nothing to "
      "judge,\n"
      "5 everything skipped, 124 time limit, 130 interrupted, 143 terminated");
}

void define_report(CLI::App& app, Requests& requests) {
  CLI::App* verb = app.add_subcommand("report", "Render stored results again");
  verb->add_option("result", requests.report.results, "result.json or the folder of a run")
      ->type_name("RESULT")
      ->required();
  verb->add_option("--format", requests.report.formats,
                   "console (default), md, html, json, junit, csv; several with commas")
      ->delimiter(',')
      ->type_name("FORMAT")
      ->allow_extra_args(false);
  verb->add_option("--out", requests.report.out, "Folder to write to instead of standard output")->type_name("DIR");
  verb->add_flag("--no-color", requests.report.no_color, "No colours");
  verb->footer("Example:\n  benchsuite report results/latest --format md");
}

void define_validate(CLI::App& app, Requests& requests) {
  CLI::App* verb = app.add_subcommand("validate", "Check case, expectation, model, stack, hardware and result files");
  verb->add_option("file", requests.validate.files, "Files (default: all of cases/ and expected/)")->type_name("FILE");
  verb->footer("Example:\n  benchsuite validate cases/my_case.json expected/my_case.json");
}

/// The meaning of `word`, or an error that lists the words and suggests one.
template <class E>
E choose(const char* flag, const std::string& word, const std::vector<std::pair<std::string, E>>& meanings) {
  std::vector<std::string> words;
  std::string list;
  for (const auto& [name, meaning] : meanings) {
    if (name == word) return meaning;
    words.push_back(name);
    list += (list.empty() ? "" : ", ") + name;
  }
  const std::string guess = did_you_mean(word, words);
  throw Error({Violation{"command line", flag, word, "not a known choice",
                         (guess.empty() ? "" : "did you mean \"" + guess + "\"? ") + "choose from " + list}});
}

void check_formats(const std::vector<std::string>& formats, bool console) {
  std::vector<std::pair<std::string, int>> known;
  if (console) known.emplace_back("console", 0);
  for (const Rendering& rendering : renderings()) known.emplace_back(rendering.name, 0);
  for (const std::string& format : formats) choose<int>("--format", format, known);
}

void read_injections(const std::vector<std::string>& words, Injection& injection) {
  for (const std::string& word : words) {
    if (word == "drop-recomputed-collectives") {
      injection.drop_recomputed_collectives = true;
      continue;
    }
    if (word.starts_with("delay=")) {
      const Json seconds = Json::parse(word.substr(6), nullptr, false);
      if (seconds.is_number() && seconds.get<double>() >= 0) {
        injection.delay_s = seconds.get<double>();
        continue;
      }
    }
    throw Error({Violation{"command line", "--inject", word, "not a known fault",
                           "choose drop-recomputed-collectives or delay=SECONDS"}});
  }
}

/// Flags and, above the verbs, verbs.
std::vector<std::string> names_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(verb->get_name());
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

/// The parser's complaint on one line, with a suggestion for a mistyped flag or verb.
std::string complaint(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App* at = &app;
  std::string path = app.get_name();
  while (!at->get_subcommands().empty()) {
    at = at->get_subcommands().front();
    path += " " + at->get_name();
  }
  const std::string help = "see " + path + " --help";
  std::vector<std::string> unknown = app.remaining(true);
  if (!unknown.empty()) {
    const std::string word = unknown.front().substr(0, unknown.front().find('='));
    const std::string guess = did_you_mean(word, names_of(*at));
    const char* kind = word.starts_with("-") ? "flag" : at == &app ? "verb" : "argument";
    return fmt::format("unknown {} \"{}\"; {}", kind, word, guess.empty() ? help : "did you mean \"" + guess + "\"?");
  }
  if (at == &app && dynamic_cast<const CLI::RequiredError*>(&error))
    return "a verb is needed, such as run or list; " + help;
  std::string text = error.what();
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text + "; " + help;
}

/// "help VERB" is another word for "VERB --help".
std::vector<std::string> with_help_as_a_flag(const CLI::App& app, std::vector<std::string> argv) {
  if (argv.empty() || argv.front() != "help") return argv;
  argv.erase(argv.begin());
  const CLI::App* at = &app;
  for (const std::string& word : argv) {
    const auto named = at->get_subcommands([&](const CLI::App* verb) { return verb->get_name() == word; });
    if (named.empty()) {
      const std::string guess = did_you_mean(word, names_of(*at));
      throw Error({Violation{"command line", "help", word, "not a verb",
                             guess.empty() ? "see benchsuite --help" : "did you mean \"" + guess + "\"?"}});
    }
    at = named.front();
  }
  argv.push_back("--help");
  return argv;
}

int dispatch(const CLI::App& app, Requests& requests, const std::vector<std::string>& argv,
             const SimulateFunction& simulate, const TrainingDevice& cuda, const std::atomic<int>& signal) {
  if (app.got_subcommand("list")) return verb_list(requests.list);
  if (const auto code = run_review(app, requests.review, simulate)) return *code;
  if (app.got_subcommand("show")) {
    const Selection& selection = requests.show.selection;
    if (selection.names.empty() && selection.files.empty()) {
      throw Error(
          {Violation{"command line", "CASE", "", "nothing is selected", "name a case; benchsuite list shows all"}});
    }
    return verb_show(requests.show);
  }
  if (app.got_subcommand("report")) {
    check_formats(requests.report.formats, true);
    return verb_report(requests.report);
  }
  if (app.got_subcommand("validate")) return verb_validate(requests.validate);
  if (const auto code = dispatch_hardware(app, requests.hardware)) return *code;
  if (const auto code = dispatch_conform(app, requests.conform, cuda, signal)) return *code;
  requests.accuracy.argv = argv;
  if (const auto code = dispatch_accuracy(app, requests.accuracy, signal)) return *code;
  if (const auto code = dispatch_train(app, requests.train, cuda, signal)) return *code;
  check_formats(requests.run.formats, false);
  read_injections(requests.injections, requests.run.options.injection);
  requests.run.options.device =
      choose<Device>("--device", requests.device, {{"sim", Device::sim}, {"cpu", Device::cpu}, {"cuda", Device::cuda}});
  requests.run.progress =
      choose<Progress>("--progress", requests.progress,
                       {{"auto", Progress::automatic}, {"plain", Progress::plain}, {"none", Progress::none}});
  const double limit = requests.run.options.timeout_s;
  if (app.get_subcommand("run")->count("--timeout") > 0 && !(limit > 0)) {
    throw Error({Violation{"command line", "--timeout", fmt::format("{}", limit), "must be more than 0",
                           "give a number of seconds"}});
  }
  if (requests.run.options.repeat < 1) {
    throw Error({Violation{"command line", "--repeat", fmt::format("{}", requests.run.options.repeat),
                           "must be 1 or more", "give the number of rounds"}});
  }
  if (requests.run.maxfail < 0) {
    throw Error({Violation{"command line", "--maxfail", fmt::format("{}", requests.run.maxfail), "is negative",
                           "give the number of failures to stop after"}});
  }
  if (requests.fail_fast) requests.run.maxfail = 1;
  if (requests.no_history) requests.run.history.clear();
  requests.run.options.simulate = simulate;
  requests.run.options.why_no_cuda = cuda.why_unavailable;
  requests.run.argv = argv;
  return verb_run(requests.run, signal);
}

}  // namespace

int run_cli(const std::vector<std::string>& argv, const SimulateFunction& simulate, const TrainingDevice& cuda,
            const std::atomic<int>& signal) {
  CLI::App app{"Acceptance suite for clusters that train large language models", "benchsuite"};
  app.require_subcommand(1);
  app.set_version_flag("--version", version_text);
  app.footer(
      "Example:\n  benchsuite run --case sp_recompute_13b\n"
      "Each verb has its own --help; benchsuite help VERB shows the same.");
  Requests requests;
  define_list(app, requests);
  define_show(app, requests);
  define_run(app, requests);
  define_report(app, requests);
  define_validate(app, requests);
  define_review(app, requests.review);
  define_hardware(app, requests.hardware);
  define_conform(app, requests.conform);
  define_accuracy(app, requests.accuracy);
  define_train(app, requests.train);

  try {
    try {
      std::vector<std::string> words = with_help_as_a_flag(app, argv);
      std::reverse(words.begin(), words.end());
      app.parse(std::move(words));
    } catch (const CLI::Success& request) {  // --help and --version
      return app.exit(request) == 0 ? kExitPass : kExitUsage;
    } catch (const CLI::ParseError& error) {
      fmt::print(stderr, "benchsuite: {}\n", complaint(app, error));
      return kExitUsage;
    }
    return dispatch(app, requests, argv, simulate, cuda, signal);
  } catch (const Error& error) {
    if (error.kind() == Error::Kind::config) {
      if (error.violations().empty()) fmt::print(stderr, "benchsuite: {}\n", error.what());
      for (const Violation& violation : error.violations())
        fmt::print(stderr, "benchsuite: {}\n", to_string(violation));
      return kExitUsage;
    }
    fmt::print(stderr, "benchsuite: {}\n", error.what());
    return error.kind() == Error::Kind::unavailable ? kExitSkipped : kExitError;
  } catch (const std::exception& failure) {
    fmt::print(stderr, "benchsuite: unexpected failure: {}\n", failure.what());
    return kExitError;
  }
}

}  // namespace benchsuite
