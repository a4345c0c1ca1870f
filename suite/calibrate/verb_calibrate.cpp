// calibrate: measured collectives in, fit, fragment and verdict out.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "engine/core/fnv1a.h"
#include "suite/calibrate/fragment.h"
#include "suite/calibrate/measurement_file.h"
#include "suite/calibrate/verb_calibrate.h"
#include "suite/cases/data_root.h"
#include "suite/environment/version.h"
#include "suite/report/format.h"
#include "suite/report/text_table.h"
#include "suite/results/outcome.h"
#include "suite/results/run_files.h"

namespace benchsuite {

namespace {

void check_words(const CalibrateRequest& request, ReadingOptions& options) {
  std::vector<Violation> problems;
  if (request.from != "nccl-tests" && request.from != "csv")
    problems.push_back({"command line", "--from", request.from, "not a known format", "choose nccl-tests or csv"});
  if (!request.op.empty() && (options.op = collective_name(request.op)).empty())
    problems.push_back({"command line", "--op", request.op, "not a collective",
                        "choose all_reduce, all_gather, reduce_scatter, alltoall, send, broadcast or reduce"});
  if (!problems.empty()) throw Error(problems);
}

std::string times(const std::optional<double>& value) { return value ? significant(*value, 2) + " ×" : "–"; }

std::string table_text(const std::vector<CalibratedTable>& tables) {
  TextTable text({{"collective", TextTable::left},
                  {"ranks"},
                  {"nodes"},
                  {"sizes", TextTable::left},
                  {"busbw at the end"},
                  {"of expected"},
                  {"latency"},
                  {"fit: a"},
                  {"busbw"},
                  {"median | p90 error"}});
  for (const CalibratedTable& entry : tables) {
    const Judgement& judgement = entry.judgement;
    const CollectiveRow& last = entry.table.rows.back();
    const double factor = busbw_factor(judgement.reading.op, judgement.reading.ranks);
    const auto bytes = [](std::int64_t size) { return format_bytes(static_cast<double>(size)); };
    text.add({judgement.reading.op, std::to_string(judgement.reading.ranks), std::to_string(judgement.reading.nodes),
              bytes(entry.table.rows.front().size) + " – " + bytes(last.size),
              significant(static_cast<double>(last.size) * factor / last.best_s() / 1e9) + " GB/s",
              judgement.plateau ? format_percent(*judgement.plateau, 2) : "–", times(judgement.latency),
              entry.fit ? format_seconds(entry.fit->a_s) : "too few sizes",
              entry.fit ? significant(entry.fit->busbw / 1e9) + " GB/s" : "–",
              entry.fit ? format_percent(entry.fit->median_error, 2) + " | " + format_percent(entry.fit->p90_error, 2)
                        : "–"});
  }
  return text.text(2, [](std::string_view header) { return std::string(header); });
}

}  // namespace

int verb_calibrate(const CalibrateRequest& request) {
  ReadingOptions options{"", request.ranks, request.nodes};
  check_words(request, options);
  std::vector<Violation> problems;
  std::optional<HardwareProfile> hardware;
  if (!request.hardware.empty()) {
    const std::string file =
        DataRoot::find().locate(DataKind::hardware, request.hardware, "command line", "--hardware", problems);
    if (!problems.empty()) throw Error(problems);
    hardware = load_hardware(file);
  }

  std::vector<CalibratedTable> tables;
  std::vector<CalibrationSource> sources;
  for (const std::string& file : request.files) {
    const std::string text = read_measurement_file(file, "FILE");
    const NcclTestsFile found = request.from == "csv" ? read_collective_csv(text, file) : read_nccl_tests(text, file);
    for (const std::string& warning : found.warnings) fmt::print(stderr, "benchsuite: {}\n", warning);
    if (found.tables.empty()) {
      fmt::print(stderr, "benchsuite: {}: no row of a collective in it\n", file);
      continue;
    }
    const std::string key = "calibration-" + std::to_string(sources.size() + 1);
    std::string software = found.tables.front().software;
    sources.push_back(
        {key, fmt::format("{}, {} (fnv1a64:{:016x}); fitted by benchsuite {}",
                          request.from == "csv" ? "summary"
                          : software.empty()    ? "nccl-tests"
                                                : software,
                          file == "-" ? "standard input" : std::filesystem::path(file).filename().string(), fnv1a64(text), engine_commit())});
    for (const CollectiveTable& table : found.tables) {
      try {
        CalibratedTable entry{table, judge_table(table, options, hardware ? &*hardware : nullptr), std::nullopt, key};
        const Reading& reading = entry.judgement.reading;
        entry.fit = fit_collective(table.rows, busbw_factor(reading.op, reading.ranks));
        tables.push_back(std::move(entry));
      } catch (const Error& error) {
        if (error.violations().empty()) throw;
        problems.insert(problems.end(), error.violations().begin(), error.violations().end());
      }
    }
  }
  if (!problems.empty()) throw Error(problems);

  std::vector<const Finding*> findings;
  bool judged = false;
  for (const CalibratedTable& entry : tables) {
    judged = judged || entry.judgement.judged;
    for (const Finding& finding : entry.judgement.findings) findings.push_back(&finding);
  }
  const std::string verdict = !findings.empty() ? "unhealthy" : judged ? "healthy" : "none";
  const bool to_stdout = request.out == "-";
  if (!request.out.empty() && !tables.empty()) {
    const std::string json =
        calibration_fragment(tables, sources, hardware ? hardware->name : "", verdict).dump(2) + "\n";
    if (to_stdout)
      fmt::print("{}", json);
    else
      write_file(request.out, json);
  }

  std::FILE* human = to_stdout ? stderr : stdout;
  if (!tables.empty()) fmt::print(human, "{}", table_text(tables));
  for (const CalibratedTable& entry : tables)
    for (const std::string& note : entry.judgement.notes) fmt::print(human, "  note: {}\n", note);
  for (std::size_t i = 1; i < findings.size(); ++i)
    fmt::print(human, "  also: {}: {}\n", findings[i]->code, findings[i]->text);
  if (!findings.empty()) {
    fmt::print(human, "verdict: unhealthy: {}: {}\n", findings.front()->code, findings.front()->text);
    return kExitFail;
  }
  if (judged) {
    fmt::print(human, "verdict: healthy\n");
    return kExitPass;
  }
  fmt::print(human, "verdict: none: {}\n",
             tables.empty() ? "no rows to judge"
             : hardware     ? "the profile has no measurements of these collectives"
                            : "no profile to judge against; name one with --hardware (benchsuite hardware list)");
  return kExitNothing;
}

}  // namespace benchsuite
