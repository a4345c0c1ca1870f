#include <gtest/gtest.h>

#include "engine/core/rng.h"

namespace benchsuite {
namespace {

// Known-answer vectors that the Random123 library publishes for philox4x32-10 (its kat_vectors file).
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox(0, {0, 0, 0, 0}), (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox(0xffffffffffffffff, {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox(0x299f31d0a4093822, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}),
            (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, UniformCoversTheHalfOpenUnitInterval) {
  EXPECT_EQ(uniform_from(0), 0.0f);
  EXPECT_EQ(uniform_from(0x80000000u), 0.5f);
  EXPECT_EQ(uniform_from(0xffffffffu), 1.0f - 0x1p-24f);
  EXPECT_LT(uniform_from(0xffffffffu), 1.0f);
}

TEST(Philox, IsAConstantExpression) {
  constexpr PhiloxCounter words = philox(0, {0, 0, 0, 0});
  static_assert(words[0] == 0x6627e8d5);
}

}  // namespace
}  // namespace benchsuite
