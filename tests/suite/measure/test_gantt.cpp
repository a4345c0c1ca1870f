// The pipeline picture: what merges, what is simplified, and that no category loses time.
#include "suite/measure/gantt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

namespace benchsuite {
namespace {

TEST(Gantt, NeighboursOfOneKindMerge) {
  std::vector<GanttSpan> spans;
  append_span(spans, {Category::forward, 0, 0, 0, 5});
  append_span(spans, {Category::forward, 0, 0, 5, 9});
  append_span(spans, {Category::forward, 1, 0, 9, 9});
  append_span(spans, {Category::forward, 1, 0, 9, 12});
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_EQ(spans[0].end, 9);
  EXPECT_EQ(spans[1].micro_batch, 1);
}

/// 1F1B of `passes` micro-batches with `layers` layers a pass: compute and exposed collectives in turn.
std::vector<GanttSpan> long_step(int passes, int layers) {
  std::vector<GanttSpan> spans;
  Picoseconds at = 0;
  const auto add = [&](Category category, int micro_batch, Picoseconds length) {
    append_span(spans, {category, micro_batch, static_cast<std::int16_t>(micro_batch < 0 ? -1 : 0), at, at + length});
    at += length;
  };
  for (int i = 0; i < passes; ++i) {
    for (int layer = 0; layer < layers; ++layer) {
      add(Category::forward, i, 900);
      add(Category::tensor, i, 100);
    }
    add(Category::pipeline, i, 7);
    add(Category::bubble, -1, 3);
    for (int layer = 0; layer < layers; ++layer) {
      add(Category::recompute, i, 800);
      add(Category::tensor_recompute, i, 90);
      add(Category::backward, i, 1900);
      add(Category::tensor, i, 60);
    }
  }
  add(Category::bubble, -1, at / 10);
  add(Category::optimizer, -1, 5000);
  return spans;
}

std::array<Picoseconds, kCategories> totals(const std::vector<GanttSpan>& spans) {
  std::array<Picoseconds, kCategories> time{};
  for (const GanttSpan& span : spans) time[static_cast<std::size_t>(span.category)] += span.end - span.start;
  return time;
}

TEST(Gantt, ShortStepsAreDrawnAsTheyAre) {
  const auto spans = long_step(8, 10);
  EXPECT_EQ(simplify(spans, spans.back().end).size(), spans.size());
}

TEST(Gantt, LongStepsKeepEveryCategorysTimeInOneRectangleAPass) {
  const auto spans = long_step(128, 10);
  ASSERT_GT(spans.size(), kGanttDetail);
  const auto simple = simplify(spans, spans.back().end);
  EXPECT_EQ(totals(simple), totals(spans));
  // Forward pass: compute, collectives, transfer, a short wait. Backward: four kinds. At the end a wait and the optimizer.
  EXPECT_EQ(simple.size(), 128u * (4 + 4) + 2);
  Picoseconds at = 0;
  for (const GanttSpan& span : simple) {
    ASSERT_EQ(span.start, at);
    ASSERT_LT(span.start, span.end);
    at = span.end;
  }
  EXPECT_EQ(at, spans.back().end);
  EXPECT_EQ(simple[0].category, Category::forward);
  EXPECT_EQ(simple[0].end, 9000);
  EXPECT_EQ(simple[0].micro_batch, 0);
}

}  // namespace
}  // namespace benchsuite
