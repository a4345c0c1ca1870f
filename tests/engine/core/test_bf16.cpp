#include "engine/core/bf16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "engine/core/rng.h"

namespace benchsuite {
namespace {

TEST(Bf16, EveryValueSurvivesTheWayThere) {
  for (std::uint32_t bits = 0; bits <= 0xFFFFu; ++bits) {
    const float value = widen(static_cast<Bf16>(bits));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(widen(round_to_bf16(value))));
      EXPECT_EQ(std::signbit(widen(round_to_bf16(value))), std::signbit(value));
    } else {
      ASSERT_EQ(round_to_bf16(value), bits);
    }
  }
}

TEST(Bf16, EveryMidpointGoesToTheEvenNeighbour) {
  for (std::uint32_t bits = 0; bits < 0x7F7Fu; ++bits) {  // all positive finite values but the last
    const double low = widen(static_cast<Bf16>(bits)), high = widen(static_cast<Bf16>(bits + 1));
    const auto middle = static_cast<float>((low + high) / 2);  // exact: fp32 has 16 more bits
    const std::uint32_t even = bits % 2 == 0 ? bits : bits + 1;
    ASSERT_EQ(round_to_bf16(middle), even);
    ASSERT_EQ(round_to_bf16(-middle), even | 0x8000u);
    ASSERT_EQ(round_to_bf16(std::nextafter(middle, 0.0f)), bits);
    ASSERT_EQ(round_to_bf16(std::nextafter(middle, std::numeric_limits<float>::infinity())), bits + 1);
  }
}

TEST(Bf16, OverflowsToInfinityAndKeepsIt) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(widen(round_to_bf16(std::numeric_limits<float>::max())), infinity);
  EXPECT_EQ(widen(round_to_bf16(-std::numeric_limits<float>::max())), -infinity);
  EXPECT_EQ(widen(round_to_bf16(infinity)), infinity);
  // A NaN whose payload lies in the lower half only must not become infinity.
  EXPECT_TRUE(std::isnan(widen(round_to_bf16(std::bit_cast<float>(0x7F800001u)))));
}

TEST(Bf16, RelativeErrorIsAtMostTwoToTheMinusEighth) {
  // Eight significant bits: half a unit in the last place is 2^-8 of the leading one.
  for (std::uint32_t i = 0; i < 10000; ++i) {
    const float value = 1.0f + uniform_from(philox(1, {i, 0, 0, 0})[0]) * 100;
    EXPECT_LE(std::fabs(widen(round_to_bf16(value)) - value), value * 0x1p-8f);
  }
}

}  // namespace
}  // namespace benchsuite
