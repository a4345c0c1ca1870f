#include "suite/accuracy/verb_accuracy.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "suite/accuracy/accuracy_render.h"
#include "suite/report/format.h"
#include "suite/results/outcome.h"
#include "suite/results/run_files.h"

namespace benchsuite {

namespace {

std::string command_of(const std::vector<std::string>& argv) {
  std::string command = "benchsuite";
  for (const std::string& word : argv) command += " " + shell_quote(word);
  return command;
}

}  // namespace

int verb_accuracy(const AccuracyRequest& request, const std::atomic<int>& signal) {
  AccuracyOptions options = request.options;
  if (request.ensemble > 0) {
    options.draws = request.ensemble;
    options.draw_unstated = true;
  }
  AccuracyProgress progress;
  if (!request.quiet && isatty(STDERR_FILENO) != 0) {
    progress = [](const std::string& what, std::size_t done, std::size_t all) {
      fmt::print(stderr, "\r{} of {} {} ", done, all, what);
    };
  }
  AccuracyReport report;
  try {
    report = run_accuracy(options, progress, signal);
  } catch (const Error&) {
    if (signal.load() == 0) throw;
    fmt::print(stderr, "{}benchsuite: interrupted; a score of some rows would mislead, so nothing is written\n",
               progress ? "\n" : "");
    return 128 + signal.load();
  }
  if (progress) fmt::print(stderr, "\r{:60}\r", "");
  if (report.rows.empty()) {
    fmt::print(stderr, "benchsuite: no published row matches \"{}\"; --source takes a part of a source, set or id\n",
               request.options.source);
    return kExitNothing;
  }
  std::FILE* out = request.json == "-" ? stderr : stdout;
  if (request.json == "-") {
    fmt::print("{}\n", to_json(report).dump(1));
  } else if (!request.json.empty()) {
    write_file(request.json, to_json(report).dump(1) + "\n", "--json");
  }
  if (!request.html.empty()) write_file(request.html, accuracy_html(report), "--html");
  if (!request.markdown.empty()) write_file(request.markdown, accuracy_markdown(report, command_of(request.argv)), "--markdown");
  if (!request.quiet) fmt::print(out, "{}", accuracy_text(report, request.rows));
  const bool any = std::any_of(report.rows.begin(), report.rows.end(), [](const RowResult& row) { return row.mapped; });
  return any ? kExitPass : kExitSkipped;
}

void define_accuracy(CLI::App& app, AccuracyRequest& request) {
  CLI::App* verb = app.add_subcommand("accuracy", "Hold predictions against published training-step measurements, row by row");
  verb->add_option("--rows", request.options.files, "JSON table of published rows (repeatable; default: expected/published)")
      ->type_name("FILE")
      ->allow_extra_args(false);
  verb->add_option("--source", request.options.source, "Only rows whose source, set or id holds this (* matches anything)")
      ->type_name("S");
  verb->add_flag("--ablate", request.options.ablate, "Also what each modelled effect is worth, by set");
  verb->add_option("--ensemble", request.ensemble,
                   "Intervals from N draws of the constants' published ranges and of settings that a source leaves unstated "
                   "(default: 32 draws of the constants alone)")
      ->type_name("N")
      ->check(CLI::Range(1, 10000));
  verb->add_option("--seed", request.options.seed, "Seed of the draws (default 1)")->type_name("N");
  verb->add_option("--jobs", request.options.threads, "Rows simulated at the same time (default 2)")
      ->type_name("N")
      ->check(CLI::Range(1, 1024));
  verb->add_option("--json", request.json, "Also as JSON; - is standard output (text then goes to standard error)")
      ->type_name("FILE");
  verb->add_option("--html", request.html, "Also as an HTML page")->type_name("FILE");
  verb->add_option("--markdown", request.markdown, "Also the scores as Markdown")->type_name("FILE");
  verb->add_flag("--each", request.rows, "Print every row");
  verb->add_flag("-q,--quiet", request.quiet, "Print nothing but what --json - asks for");
  verb->footer(
      "Examples:\n"
      "  benchsuite accuracy\n"
      "  benchsuite accuracy --source 'Korthikanti Table 5' --each\n"
      "  benchsuite accuracy --rows mine.json --ensemble 200 --json - --html accuracy.html\n"
      "Exit codes: 0 compared, 2 bad usage or file, 4 nothing selected, 5 no row could be mapped, 130 interrupted");
}

std::optional<int> dispatch_accuracy(const CLI::App& app, const AccuracyRequest& request, const std::atomic<int>& signal) {
  if (!app.got_subcommand("accuracy")) return std::nullopt;
  return verb_accuracy(request, signal);
}

}  // namespace benchsuite
