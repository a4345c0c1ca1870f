// A stable fingerprint of what changes performance: FNV-1a, 64 bit, over the canonical JSON text (keys sorted, no
// spaces).
//
// It tells configurations apart and is no protection against a forger.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/core/json_reader.h"

namespace benchsuite {

/// Fowler, Noll and Vo's FNV-1a with the 64-bit offset basis and prime.
constexpr std::uint64_t fnv1a64(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325ull;
  for (const char letter : text) {
    hash ^= static_cast<unsigned char>(letter);
    hash *= 0x100000001b3ull;
  }
  return hash;
}

/// "fnv1a64:" and 16 hexadecimal digits of the canonical text of `json`. The order of keys does not matter.
std::string stable_hash(const Json& json);

}  // namespace benchsuite
