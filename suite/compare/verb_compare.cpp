// compare: two results, two variants of one, or one case on two hardware profiles.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "suite/compare/compare.h"
#include "suite/compare/verb_compare.h"
#include "suite/environment/version.h"
#include "suite/report/compare_render.h"
#include "suite/report/console.h"
#include "suite/report/consistency.h"
#include "suite/results/outcome.h"
#include "suite/results/run_files.h"
#include "suite/run/selection.h"

namespace benchsuite {

namespace {

[[noreturn]] void refuse(const char* flag, const std::string& value, const std::string& problem,
                         const std::string& remedy) {
  throw Error({Violation{"command line", flag, value, problem, remedy}});
}

/// The case on one profile, on device sim; nothing is written.
Run run_on(const std::string& profile, const CompareRequest& request) {
  const DataRoot root = DataRoot::find();
  Selection selection;
  selection.names = {request.only_case};
  selection.sets = {"hardware=" + profile};
  selection.variants = request.variants;
  selection.skip_own_hardware = true;
  std::vector<Violation> problems;
  const std::vector<SelectedCase> selected = select_cases(selection, root, problems);
  if (!problems.empty()) throw Error(problems);
  if (selected.empty()) {
    const std::string guess = did_you_mean(request.only_case, root.names(DataKind::cases));
    refuse("--case", request.only_case, "no case (or none of its variants) matches",
           guess.empty() ? "benchsuite list --long shows all" : "did you mean \"" + guess + "\"?");
  }
  Run run;
  run.run_id = profile;
  run.engine_commit = engine_commit();
  run.device = name_of(Device::sim);
  RunOptions options;
  options.simulate = request.simulate;
  const std::atomic<int> no_signal{0};
  for (const SelectedCase& entry : selected) {
    CaseResult& result = run.cases.emplace_back();
    result.id = entry.resolved.source.id;
    result.case_hash = entry.resolved.hash;
    result.variants = run_variants(
        entry.resolved, options, StopWatch(0, no_signal), [](const VariantResult&) {}, [](std::size_t) {});
  }
  return run;
}

Comparison make(const CompareRequest& request) {
  CompareOptions options{request.only_case, request.variants, request.from, request.to, request.force, false};
  if (request.from.empty() != request.to.empty()) {
    refuse(request.from.empty() ? "--from" : "--to", "", "missing", "name both variants");
  }
  if (!request.hardware.empty()) {
    if (!request.results.empty()) refuse("--hardware", "", "stands beside stored results", "leave out one of the two");
    if (request.only_case.empty()) refuse("--case", "", "missing", "name the case to run on both profiles");
    options.only_case.clear();  // it may be a glob; the runs hold what it matched
    options.other_hardware = true;
    const Run from = run_on(request.hardware[0], request);
    return compare_runs(from, run_on(request.hardware[1], request), options);
  }
  if (request.results.size() == 2)
    return compare_runs(load_result(request.results[0]), load_result(request.results[1]), options);
  if (request.results.size() == 1 && !request.from.empty())
    return compare_variants(load_result(request.results[0]), options);
  refuse("RESULT", "", "there is nothing to compare with",
         "name two results, or one with --from and --to, or --case with --hardware A B");
}

}  // namespace

int verb_compare(const CompareRequest& request) {
  const Comparison comparison = make(request);
  std::FILE* screen = request.json == "-" ? stderr : stdout;
  const std::string text = compare_text(comparison, wants_colour(request.no_color, ::fileno(screen)));
  std::fwrite(text.data(), 1, text.size(), screen);
  const std::string json = to_json(comparison).dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  if (request.json == "-") {
    std::fwrite(json.data(), 1, json.size(), stdout);
  } else if (!request.json.empty()) {
    write_file(request.json, json, "--json");
  }
  if (!request.out.empty()) {
    std::error_code failure;
    std::filesystem::create_directories(request.out, failure);
    if (failure)
      refuse("--out", request.out, "the folder can't be made: " + failure.message(),
             "choose a folder you may write to");
    write_files({{request.out + "/compare.md", SharedText(compare_markdown(comparison))},
                 {request.out + "/compare.html", SharedText(compare_html(comparison))},
                 {request.out + "/compare.json", SharedText(json)}});
  }
  return comparison.exit_code;
}

}  // namespace benchsuite
