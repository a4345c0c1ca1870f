// Samples from text: each window once an epoch, the same for everyone, remainders told.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "engine/core/error.h"
#include "engine/train/data.h"
#include "engine/train/tokenizer.h"

namespace benchsuite {
namespace {

TEST(Tokenizer, BytesSurviveTheRoundTrip) {
  std::string every(256, ' ');
  std::iota(every.begin(), every.end(), '\0');
  const std::vector<std::int32_t> tokens = encode(every);
  EXPECT_EQ(tokens.front(), 0);
  EXPECT_EQ(tokens.back(), 255);
  EXPECT_EQ(decode(tokens), every);
  EXPECT_THROW(decode(std::vector<std::int32_t>{256}), Error);
}

TEST(Permutation, ReachesEveryPlaceOnce) {
  for (const std::int64_t count : {1, 2, 3, 16, 17, 1000}) {
    for (const std::uint32_t key : {0u, 1u}) {
      std::set<std::int64_t> seen;
      for (std::int64_t i = 0; i < count; ++i) seen.insert(permuted(i, count, 7, key));
      EXPECT_EQ(seen.size(), static_cast<std::size_t>(count));
      EXPECT_EQ(*seen.begin(), 0);
      EXPECT_EQ(*seen.rbegin(), count - 1);
    }
  }
}

/// 1003 letters: with s = 10, 100 windows and 2 tokens over; with batches of 8, 96 samples and 4 windows over.
std::string text() {
  std::string letters(1003, ' ');
  for (std::size_t i = 0; i < letters.size(); ++i) letters[i] = static_cast<char>(i * 37 % 251);
  return letters;
}

TEST(TextData, TellsWhatItDrops) {
  const TextData data(text(), 10, 8, 1, true);
  EXPECT_EQ(data.samples_per_epoch(), 96);
  EXPECT_EQ(data.dropped_windows(), 4);
  EXPECT_EQ(data.dropped_tokens(), 2);
}

TEST(TextData, ASampleIsAWindowAndTheNextToken) {
  const std::string letters = text();
  const TextData data(letters, 10, 8, 1, false);
  std::vector<std::int32_t> tokens(11);
  data.fill(97, tokens);  // second epoch, window 1
  for (std::size_t i = 0; i < tokens.size(); ++i) EXPECT_EQ(tokens[i], static_cast<unsigned char>(letters[10 + i]));
}

TEST(TextData, EachEpochHasItsOwnOrderAndNoWindowTwice) {
  const TextData data(text(), 10, 8, 1, true), again(text(), 10, 8, 1, true), other(text(), 10, 8, 2, true);
  std::vector<std::vector<std::int64_t>> epochs(2);
  int differs = 0;
  for (std::int64_t sample = 0; sample < 2 * 96; ++sample) {
    epochs[static_cast<std::size_t>(sample / 96)].push_back(data.window_of(sample));
    EXPECT_EQ(data.window_of(sample), again.window_of(sample));
    differs += data.window_of(sample) != other.window_of(sample) ? 1 : 0;
  }
  EXPECT_GT(differs, 96) << "the seed chooses the order";
  EXPECT_NE(epochs[0], epochs[1]);
  for (const auto& epoch : epochs) {
    EXPECT_EQ(std::set<std::int64_t>(epoch.begin(), epoch.end()).size(), 96u);
    EXPECT_FALSE(std::is_sorted(epoch.begin(), epoch.end()));
  }
}

TEST(TextData, TooShortATextSaysHowMuchIsNeeded) {
  try {
    const TextData data(text().substr(0, 80), 10, 8, 1, true);
    FAIL() << "80 bytes are 7 windows";
  } catch (const Error& error) {
    ASSERT_EQ(error.violations().size(), 1u);
    EXPECT_EQ(error.violations()[0].key, "data.path");
    EXPECT_NE(error.violations()[0].problem.find("needs 81 bytes"), std::string::npos) << error.what();
  }
  EXPECT_EQ(TextData(text().substr(0, 81), 10, 8, 1, true).samples_per_epoch(), 8);
}

}  // namespace
}  // namespace benchsuite
