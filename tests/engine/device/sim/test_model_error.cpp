#include "engine/device/sim/model_error.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace benchsuite {
namespace {

TEST(ModelError, QuantilesAreThoseStated) {
  const ModelError error{0.03, 0.12};
  EXPECT_DOUBLE_EQ(error.at(0), 0);
  EXPECT_DOUBLE_EQ(error.at(0.5), 0.03);
  EXPECT_DOUBLE_EQ(error.at(0.9), 0.12);
  EXPECT_NEAR(error.at(1), 0.12 + 0.1 * (0.12 - 0.03) / 0.4, 1e-15);  // the line from 0.5 to 0.9 goes on
}

TEST(ModelError, WhatASizeSharesIsAnErrorOfItsOwn) {
  const ModelError shared = of_size({.median = 0.03, .p90 = 0.12, .size_median = 0.01, .size_p90 = 0.04});
  EXPECT_DOUBLE_EQ(shared.at(0.5), 0.01);
  EXPECT_DOUBLE_EQ(shared.at(0.9), 0.04);
  EXPECT_EQ(drawn_factor(of_size({.median = 0.03, .p90 = 0.12}), {1, 7}, {1, 512, 4096}), 1) << "nothing shared";
}

TEST(ModelError, DrawnFactorsHaveTheirDistribution) {
  const ModelError error{0.03, 0.12};
  const int count = 20000;
  std::vector<double> sizes;
  int slower = 0;
  for (int shape = 0; shape < count; ++shape) {
    const double factor = drawn_factor(error, {1, 7}, {1, shape, 4096});
    slower += factor > 1 ? 1 : 0;
    sizes.push_back(std::max(factor, 1 / factor) - 1);
  }
  std::sort(sizes.begin(), sizes.end());
  EXPECT_NEAR(sizes[count / 2], 0.03, 0.002);
  EXPECT_NEAR(sizes[count * 9 / 10], 0.12, 0.004);
  // Binomial: three standard deviations of 20,000 fair coins are 1.06 %.
  EXPECT_NEAR(static_cast<double>(slower) / count, 0.5, 0.0107);
}

TEST(ModelError, FactorsFollowSeedDrawAndShapeAlone) {
  const ModelError error{0.03, 0.12};
  const double one = drawn_factor(error, {1, 7}, {1, 512, 4096});
  EXPECT_EQ(drawn_factor(error, {1, 7}, {1, 512, 4096}), one);
  EXPECT_NE(drawn_factor(error, {2, 7}, {1, 512, 4096}), one);
  EXPECT_NE(drawn_factor(error, {1, 8}, {1, 512, 4096}), one);
  EXPECT_NE(drawn_factor(error, {1, 7}, {2, 512, 4096}), one);
  EXPECT_NE(drawn_factor(error, {1, 7}, {1, 4096, 512}), one);
  EXPECT_EQ(drawn_factor({}, {1, 7}, {1, 512, 4096}), 1);
}

}  // namespace
}  // namespace benchsuite
