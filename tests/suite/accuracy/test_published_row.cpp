#include "suite/accuracy/published_row.h"

#include <gtest/gtest.h>

namespace benchsuite {
namespace {

TEST(PublishedRow, ArrayWithUnknownKeys) {
  const auto rows = read_published_rows(parse_json(R"([{"id": "a", "source": "S", "weather": "fine", "verified": true,
      "model": {"layers": 2, "colour": 7}, "layout": {"tp": 2}, "measured": {"iteration_s": 1.5}}])", "t"), "t");
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].problem, "");
  EXPECT_EQ(PublishedRow::integer(rows[0].model, "layers"), 2);
  EXPECT_EQ(PublishedRow::number(rows[0].measured, "iteration_s"), 1.5);
  EXPECT_EQ(rows[0].kind, RowKind::throughput);
}

TEST(PublishedRow, RowLiesOverItsGroup) {
  const auto rows = read_published_rows(parse_json(R"({"groups": [{"common": {"source": "S", "layout": {"tp": 2, "pp": 4}},
      "rows": [{"id": "a", "layout": {"pp": 1}}, {"id": "b"}]}]})", "t"), "t");
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(PublishedRow::integer(rows[0].layout, "tp"), 2);
  EXPECT_EQ(PublishedRow::integer(rows[0].layout, "pp"), 1);
  EXPECT_EQ(PublishedRow::integer(rows[1].layout, "pp"), 4);
  EXPECT_EQ(rows[1].source, "S");
}

TEST(PublishedRow, WhatCannotBeReadIsARowToo) {
  const auto rows = read_published_rows(parse_json(R"([7, {"id": "a", "model": []}, {"id": "a", "kind": "rumour"}, {"id": 7}])", "t"), "t");
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[3].id, "7");
  EXPECT_EQ(rows[0].id, "row 1");
  EXPECT_EQ(rows[0].problem, "the row is no object");
  EXPECT_EQ(rows[1].problem, "model is no object");
  EXPECT_EQ(rows[2].id, "a#2");
  EXPECT_EQ(rows[2].problem, "kind \"rumour\" is not known");
}

TEST(PublishedRow, ReadOffAPlotIsNotVerified) {
  const auto rows = read_published_rows(parse_json(R"([{"verified": "figure"}, {"verified": true}, {}])", "t"), "t");
  EXPECT_FALSE(rows[0].verified);
  EXPECT_TRUE(rows[1].verified);
  EXPECT_TRUE(rows[2].verified);
}

TEST(PublishedRow, NoTable) {
  for (const char* text : {"{}", "3", "{\"groups\": 4}", "{\"groups\": [{}]}"}) {
    EXPECT_THROW(read_published_rows(parse_json(text, "t"), "t"), Error) << text;
  }
}

}  // namespace
}  // namespace benchsuite
