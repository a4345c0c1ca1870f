// Byte-level tokenizer: token k is byte k of the text, k < 256. Any file is text to it, and nothing is lost.
//
// A model's vocabulary must have at least 256 entries; what it has beyond (and what padding adds) never appears.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace benchsuite {

inline constexpr std::int64_t kByteVocab = 256;

std::vector<std::int32_t> encode(std::string_view text);
/// Throws (internal) on a token that is no byte.
std::string decode(std::span<const std::int32_t> tokens);

}  // namespace benchsuite
