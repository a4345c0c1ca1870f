#include "suite/conform/verb_conform.h"

#include <fmt/format.h>

#include <cstdio>

#include "suite/conform/conform.h"
#include "suite/report/conform_html.h"
#include "suite/report/conform_json.h"
#include "suite/results/outcome.h"
#include "suite/results/run_files.h"

namespace benchsuite {

namespace {

constexpr const char* kDropTied = "drop-tied-embedding-reduce";

std::string row_line(const ConformRow& row) {
  std::string line = fmt::format("{:<4}  {:<46} {:<9} {:>8.1e} {:>9.1e}  {}", row.pass ? "PASS" : "FAIL", row.id,
                                 word_of(row.required), row.max_abs_loss, row.max_rel_grad_norm, row.against);
  if (!row.note.empty()) line += "\n      " + row.note;
  return line;
}

ConformOptions options_of(const ConformRequest& request) {
  ConformOptions options{.filter = request.filter, .steps = request.steps, .jobs = request.jobs};
  for (const std::string& word : request.injections) {
    if (word != kDropTied) {
      throw Error(
          {Violation{"command line", "--inject", word, "not a known fault", std::string("choose ") + kDropTied}});
    }
    options.faults.drop_tied_embedding_reduce = true;
  }
  return options;
}

}  // namespace

int verb_conform(const ConformRequest& request, const TrainingDevice& cuda, const std::atomic<int>& signal) {
  const ConformOptions options = options_of(request);
  std::FILE* out = request.json == "-" ? stderr : stdout;
  std::size_t done = 0;
  const auto told = [&](const ConformRow& row, std::size_t of) {
    if (request.quiet && row.pass) return;
    if (done == 0) {
      fmt::print(out, "      {:>7}  {:<4}  {:<46} {:<9} {:>8} {:>9}  {}\n", "", "", "layout", "required", "|d loss|",
                 "d norm", "against");
    }
    fmt::print(out, "[{:>4}/{:>4}]  {}\n", ++done, of, row_line(row));
    std::fflush(out);
  };
  if (request.device == "cuda") {
    if (const std::string missing = cuda.why_unavailable(1); !missing.empty()) throw Error(Error::Kind::unavailable, missing);
  }
  const ConformReport report =
      request.device == "cuda" ? run_conform_on(cuda, options, told, signal) : run_conform(options, told, signal);
  if (report.rows.empty() && !report.interrupted) {
    fmt::print(stderr, "benchsuite: no layout matches \"{}\"; ids look like gpt-tiny/fp32/tp2+sp\n", request.filter);
    return kExitNothing;
  }
  if (request.json == "-") {
    fmt::print("{}\n", to_json(report).dump(2));
  } else if (!request.json.empty()) {
    write_file(request.json, to_json(report).dump(2) + "\n", "--json");
  }
  if (!request.html.empty()) write_file(request.html, conform_html(report), "--html");

  std::size_t exact = 0;
  for (const ConformRow& row : report.rows) exact += row.required == ConformRow::Required::bits ? 1 : 0;
  fmt::print(out, "{} layouts, {} steps each: {} required bit for bit, {} within a tolerance; {} FAIL; {:.0f} s\n",
             report.rows.size(), report.steps, exact, report.rows.size() - exact, report.failures(), report.seconds);
  if (report.left_out > 0) fmt::print(out, "{} layouts have more ranks than there are GPUs and were left out\n", report.left_out);
  if (report.interrupted) return 128 + signal.load();
  return report.failures() == 0 ? kExitPass : kExitFail;
}

void define_conform(CLI::App& app, ConformRequest& request) {
  CLI::App* verb = app.add_subcommand("conform", "Train every layout on device cpu and hold it against one rank");
  verb->add_option("--device", request.device,
                   "cpu (default); cuda: every layout on GPUs, a rank each, against the same layout on cpu")
      ->type_name("DEVICE")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  verb->add_option("--filter", request.filter, "Glob of layouts, e.g. 'gpt-tiny/fp32/*zero*'")->type_name("GLOB");
  verb->add_option("--steps", request.steps, "Steps to train (default 20)")
      ->type_name("N")
      ->check(CLI::Range(1, 10000));
  verb->add_option("--jobs", request.jobs, "Layouts trained at the same time (default: one a core)")
      ->type_name("N")
      ->check(CLI::Range(1, 1024));
  verb->add_option("--json", request.json, "Also as JSON; - is standard output (text then goes to standard error)")
      ->type_name("FILE");
  verb->add_option("--html", request.html, "Also as an HTML page")->type_name("FILE");
  verb->add_flag("-q,--quiet", request.quiet, "Only failures and the summary line");
  verb->add_option("--inject", request.injections,
                   "Break every layout on purpose, to see it noticed: drop-tied-embedding-reduce (repeatable)")
      ->type_name("FAULT")
      ->allow_extra_args(false)
      ->group("Testing");
  verb->footer(
      "Examples:\n"
      "  benchsuite conform\n"
      "  benchsuite conform --filter '*/fp32/*sp*' --steps 3 --html conform.html\n"
      "Exit codes: 0 all conform, 1 one does not, 2 bad usage, 4 the filter selects nothing, 5 no GPU, 130 interrupted");
}

std::optional<int> dispatch_conform(const CLI::App& app, const ConformRequest& request, const TrainingDevice& cuda,
                                    const std::atomic<int>& signal) {
  if (!app.got_subcommand("conform")) return std::nullopt;
  return verb_conform(request, cuda, signal);
}

}  // namespace benchsuite
