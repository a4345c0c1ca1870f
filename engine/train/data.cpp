#include "engine/train/data.h"

#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <iterator>

#include "engine/core/error.h"
#include "engine/core/fnv1a.h"
#include "engine/core/rng.h"
#include "engine/train/tokenizer.h"

namespace benchsuite {

std::int64_t permuted(std::int64_t index, std::int64_t count, std::uint64_t seed, std::uint32_t key) {
  CHECK(index >= 0 && index < count) << index << " of " << count;
  int half = 1;  // bits of each half of the block
  while ((std::int64_t{1} << (2 * half)) < count) ++half;
  const std::uint32_t mask = (1u << half) - 1;
  constexpr std::uint32_t kOrderStream = 0x6F726465u;
  std::int64_t at = index;
  do {
    auto left = static_cast<std::uint32_t>(at >> half), right = static_cast<std::uint32_t>(at) & mask;
    for (std::uint32_t round = 0; round < 4; ++round) {
      const std::uint32_t mixed = left ^ (philox(seed, {right, round, key, kOrderStream})[0] & mask);
      left = right;
      right = mixed;
    }
    at = (static_cast<std::int64_t>(left) << half) | right;
  } while (at >= count);  // ends: a permutation of the block leads back to where the index came from
  return at;
}

TextData::TextData(std::string_view text, std::int64_t seq, std::int64_t global_batch, std::uint64_t seed, bool shuffle,
                   const std::string& file)
    : seq_(seq), seed_(seed), shuffle_(shuffle) {
  CHECK(seq > 0 && global_batch > 0) << "windows of " << seq << " tokens, batches of " << global_batch;
  const auto length = static_cast<std::int64_t>(text.size());
  windows_ = length > 0 ? (length - 1) / seq : 0;
  samples_ = windows_ / global_batch * global_batch;
  if (samples_ == 0) {
    throw Error({Violation{file, "data.path", fmt::format("{} bytes in use", length),
                           fmt::format("too short: a global batch of {} samples of {} tokens needs {} bytes", global_batch,
                                       seq, global_batch * seq + 1),
                           "use a longer text, a larger part of it, or a smaller layout.global_batch"}});
  }
  tokens_.assign(text.begin(), text.end());
}

TextData TextData::read(const DataConfig& config, std::int64_t seq, std::int64_t global_batch, std::uint64_t seed,
                        const std::string& file) {
  std::ifstream source(config.path, std::ios::binary);
  std::string text;
  if (source) text.assign(std::istreambuf_iterator<char>(source), {});
  if (!source || source.bad()) {
    throw Error({Violation{file, "data.path", config.path, "the text can't be read", "check the path and its permissions"}});
  }
  const auto at = [&](double fraction) {
    return static_cast<std::size_t>(std::llround(fraction * static_cast<double>(text.size())));
  };
  const std::string_view part = std::string_view(text).substr(at(config.first), at(config.last) - at(config.first));
  return TextData(part, seq, global_batch, seed, config.shuffle, file);
}

std::uint64_t TextData::checksum() const {
  return fnv1a64(std::as_bytes(std::span(tokens_)));
}

std::int64_t TextData::window_of(std::int64_t sample) const {
  const std::int64_t epoch = sample / samples_, place = sample % samples_;
  // All windows take part in the order, so that each epoch drops others.
  return shuffle_ ? permuted(place, windows_, seed_, static_cast<std::uint32_t>(epoch)) : place;
}

void TextData::fill(std::int64_t sample, std::span<std::int32_t> tokens) const {
  CHECK(tokens.size() == static_cast<std::size_t>(seq_ + 1)) << tokens.size() << " tokens for windows of " << seq_;
  const std::int64_t first = window_of(sample) * seq_;
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = tokens_[static_cast<std::size_t>(first) + i];
}

}  // namespace benchsuite
