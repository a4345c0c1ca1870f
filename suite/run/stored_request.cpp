#include "suite/run/stored_request.h"

#include <filesystem>

#include "suite/environment/redaction.h"

namespace benchsuite {

namespace fs = std::filesystem;

namespace {

Json absolute(const std::vector<std::string>& files) {
  Json list = Json::array();
  for (const std::string& file : redact_arguments(files))
    list.push_back(fs::absolute(file).lexically_normal().string());
  return list;
}

Json to_json(const RunRequest& request) {
  const Selection& selection = request.selection;
  const RunOptions& options = request.options;
  return {{"names", redact_arguments(selection.names)},
          {"files", absolute(selection.files)},
          {"tags", redact_arguments(selection.tags)},
          {"sets", redact_arguments(selection.sets)},
          {"exclude", redact_arguments(selection.exclude)},
          {"variants", redact_arguments(selection.variants)},
          {"only", redact_arguments(selection.only)},
          {"device", name_of(options.device)},
          {"verify", options.verify},
          {"trace", request.trace},
          {"timeout_s", options.timeout_s},
          {"repeat", options.repeat},
          {"drop_recomputed_collectives", options.injection.drop_recomputed_collectives},
          {"delay_s", options.injection.delay_s},
          {"fail_on", request.fail_on},
          {"maxfail", request.maxfail},
          {"strict", request.strict},
          {"require_reference", request.require_reference}};
}

void read_request(ObjectReader& reader, RunRequest& request) {
  Selection& selection = request.selection;
  RunOptions& options = request.options;
  reader.required("names", selection.names);
  reader.required("files", selection.files);
  reader.required("tags", selection.tags);
  reader.required("sets", selection.sets);
  reader.required("exclude", selection.exclude);
  reader.required("variants", selection.variants);
  reader.required("only", selection.only);
  reader.choice("device", options.device, {{"sim", Device::sim}, {"cpu", Device::cpu}, {"cuda", Device::cuda}}, true);
  reader.required("verify", options.verify);
  reader.required("trace", request.trace);
  reader.required("timeout_s", options.timeout_s);
  reader.required("repeat", options.repeat);
  reader.required("drop_recomputed_collectives", options.injection.drop_recomputed_collectives);
  reader.required("delay_s", options.injection.delay_s);
  reader.required("fail_on", request.fail_on);
  reader.required("maxfail", request.maxfail);
  reader.required("strict", request.strict);
  reader.required("require_reference", request.require_reference);
  reader.finish();
}

}  // namespace

Json to_json(const StoredRequest& stored) {
  Json cases = Json::array();
  for (const auto& [id, hash] : stored.cases) cases.push_back({{"id", id}, {"case_hash", hash}});
  return {{"schema_version", kRequestSchemaVersion},
          {"run_id", stored.frame.run_id},
          {"suite_version", stored.frame.suite_version},
          {"engine_commit", stored.frame.engine_commit},
          {"started", stored.frame.started},
          {"host", stored.frame.host},
          {"argv", stored.frame.argv},
          {"request", to_json(stored.request)},
          {"cases", cases}};
}

StoredRequest read_stored_request(const std::string& folder) {
  const std::string file = folder + "/request.json";
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored)) {
    throw Error({Violation{"command line", "RUN", folder, "there is no request.json, so no run to take up",
                           "name the folder of a run (results/...); one that never began is started again"}});
  }
  std::vector<Violation> problems;
  StoredRequest stored;
  const Json json = parse_json_file(file);
  ObjectReader reader(json, file, "", problems);
  int version = 0;
  reader.required("schema_version", version);
  if (problems.empty() && version != kRequestSchemaVersion) {
    reader.problem("schema_version", "this build reads version " + std::to_string(kRequestSchemaVersion),
                   "finish the run with the build that began it");
  }
  reader.required("run_id", stored.frame.run_id);
  reader.required("suite_version", stored.frame.suite_version);
  reader.required("engine_commit", stored.frame.engine_commit);
  reader.required("started", stored.frame.started);
  reader.required("host", stored.frame.host);
  reader.required("argv", stored.frame.argv);
  if (const Json* request = reader.raw("request", true)) {
    ObjectReader inner(*request, file, "request", problems);
    read_request(inner, stored.request);
  }
  if (const Json* cases = reader.raw("cases", true)) {
    for (std::size_t i = 0; cases->is_array() && i < cases->size(); ++i) {
      ObjectReader entry(cases->at(i), file, "cases[" + std::to_string(i) + "]", problems);
      auto& [id, hash] = stored.cases.emplace_back();
      entry.required("id", id);
      entry.required("case_hash", hash);
      entry.finish();
    }
  }
  reader.finish();
  if (!problems.empty()) throw Error(problems);
  stored.frame.device = name_of(stored.request.options.device);
  if (fs::is_regular_file(folder + "/env.json", ignored))
    stored.frame.environment = parse_json_file(folder + "/env.json");
  return stored;
}

}  // namespace benchsuite
