// Statistics and trends, against hand-made numbers.
#include <gtest/gtest.h>

#include <cmath>

#include "suite/history/trend.h"
#include "suite/results/statistics.h"

namespace benchsuite {
namespace {

TEST(Statistics, MedianAndSpread) {
  EXPECT_EQ(median({3}), 3);
  EXPECT_EQ(median({4, 1, 2, 3}), 2.5);
  EXPECT_EQ(median({5, 1, 9}), 5);
  EXPECT_DOUBLE_EQ(scaled_mad({1, 2, 3, 4, 100}), 1.4826);  // distances 2 1 0 1 97
  EXPECT_EQ(scaled_mad({7}), 0);
}

TEST(Statistics, MannWhitney) {
  // No overlap: U = 0, mean 12.5, variance 25/12 x 11; with continuity z = 12 / 4.7871.
  const double z = 12 / std::sqrt(25.0 / 12 * 11);
  EXPECT_NEAR(*mann_whitney_p({1, 2, 3, 4, 5}, {6, 7, 8, 9, 10}), std::erfc(z / std::sqrt(2.0)), 1e-12);
  EXPECT_EQ(*mann_whitney_p({1, 1, 1, 1, 1}, {1, 1, 1, 1, 1}), 1) << "all tied";
  EXPECT_EQ(*mann_whitney_p({1, 3, 5, 7, 9, 11}, {2, 4, 6, 8, 10, 0}), *mann_whitney_p({2, 4, 6, 8, 10, 0}, {1, 3, 5, 7, 9, 11}));
  EXPECT_GT(*mann_whitney_p({1, 3, 5, 7, 9}, {2, 4, 6, 8, 10}), 0.5);
  EXPECT_FALSE(mann_whitney_p({1, 2, 3, 4}, {1, 2, 3, 4, 5})) << "not enough";
  EXPECT_FALSE(mann_whitney_p({1, 2, 3, 4, 5}, {1, 2, 3, 4})) << "not enough";
}

TEST(Statistics, PairedRatio) {
  // Both sides drift by a factor of three; the ratio of each pair does not.
  const auto ratio = paired_ratio({1, 1.5, 2, 2.5, 3}, {2, 3, 4, 5, 6});
  ASSERT_TRUE(ratio);
  EXPECT_EQ(ratio->median, 2);
  EXPECT_EQ(ratio->low, 2);
  EXPECT_EQ(ratio->high, 2);
  EXPECT_EQ(ratio->pairs, 5u);
  EXPECT_EQ(ratio->confidence, 1 - 2 * std::pow(0.5, 5)) << "the whole range of five";
  // Of eight ordered ratios the second and the seventh: 1 - 2 (1 + 8) / 256.
  std::vector<double> ones(8, 1), ratios = {1, 2, 3, 4, 5, 6, 7, 8};
  const auto wide = paired_ratio(ones, ratios);
  EXPECT_EQ(wide->low, 1) << "2 (1 + 8) / 256 is more than 5 %";
  ones.resize(9, 1);
  ratios.push_back(9);
  const auto nine = paired_ratio(ones, ratios);
  EXPECT_EQ(nine->low, 2);
  EXPECT_EQ(nine->high, 8);
  EXPECT_EQ(nine->median, 5);
  EXPECT_DOUBLE_EQ(nine->confidence, 1 - 2 * 10.0 / 512);
  EXPECT_FALSE(paired_ratio({1, 2, 3, 4, 5}, {1, 2, 3, 4})) << "no pairs";
  EXPECT_FALSE(paired_ratio({0, 2, 3, 4, 5}, {1, 2, 3, 4, 5})) << "no ratio";
  EXPECT_FALSE(paired_ratio({1, 2, 3, 4}, {1, 2, 3, 4})) << "not enough";
}

std::vector<std::size_t> changes(const std::vector<double>& values, double floor) {
  std::vector<std::size_t> found;
  const std::vector<TrendPoint> points = trend_of(values, floor);
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (points[i].change) found.push_back(i);
  }
  return found;
}

TEST(Trend, ChangesStandWhereTheLevelMoved) {
  using Places = std::vector<std::size_t>;
  EXPECT_EQ(changes({1, 1, 1, 1, 1, 1, 1, 1}, 0.01), Places{});
  EXPECT_EQ(changes({1, 1, 1, 1, 1, 1.2, 1.2, 1.2, 1.2, 1.2}, 0.01), Places{5});
  EXPECT_EQ(changes({1, 1, 1, 1.2, 1.2, 1.2}, 0.01), Places{3}) << "three points on each side are enough";
  EXPECT_EQ(changes({1, 1, 1, 1, 1.2, 1.2}, 0.01), Places{}) << "two are not";
  EXPECT_EQ(changes({1, 1, 1, 1, 1, 1.005, 1.005, 1.005, 1.005}, 0.01), Places{}) << "below the effect floor";
  EXPECT_EQ(changes({1, 1.1, 0.9, 1.05, 0.95, 1.1, 1.15, 1.0, 1.2, 1.05}, 0.01), Places{}) << "within the noise";
  EXPECT_EQ(changes({1, 1, 1, 1, 1, 5, 1, 1, 1, 1}, 0.01), Places{}) << "one outlier is no change of level";
  EXPECT_EQ(changes({1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1}, 0.01), (Places{5, 10}));
  EXPECT_EQ(changes({}, 0.01), Places{});
}

TEST(Trend, BandsAndShift) {
  const std::vector<TrendPoint> points = trend_of({1, 1, 1, 1, 1, 1.5, 1.5, 1.5, 1.5}, 0.02);
  EXPECT_DOUBLE_EQ(points[5].shift, 0.5);
  EXPECT_EQ(points[4].low, 0.98) << "without spread the floor is the band";
  EXPECT_EQ(points[4].high, 1.02);
  EXPECT_EQ(points[8].median, 1.5) << "the median does not reach across a change";
  EXPECT_FALSE(points[5].outside) << "a change begins a new band";
  EXPECT_TRUE(trend_of({1, 1, 1, 1, 1, 1.5}, 0.02)[5].outside) << "one value is not a change yet, but it is outside";
}

}  // namespace
}  // namespace benchsuite
