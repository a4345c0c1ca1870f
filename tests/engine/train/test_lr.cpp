// Warm-up and cosine at the points where their formulas give plain numbers.
#include <gtest/gtest.h>

#include "engine/train/lr.h"

namespace benchsuite {
namespace {

constexpr double kRounding = 1e-15;  // a few roundings of doubles of order 1e-3

TEST(LearningRate, RisesFromZeroAndFallsAlongACosine) {
  const LearningRate rate{.peak = 1e-3, .minimum = 1e-4, .warmup = 10, .decay_steps = 110};
  EXPECT_EQ(rate.at(0), 0.0);
  EXPECT_NEAR(rate.at(1), 1e-4, kRounding);
  EXPECT_NEAR(rate.at(5), 5e-4, kRounding);
  EXPECT_EQ(rate.at(10), 1e-3);
  EXPECT_NEAR(rate.at(60), (1e-3 + 1e-4) / 2, kRounding);         // cos(pi/2) = 0
  EXPECT_NEAR(rate.at(35), 1e-4 + 9e-4 * (1 + 0.70710678118654752) / 2, kRounding);  // cos(pi/4)
  EXPECT_EQ(rate.at(110), 1e-4);
  EXPECT_EQ(rate.at(1000), 1e-4);
}

TEST(LearningRate, WithoutWarmUpStartsAtThePeakAndConstantStaysThere) {
  EXPECT_EQ((LearningRate{.peak = 2e-3, .warmup = 0, .decay_steps = 10}).at(0), 2e-3);
  const LearningRate constant{.peak = 2e-3, .warmup = 4, .decay = Decay::constant};
  EXPECT_NEAR(constant.at(1), 5e-4, kRounding);
  EXPECT_EQ(constant.at(1000), 2e-3);
}

}  // namespace
}  // namespace benchsuite
