// A stable fingerprint of what changes performance: FNV-1a (engine/core/fnv1a.h) over the canonical JSON text (keys sorted, no
// spaces).
#pragma once

#include <string>

#include "engine/core/json_reader.h"

namespace benchsuite {

/// "fnv1a64:" and 16 hexadecimal digits of the canonical text of `json`. The order of keys does not matter.
std::string stable_hash(const Json& json);

}  // namespace benchsuite
