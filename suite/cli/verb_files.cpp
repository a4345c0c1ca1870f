// report and validate: work on files, run nothing.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "suite/calibrate/fragment.h"
#include "suite/accuracy/source_rules.h"
#include "suite/cases/suite_file.h"
#include "suite/cli/verbs.h"
#include "suite/report/consistency.h"
#include "suite/report/console.h"
#include "suite/report/renderings.h"
#include "suite/report/result_json.h"
#include "suite/results/outcome.h"
#include "suite/results/run_files.h"
#include "suite/train/training_file.h"

namespace benchsuite {

namespace fs = std::filesystem;

namespace {

enum class FileKind : std::uint8_t {
  case_file, expected, model, stack, hardware, fragment, result, suite, train, unknown
};

/// Told by the key only that kind has.
FileKind kind_of(const Json& json) {
  if (!json.is_object()) return FileKind::unknown;
  if (json.contains("variants") && json.contains("layout")) return FileKind::case_file;
  if (is_fragment(json)) return FileKind::fragment;
  if (json.contains("expectations")) return FileKind::expected;
  if (json.contains("select")) return FileKind::suite;
  if (json.contains("steps") && (json.contains("optimizer") || json.contains("data"))) return FileKind::train;
  if (json.contains("run_id")) return FileKind::result;
  if (json.contains("fused_bias_gelu")) return FileKind::stack;
  if (json.contains("gpu") || json.contains("based_on")) return FileKind::hardware;
  if (json.contains("layers")) return FileKind::model;
  return FileKind::unknown;
}

const char* word_of(FileKind kind) {
  switch (kind) {
    case FileKind::case_file:
      return "case";
    case FileKind::expected:
      return "expectations";
    case FileKind::model:
      return "model";
    case FileKind::stack:
      return "stack";
    case FileKind::hardware:
      return "hardware profile";
    case FileKind::fragment:
      return "hardware fragment";
    case FileKind::result:
      return "result";
    case FileKind::suite:
      return "suite";
    case FileKind::train:
      return "training configuration";
    case FileKind::unknown:
      break;
  }
  return "file";
}

void validate_case(const Json& json, const std::string& file, const DataRoot& root, std::vector<Violation>& problems) {
  const CaseFile source = read_case(json, file, problems);
  if (!problems.empty()) return;
  resolve_case(source, {}, root, problems);
}

/// Expectations are also held against the case they are for, when the root has it.
void validate_expected(const Json& json, const std::string& file, const DataRoot& root,
                       std::vector<Violation>& problems) {
  const ExpectedFile expected = read_expected(json, file, problems);
  const std::string case_file = root.file_of(DataKind::cases, expected.case_id);
  if (expected.case_id.empty()) return;
  if (!fs::is_regular_file(case_file)) {
    problems.push_back(
        {file, "case", expected.case_id, "there is no such case", "name a file of cases/, without .json"});
    return;
  }
  std::vector<Violation> ignored;  // the case has its own line
  std::vector<std::string> variants;
  for (const VariantSpec& variant : read_case(parse_json_file(case_file), case_file, ignored).variants)
    variants.push_back(variant.id);
  check_variants(expected, variants, problems);
}

/// Returns the kind of the file; problems say what is wrong with it.
FileKind validate_file(const std::string& file, const DataRoot& root, std::vector<Violation>& problems) {
  Json json;
  try {
    json = parse_json_file(file);
  } catch (const Error& error) {
    if (error.kind() == Error::Kind::config)
      problems = error.violations();
    else
      problems.push_back({file, "", "", "can't be read", "check the path and its permissions"});
    return FileKind::unknown;
  }
  const FileKind kind = kind_of(json);
  try {
    switch (kind) {
      case FileKind::case_file:
        validate_case(json, file, root, problems);
        break;
      case FileKind::expected:
        validate_expected(json, file, root, problems);
        break;
      case FileKind::model:
        read_model(json, file, "", problems);
        break;
      case FileKind::stack:
        read_stack(json, file, "", problems);
        if (json.contains("alternatives")) read_unstated_settings(json["alternatives"], file, "alternatives", problems);
        break;
      case FileKind::hardware:
        read_hardware(json, file, problems);
        break;
      case FileKind::fragment:
        read_fragment(json, file, problems);
        break;
      case FileKind::result:
        problems = contradictions(run_from_json(json, file), file);
        break;
      case FileKind::suite: {
        const SuiteFile suite = read_suite(json, file, problems);
        if (problems.empty()) cases_of(suite, root, problems);
        break;
      }
      case FileKind::train:
        read_training_file(json, file, root, problems);
        break;
      case FileKind::unknown:
        problems.push_back({file, "", "", "not a file benchsuite knows",
                            "cases, suites, training configurations, expectations, models, stacks, hardware profiles, "
                            "fragments and results can be validated"});
    }
  } catch (const Error& error) {
    if (error.violations().empty()) throw;
    problems.insert(problems.end(), error.violations().begin(), error.violations().end());
  }
  return kind;
}

std::string render(const Run& run, const std::string& format, const std::string& folder, bool colour) {
  if (const Rendering* rendering = find_rendering(format)) return rendering->text(run);
  std::string text;
  for (const CaseResult& result : run.cases) text += console_case(result, colour);
  return text + console_summary(run, folder) + "\n";
}

}  // namespace

int verb_report(const ReportRequest& request) {
  std::vector<Run> runs;
  for (const std::string& given : request.results) {
    runs.push_back(load_result(given));
  }
  const std::vector<std::string> formats =
      request.formats.empty() ? std::vector<std::string>{"console"} : request.formats;
  std::error_code failure;
  if (!request.out.empty()) fs::create_directories(request.out, failure);
  if (failure) {
    throw Error({Violation{"command line", "--out", request.out, "the folder can't be made: " + failure.message(),
                           "choose a folder you may write to"}});
  }
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const std::string folder = fs::path(result_file(request.results[i])).parent_path().string();
    for (const std::string& format : formats) {
      if (request.out.empty()) {
        const std::string text = render(runs[i], format, folder, wants_colour(request.no_color, STDOUT_FILENO));
        std::fwrite(text.data(), 1, text.size(), stdout);
        continue;
      }
      std::string name = format == "junit" ? "junit.xml" : "report." + (format == "console" ? "txt" : format);
      if (runs.size() > 1) name.insert(name.rfind('.'), "-" + runs[i].run_id);
      const std::string path = request.out + "/" + name;
      write_file(path, render(runs[i], format, folder, false));
      fmt::print("{}\n", path);
    }
  }
  return kExitPass;
}

int verb_validate(const ValidateRequest& request) {
  const DataRoot root = DataRoot::find();
  std::vector<std::string> files = request.files;
  if (files.empty()) {
    for (const DataKind kind :
         {DataKind::model, DataKind::stack, DataKind::hardware, DataKind::cases, DataKind::expected,
          DataKind::suite}) {
      for (const std::string& name : root.names(kind)) files.push_back(root.file_of(kind, name));
    }
    for (const std::string& file : training_files(root)) files.push_back(file);
  }
  std::size_t bad = 0;
  for (const std::string& file : files) {
    std::vector<Violation> problems;
    const FileKind kind = validate_file(file, root, problems);
    if (problems.empty()) {
      fmt::print("ok    {} ({})\n", root.shorten(file), word_of(kind));
      continue;
    }
    ++bad;
    fmt::print("BAD   {} ({}): {} problem{}\n", root.shorten(file), word_of(kind), problems.size(),
               problems.size() == 1 ? "" : "s");
    for (const Violation& problem : problems) fmt::print("      {}\n", to_string(problem));
  }
  fmt::print("benchsuite: {} file{} checked, {} bad\n", files.size(), files.size() == 1 ? "" : "s", bad);
  if (files.empty()) return kExitNothing;
  return bad > 0 ? kExitUsage : kExitPass;
}

}  // namespace benchsuite
