#include "engine/train/tokenizer.h"

#include "engine/core/error.h"

namespace benchsuite {

std::vector<std::int32_t> encode(std::string_view text) {
  std::vector<std::int32_t> tokens;
  tokens.reserve(text.size());
  for (const char letter : text) tokens.push_back(static_cast<unsigned char>(letter));
  return tokens;
}

std::string decode(std::span<const std::int32_t> tokens) {
  std::string text;
  text.reserve(tokens.size());
  for (const std::int32_t token : tokens) {
    CHECK(token >= 0 && token < kByteVocab) << "token " << token << " is no byte";
    text.push_back(static_cast<char>(token));
  }
  return text;
}

}  // namespace benchsuite
