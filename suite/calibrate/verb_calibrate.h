// calibrate: measured collectives of a cluster held against its profile. Exit codes as in suite/results/outcome.h.
#pragma once

#include <string>
#include <vector>

namespace benchsuite {

struct CalibrateRequest {
  std::vector<std::string> files;
  std::string from = "nccl-tests", hardware, op, out;
  int ranks = 0, nodes = 0;
};
int verb_calibrate(const CalibrateRequest& request);

}  // namespace benchsuite
