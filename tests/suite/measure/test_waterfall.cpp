// From one variant to another: parts that add up, and what is refused.
#include "suite/measure/waterfall.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "engine/core/error.h"

namespace benchsuite {
namespace {

VariantResult variant(const char* id, std::int64_t ranks, std::array<Picoseconds, kCategories> sums) {
  VariantResult result;
  result.id = id;
  result.mean_breakdown.time = sums;
  result.ranks_in_breakdown = ranks;
  result.step = std::accumulate(sums.begin(), sums.end(), Picoseconds{0}) / ranks;
  return result;
}

TEST(Waterfall, PartsAddUpToTheDifference) {
  // Sums over three ranks, whose means are not whole picoseconds; steps 1639 and 1273.
  //                           forward recompute backward optimizer tensor again pipeline data embedding global bubble
  auto from = variant("full", 3, {1000, 900, 2001, 50, 300, 200, 31, 20, 10, 5, 400});
  const auto to = variant("selective", 3, {1001, 100, 2000, 50, 301, 0, 30, 20, 10, 5, 302});
  from.gpu_busy = 0.954;
  from.mfu = 0.2418;
  const Waterfall waterfall = waterfall_between("why", from, to);
  std::vector<long> parts;
  for (const Waterfall::Part& part : waterfall.parts) parts.push_back(std::lround(part.seconds * 1e12));
  EXPECT_THAT(parts, testing::ElementsAre(33 - 300, 0 - 67, 100 - 100, 101 - 133, 0, 0));
  EXPECT_EQ(std::accumulate(parts.begin(), parts.end(), 0L), 1273 - 1639);
  EXPECT_EQ(waterfall.from, "full");
  EXPECT_EQ(waterfall.to, "selective");
  EXPECT_DOUBLE_EQ(waterfall.from_s, 1639e-12);
  EXPECT_DOUBLE_EQ(waterfall.to_s, 1273e-12);
  EXPECT_THAT(waterfall.one_line, testing::HasSubstr("GPUs look 95 % busy because a kernel that waits in a collective "
                                                     "counts as busy; useful model FLOPs are 24 % of peak"));
  from.mfu.reset();
  EXPECT_THAT(busy_beside_mfu(from), testing::HasSubstr("no peak is known"));
}

TEST(Waterfall, RefusesVariantsThatDontAddUp) {
  auto broken = variant("a", 1, {10});
  broken.step = 11;
  EXPECT_THROW(waterfall_between("x", broken, variant("b", 1, {10})), Error);
}

}  // namespace
}  // namespace benchsuite
