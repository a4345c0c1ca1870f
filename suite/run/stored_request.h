// request.json: what a run was asked for, so that it can be finished after a crash or its failed cases run again.
#pragma once

#include <string>
#include <vector>

#include "suite/results/run.h"
#include "suite/run/verb_run.h"

namespace benchsuite {

inline constexpr int kRequestSchemaVersion = 1;

struct StoredRequest {
  Run frame;           ///< run_id, versions, device, argv, started, host, environment; no cases
  RunRequest request;  ///< selection, device, options and policy; where output goes and how it looks is not stored
  std::vector<std::pair<std::string, std::string>> cases;  ///< id and hash of what was selected, in order
};

Json to_json(const StoredRequest& stored);

/// Reads FOLDER/request.json and FOLDER/env.json. Throws Error (config) when there is no run to take up.
StoredRequest read_stored_request(const std::string& folder);

}  // namespace benchsuite
