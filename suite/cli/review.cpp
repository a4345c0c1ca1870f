#include "suite/cli/review.h"

#include "suite/history/history.h"

namespace benchsuite {

namespace {

void define_compare(CLI::App& app, CompareRequest& compare) {
  CLI::App* verb = app.add_subcommand("compare", "What changed between two results, and whether it matters");
  verb->add_option("result", compare.results, "result.json or folder of a run: A and B, or one with --from and --to")
      ->type_name("RESULT")
      ->expected(0, 2);
  verb->add_option("--from", compare.from, "Variant to start from, in one run")->type_name("VARIANT");
  verb->add_option("--to", compare.to, "Variant to compare with it")->type_name("VARIANT");
  verb->add_option("--case", compare.only_case, "Which case of the results; with --hardware the case to run")
      ->type_name("CASE");
  verb->add_option("--hardware", compare.hardware, "Run --case on two hardware profiles and compare")
      ->type_name("A B")
      ->expected(2);
  verb->add_option("--variant", compare.variants, "Glob of variants (repeatable)")
      ->type_name("GLOB")
      ->allow_extra_args(false);
  verb->add_flag("--force", compare.force, "Compare although the cases' hashes differ");
  verb->add_option("--json", compare.json, "Also as JSON; - is standard output (text then goes to standard error)")
      ->type_name("FILE");
  verb->add_option("--out", compare.out, "Folder for compare.html, compare.md and compare.json")->type_name("DIR");
  verb->add_flag("--no-color", compare.no_color, "No colours");
  verb->footer(
      "Examples:\n"
      "  benchsuite compare results/before results/after\n"
      "  benchsuite compare results/latest --from full_m8 --to selective_m8 --out /tmp/why\n"
      "  benchsuite compare --case sp_recompute_13b --hardware dgx-a100-80g dgx-h100 --variant '*_m8'\n"
      "Exit codes: 0 nothing got worse, 1 worse, 2 not comparable, 3 a result is missing, 4 nothing to judge");
}

void define_history(CLI::App& app, ReviewRequests& requests) {
  HistoryRequest& history = requests.history;
  CLI::App* verb = app.add_subcommand("history", "What former runs showed: list, show, trend, export, prune");
  verb->require_subcommand(1);
  verb->footer("Examples:\n  benchsuite history list\n  benchsuite history trend sp_recompute_13b --variant full_m8");
  history.file = kDefaultHistory;
  const auto action = [&](const char* name, const char* text) {
    CLI::App* sub = verb->add_subcommand(name, text);
    sub->add_option("--history", history.file, "SQLite file (default results/history.sqlite)")->type_name("FILE");
    return sub;
  };
  const auto filters = [&](CLI::App* sub) {
    sub->add_option("--variant", history.variant, "Glob of variants")->type_name("GLOB");
    sub->add_option("--metric", history.metric, "Metric, e.g. mfu")->type_name("METRIC");
    sub->add_option("--device", history.device, "sim, cpu or cuda")->type_name("DEVICE");
  };
  CLI::App* list = action("list", "Runs, newest first");
  list->add_option("--last", history.last, "Only so many")->type_name("N");
  list->add_flag("--json", history.json, "As JSON");
  list->footer("Example:\n  benchsuite history list --last 20");
  CLI::App* show = action("show", "Everything a run left in the history");
  show->add_option("run", history.run_id, "Id of the run")->type_name("RUN")->required();
  show->add_flag("--json", history.json, "As JSON");
  show->footer("Example:\n  benchsuite history show 20261129T150102Z-7f3a");
  CLI::App* trend = action("trend", "A metric over time: rolling median, band, where the level changed");
  trend->add_option("case", history.case_id, "Name of a case")->type_name("CASE")->required();
  filters(trend);
  trend->add_option("--last", requests.last_points, "Newest points of each series (default 100, 0 all)")
      ->type_name("N");
  trend->add_flag("--json", history.json, "As JSON");
  trend->add_option("--html", history.html, "Also write the trends as a page here")->type_name("FILE");
  trend->footer("Example:\n  benchsuite history trend sp_recompute_13b --metric iteration_s --html trend.html");
  CLI::App* rows = action("export", "All rows, one per run, variant and metric");
  rows->add_option("--case", history.case_id, "Only this case")->type_name("CASE");
  filters(rows);
  rows->add_option("--format", requests.format, "json (one object a line, default) or csv")->type_name("FORMAT");
  rows->footer("Example:\n  benchsuite history export --format csv > history.csv");
  CLI::App* prune = action("prune", "Forget old runs");
  prune->add_option("--keep", history.keep, "Newest runs to keep, of each device and system")
      ->type_name("N")
      ->required();
  prune->footer("Example:\n  benchsuite history prune --keep 500");
}

void define_env(CLI::App& app, EnvRequest& env) {
  CLI::App* verb = app.add_subcommand("env", "What results record of this machine and environment");
  verb->add_flag("--json", env.json, "As JSON");
  verb->add_option("--diff", env.other, "Run, result.json or env.json to compare with; exit 1 when they differ")
      ->type_name("OTHER");
  verb->footer("Example:\n  benchsuite env --diff results/latest");
}

}  // namespace

void define_review(CLI::App& app, ReviewRequests& requests) {
  define_compare(app, requests.compare);
  define_history(app, requests);
  define_env(app, requests.env);
}

std::optional<int> run_review(const CLI::App& app, ReviewRequests& requests, const SimulateFunction& simulate) {
  if (app.got_subcommand("compare")) {
    requests.compare.simulate = simulate;
    return verb_compare(requests.compare);
  }
  if (app.got_subcommand("env")) return verb_env(requests.env);
  if (!app.got_subcommand("history")) return std::nullopt;
  const CLI::App* verb = app.get_subcommand("history");
  HistoryRequest& history = requests.history;
  if (verb->got_subcommand("show")) history.action = HistoryAction::show;
  if (verb->got_subcommand("trend")) {
    history.action = HistoryAction::trend;
    history.last = requests.last_points;
  }
  if (verb->got_subcommand("export")) {
    history.action = HistoryAction::export_rows;
    if (requests.format != "json" && requests.format != "csv") {
      throw Error({Violation{"command line", "--format", requests.format, "not a known choice", "choose json or csv"}});
    }
    history.format = requests.format == "csv" ? ExportFormat::csv : ExportFormat::json;
  }
  if (verb->got_subcommand("prune")) history.action = HistoryAction::prune;
  return verb_history(history);
}

}  // namespace benchsuite
