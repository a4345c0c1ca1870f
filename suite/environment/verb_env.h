// env: the environment as a run records it, or against that of another run.
#pragma once

#include <string>

namespace benchsuite {

struct EnvRequest {
  bool json = false;
  std::string other;  ///< folder of a run, result.json or env.json to hold this environment against
};
/// 1 when `other` is given and differs.
int verb_env(const EnvRequest& request);

}  // namespace benchsuite
