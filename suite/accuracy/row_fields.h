// Fields of a published row that are taken only in their own type: what isn't stops the mapping with its key and value, and
// never stands for a default.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/core/json_reader.h"

namespace benchsuite {

/// Stops the mapping of a row.
struct Unmapped {
  std::string reason;
};

/// The most that a count of a row can be: a product of three doesn't overflow.
inline constexpr std::int64_t kMostOfACount = std::int64_t{1} << 20;

/// `found` as a count, 1 to kMostOfACount. `dotted` names it. Throws Unmapped.
std::int64_t count_of(const std::string& dotted, const Json& found);
/// `found` as a flag; nullopt for null. Throws Unmapped.
std::optional<bool> flag_of(const std::string& dotted, const Json& found);

// A key of `object`, which the row calls `part`; nullopt where it is absent or null. Throw Unmapped.
std::optional<std::int64_t> count_in(const Json& object, const std::string& part, const char* key);
std::optional<double> number_in(const Json& object, const std::string& part, const char* key);
std::optional<std::string> text_in(const Json& object, const std::string& part, const char* key);

}  // namespace benchsuite
