// list and show: what there is, and what a case means with everything spelled out.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>

#include "suite/cases/suite_file.h"
#include "suite/cli/verbs.h"
#include "suite/expectations/verdict.h"
#include "suite/results/outcome.h"

namespace benchsuite {

namespace {

/// Dotted leaves of a configuration with their values as JSON text.
void flatten(const Json& json, const std::string& prefix, std::vector<std::pair<std::string, std::string>>& out) {
  if (!json.is_object()) {
    out.emplace_back(prefix, json.dump());
    return;
  }
  for (const auto& [key, value] : json.items()) flatten(value, prefix.empty() ? key : prefix + "." + key, out);
}

/// Everything but the hardware profile, whose many constants `show --json` prints.
std::vector<std::pair<std::string, std::string>> settings(const ResolvedVariant& variant) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const char* part : {"model", "layout", "stack"}) flatten(variant.resolved.at(part), part, out);
  out.emplace_back("hardware", Json(variant.hardware_name).dump());
  return out;
}

std::string bounds(const Expectation& expectation) {
  const auto side = [](const std::optional<double>& value) {
    return value ? fmt::format("{:g}", *value) : std::string("open");
  };
  const auto pair = [&](const Interval& interval) {
    return fmt::format("[{}, {}]", side(interval.low), side(interval.high));
  };
  if (expectation.kind == ExpectationKind::claim) {
    return expectation.target ? fmt::format("claimed {:g} {}", *expectation.target, expectation.unit) : "claimed";
  }
  if (expectation.equals)
    return fmt::format("equals {} (relative {:g})", to_string(*expectation.equals), expectation.tolerance);
  std::string text = expectation.pass ? "pass " + pair(*expectation.pass) : "";
  if (expectation.warn) text += ", warn " + pair(*expectation.warn);
  return text + " " + expectation.unit;
}

Json to_json(const Expectation& expectation) {
  return {{"id", expectation.id},
          {"title", expectation.title},
          {"kind", name_of(expectation.kind)},
          {"metric", expectation.metric ? to_string(*expectation.metric) : ""},
          {"bounds", bounds(expectation)},
          {"source", expectation.provenance()},
          {"explanation", expectation.explanation}};
}

void print_case(const SelectedCase& selected) {
  const ResolvedCase& resolved = selected.resolved;
  fmt::print("{}: {}\n", resolved.source.id, resolved.source.title);
  fmt::print("tags {}  hash {}\n", fmt::join(resolved.source.tags, ", "), resolved.hash);
  for (const CaseReference& reference : resolved.source.refs) {
    fmt::print("ref  {}: {}{}{}\n", reference.kind, reference.cite, reference.where.empty() ? "" : ", ",
               reference.where);
  }

  // What all variants share is printed once; each variant prints the rest.
  std::map<std::string, std::size_t> holders;  // key=value -> how many variants have it
  for (const ResolvedVariant& variant : resolved.variants) {
    for (const auto& [key, value] : settings(variant)) ++holders[key + " = " + value];
  }
  const std::size_t count = resolved.variants.size();
  fmt::print("\nall variants\n");
  for (const auto& [key, value] : settings(resolved.variants.front())) {
    if (holders[key + " = " + value] == count) fmt::print("  {} = {}\n", key, value);
  }
  for (const ResolvedVariant& variant : resolved.variants) {
    fmt::print("\n{}: {}\n", variant.id, variant.title);
    for (const auto& [key, value] : settings(variant)) {
      if (holders[key + " = " + value] != count) fmt::print("  {} = {}\n", key, value);
    }
    const Layout& layout = variant.config.layout;
    fmt::print("  -> {} GPUs, {} micro-batches\n", layout.world(), layout.micro_batches());
    for (const std::string& note : notes(variant.config)) fmt::print("  note: {}\n", note);
  }
  fmt::print("\nhardware\n");
  std::map<std::string, std::string> profiles;
  for (const ResolvedVariant& variant : resolved.variants) profiles[variant.hardware_name] = variant.hardware->title;
  for (const auto& [name, title] : profiles) fmt::print("  {}: {}\n", name, title);

  if (!selected.expected) {
    fmt::print("\nno expectations\n");
    return;
  }
  fmt::print("\nexpectations ({})\n", selected.expected->file);
  if (!selected.as_written) {
    fmt::print("  the configuration is not the case as written: only bounds apply\n");
  }
  for (const Expectation& expectation : selected.expected->expectations) {
    fmt::print("  {} {}: {}\n", name_of(expectation.kind), expectation.id, bounds(expectation));
    if (expectation.metric) fmt::print("      of {}\n", to_string(*expectation.metric));
    fmt::print("      source: {}\n", expectation.provenance());
    if (!expectation.explanation.empty()) fmt::print("      {}\n", expectation.explanation);
  }
}

}  // namespace

namespace {

int list_suites(const DataRoot& root, bool json) {
  Json list = Json::array();
  for (const std::string& name : root.names(DataKind::suite)) {
    const SuiteFile suite = load_suite(name, root);
    std::vector<Violation> problems;
    const std::vector<std::string> cases = cases_of(suite, root, problems);
    if (!problems.empty()) throw Error(problems);
    list.push_back({{"id", suite.id}, {"title", suite.title}, {"cases", cases}});
    if (!json) fmt::print("{}  {}  [{}]\n", suite.id, suite.title, fmt::join(cases, ", "));
  }
  if (json) fmt::print("{}\n", list.dump(2));
  return list.empty() ? kExitNothing : kExitPass;
}

}  // namespace

int verb_list(const ListRequest& request) {
  const DataRoot root = DataRoot::find();
  if (request.suites) return list_suites(root, request.json);
  Json list = Json::array();
  int code = kExitPass;
  for (const std::string& name : root.names(DataKind::cases)) {
    Selection selection;
    selection.names = {name};
    std::vector<Violation> problems;
    const std::vector<SelectedCase> found = select_cases(selection, root, problems);
    if (!problems.empty() || found.empty()) {  // one bad file must not hide the others
      fmt::print(
          stderr, "benchsuite: case {} is not valid: {}{}\n", name, to_string(problems.front()),
          problems.size() > 1 ? fmt::format(" (and {} more; see benchsuite validate)", problems.size() - 1) : "");
      code = kExitUsage;
      continue;
    }
    const ResolvedCase& resolved = found.front().resolved;
    const auto& tags = resolved.source.tags;
    const bool tagged =
        request.tags.empty() || std::any_of(request.tags.begin(), request.tags.end(), [&](const std::string& tag) {
          return std::find(tags.begin(), tags.end(), tag) != tags.end();
        });
    if (!tagged) continue;
    std::int64_t gpus = 0;
    Json variants = Json::array();
    for (const ResolvedVariant& variant : resolved.variants) {
      gpus = std::max(gpus, variant.config.layout.world());
      variants.push_back({{"id", variant.id}, {"title", variant.title}, {"hardware", variant.hardware_name}});
    }
    list.push_back({{"id", resolved.source.id},
                    {"title", resolved.source.title},
                    {"tags", tags},
                    {"gpus", gpus},
                    {"devices", Json::array({"sim"})},
                    {"hash", resolved.hash},
                    {"variants", variants},
                    {"expectations", found.front().expected ? found.front().expected->expectations.size() : 0}});
  }
  if (request.json) {
    fmt::print("{}\n", list.dump(2));
    return code;
  }
  for (const Json& entry : list) {
    fmt::print("{}  {}  [{} variants, {} GPUs simulated, {} expectations]  tags: {}\n", entry["id"].get<std::string>(),
               entry["title"].get<std::string>(), entry["variants"].size(), entry["gpus"].get<std::int64_t>(),
               entry["expectations"].get<std::int64_t>(),
               fmt::join(entry["tags"].get<std::vector<std::string>>(), ", "));
    if (!request.details) continue;
    for (const Json& variant : entry["variants"]) {
      fmt::print("    {}  {}  on {}\n", variant["id"].get<std::string>(), variant["title"].get<std::string>(),
                 variant["hardware"].get<std::string>());
    }
  }
  if (list.empty()) {
    fmt::print(stderr, "benchsuite: no case matches\n");
    return worse_exit(code, kExitNothing);
  }
  return code;
}

int verb_show(const ShowRequest& request) {
  const DataRoot root = DataRoot::find();
  std::vector<Violation> problems;
  const std::vector<SelectedCase> selected = select_cases(request.selection, root, problems);
  if (!problems.empty()) throw Error(problems);
  if (selected.empty()) {
    fmt::print(stderr, "benchsuite: no case matches; benchsuite list shows all\n");
    return kExitNothing;
  }
  Json all = Json::array();
  for (const SelectedCase& entry : selected) {
    if (!request.json) {
      print_case(entry);
      continue;
    }
    Json one = entry.resolved.resolved;
    one["method_note"] = entry.resolved.method_note;
    one["expectations"] = Json::array();
    if (entry.expected) {
      for (const Expectation& expectation : entry.expected->expectations)
        one["expectations"].push_back(to_json(expectation));
    }
    all.push_back(std::move(one));
  }
  if (request.json) fmt::print("{}\n", (all.size() == 1 ? all[0] : all).dump(2));
  return kExitPass;
}

}  // namespace benchsuite
