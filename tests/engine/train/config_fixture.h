// A valid configuration, and what validate says of a changed one.
#pragma once

#include <string>
#include <vector>

#include "engine/train/config.h"

namespace benchsuite {

/// GPT-13B on 16 ranks: valid.
TrainConfig good();

using Change = void (*)(TrainConfig&);

/// The violations of good() after `change`, as they are printed for file c.json.
std::vector<std::string> lines(Change change);
/// Their keys; expects that each names file, value, problem and remedy.
std::vector<std::string> keys(Change change);

}  // namespace benchsuite
