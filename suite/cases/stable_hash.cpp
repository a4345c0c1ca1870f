#include "suite/cases/stable_hash.h"

#include <fmt/format.h>

#include "engine/core/fnv1a.h"

namespace benchsuite {

std::string stable_hash(const Json& json) {
  const nlohmann::json sorted = json;  // std::map objects: keys in order
  return fmt::format("fnv1a64:{:016x}", fnv1a64(sorted.dump()));
}

}  // namespace benchsuite
