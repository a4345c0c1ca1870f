// env: what results record of this machine and environment.
#include <fmt/format.h>

#include <filesystem>

#include "suite/environment/environment.h"
#include "suite/environment/verb_env.h"
#include "suite/results/outcome.h"

namespace benchsuite {

namespace {

/// The environment in a run's folder, in a result.json or in an env.json.
Json environment_of(const std::string& given) {
  std::string file = given;
  if (std::filesystem::is_directory(given)) {
    file = given + "/env.json";
    if (!std::filesystem::is_regular_file(file)) file = given + "/result.json";
  }
  if (!std::filesystem::is_regular_file(file)) {
    throw Error({Violation{"command line", "--diff", given, "there is no environment",
                           "name a run, a result.json or an env.json"}});
  }
  Json json = parse_json_file(file);
  if (json.is_object() && json.contains("run_id")) json = json.value("environment", Json());
  if (!json.is_object()) {
    throw Error({Violation{"command line", "--diff", given, "it has no environment", "name a run that captured one"}});
  }
  return json;
}

}  // namespace

int verb_env(const EnvRequest& request) {
  const Json environment = capture_environment();
  if (request.other.empty()) {
    if (request.json) {
      fmt::print("{}\n", environment.dump(2));
    } else {
      for (const auto& [name, value] : environment.items()) {
        fmt::print("{:<34} {}\n", name, value.is_string() ? value.get<std::string>() : value.dump());
      }
    }
    return kExitPass;
  }
  const std::vector<std::string> lines = environment_difference(environment_of(request.other), environment);
  if (request.json) {
    fmt::print("{}\n", Json(lines).dump(2));
  } else {
    for (const std::string& line : lines) fmt::print("{}\n", line);
    fmt::print("benchsuite: {} fact{} differ{} from {}\n", lines.size(), lines.size() == 1 ? "" : "s",
               lines.size() == 1 ? "s" : "", request.other);
  }
  return lines.empty() ? kExitPass : kExitFail;
}

}  // namespace benchsuite
