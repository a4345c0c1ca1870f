#include "engine/parallel/rank_grid.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace benchsuite {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Layout layout_of(std::int64_t tp, std::int64_t pp, std::int64_t dp, std::int64_t cp = 1) {
  Layout layout;
  layout.tp = tp;
  layout.pp = pp;
  layout.dp = dp;
  layout.cp = cp;
  return layout;
}

// The worked example of Megatron-core's parallel_state: 16 ranks, t = 2, p = 4, d = 2.
TEST(RankGrid, WorkedExample) {
  const RankGrid grid(layout_of(2, 4, 2));
  EXPECT_EQ(grid.world(), 16);
  EXPECT_THAT(grid.tensor(0).ranks, ElementsAre(0, 1));
  EXPECT_THAT(grid.tensor(3).ranks, ElementsAre(2, 3));
  EXPECT_THAT(grid.data(0).ranks, ElementsAre(0, 2));
  EXPECT_THAT(grid.data(3).ranks, ElementsAre(1, 3));
  EXPECT_THAT(grid.data(4).ranks, ElementsAre(4, 6));
  EXPECT_THAT(grid.data(7).ranks, ElementsAre(5, 7));
  EXPECT_THAT(grid.embedding(8).ranks, ElementsAre(0, 12));
  EXPECT_THAT(grid.embedding(5).ranks, ElementsAre(1, 13));
  EXPECT_THAT(grid.model_parallel(9).ranks, ElementsAre(0, 1, 4, 5, 8, 9, 12, 13));
  EXPECT_THAT(grid.model_parallel(14).ranks, ElementsAre(2, 3, 6, 7, 10, 11, 14, 15));
  EXPECT_EQ(grid.world_group().ranks.size(), 16u);
  EXPECT_EQ(grid.world_group().ranks.back(), 15);
  EXPECT_EQ(grid.tensor(0).kind, GroupKind::tensor);
  EXPECT_EQ(grid.data(0).kind, GroupKind::data);
  EXPECT_EQ(grid.embedding(0).kind, GroupKind::embedding);
  EXPECT_EQ(grid.model_parallel(0).kind, GroupKind::model_parallel);
  EXPECT_EQ(grid.world_group().kind, GroupKind::world);
}

TEST(RankGrid, ChannelsAreDirectedAndWrap) {
  const RankGrid grid(layout_of(2, 4, 2));  // pipelines {0, 4, 8, 12}, {1, 5, 9, 13}, ...
  EXPECT_EQ(grid.channel_to_next(5), (Group{GroupKind::pipeline_forward, {5, 9}}));
  EXPECT_EQ(grid.channel_from_previous(5), (Group{GroupKind::pipeline_forward, {1, 5}}));
  EXPECT_EQ(grid.channel_to_previous(5), (Group{GroupKind::pipeline_backward, {5, 1}}));
  EXPECT_EQ(grid.channel_from_next(5), (Group{GroupKind::pipeline_backward, {9, 5}}));
  EXPECT_EQ(grid.channel_to_next(13), (Group{GroupKind::pipeline_forward, {13, 1}}));
  EXPECT_EQ(grid.channel_from_previous(1), (Group{GroupKind::pipeline_forward, {13, 1}}));
  EXPECT_EQ(grid.channel_to_previous(1), (Group{GroupKind::pipeline_backward, {1, 13}}));
  EXPECT_EQ(grid.channel_from_next(13), (Group{GroupKind::pipeline_backward, {1, 13}}));
}

TEST(RankGrid, TwoStagesKeepTheirFourChannelsApart) {
  const RankGrid grid(layout_of(1, 2, 1));
  EXPECT_EQ(grid.channel_to_next(0), grid.channel_from_previous(1));
  EXPECT_EQ(grid.channel_to_previous(1), grid.channel_from_next(0));
  EXPECT_FALSE(grid.channel_to_next(0) == grid.channel_to_next(1));
  EXPECT_FALSE(grid.channel_to_next(1) == grid.channel_to_previous(1));
}

TEST(RankGrid, WithoutAPipeline) {
  const RankGrid grid(layout_of(2, 1, 2));
  EXPECT_THAT(grid.embedding(3).ranks, ElementsAre(3));
  EXPECT_THROW(grid.channel_to_next(0), Error);
}

TEST(RankGrid, ContextParallelVariesBetweenTensorAndData) {
  const RankGrid grid(layout_of(2, 1, 2, 3));
  EXPECT_EQ(grid.rank_at({1, 2, 1, 0}), 1 + 2 * (2 + 3 * 1));
  EXPECT_THAT(grid.data(1).ranks, ElementsAre(1, 3, 5, 7, 9, 11));
}

TEST(RankGrid, CoordinatesAndRanksAreInverse) {
  const RankGrid grid(layout_of(2, 3, 5, 4));
  for (int rank = 0; rank < grid.world(); ++rank) EXPECT_EQ(grid.rank_at(grid.coordinates(rank)), rank);
  EXPECT_EQ(grid.coordinates(1), (Coordinates{1, 0, 0, 0}));
  EXPECT_EQ(grid.coordinates(119), (Coordinates{1, 3, 4, 2}));
  EXPECT_THROW(grid.coordinates(120), Error);
  EXPECT_THROW(grid.coordinates(-1), Error);
  EXPECT_THROW(grid.rank_at({2, 0, 0, 0}), Error);
}

TEST(RankGrid, EveryMemberSeesTheSameGroup) {
  const RankGrid grid(layout_of(2, 4, 2));
  for (int rank = 0; rank < grid.world(); ++rank) {
    for (const int peer : grid.tensor(rank).ranks) EXPECT_EQ(grid.tensor(peer), grid.tensor(rank));
    for (const int peer : grid.data(rank).ranks) EXPECT_EQ(grid.data(peer), grid.data(rank));
    for (const int peer : grid.model_parallel(rank).ranks)
      EXPECT_EQ(grid.model_parallel(peer), grid.model_parallel(rank));
    for (const int peer : grid.embedding(rank).ranks) EXPECT_EQ(grid.embedding(peer), grid.embedding(rank));
  }
}

TEST(Layers, ChunksAreDealtRoundTheStages) {
  // p = 4, v = 2, 16 layers: rank 0 has layers 1, 2, 9, 10 (counted from one), rank 3 has 7, 8, 15, 16.
  Layout layout = layout_of(1, 4, 1);
  layout.vpp = 2;
  const auto expect = [&](std::int64_t stage, std::int64_t chunk, std::int64_t first) {
    const LayerRange range = layers_of(16, layout, stage, chunk);
    EXPECT_EQ(range.first, first);
    EXPECT_EQ(range.count, 2);
  };
  expect(0, 0, 0);
  expect(0, 1, 8);
  expect(3, 0, 6);
  expect(3, 1, 14);
  EXPECT_THROW(layers_of(18, layout, 0, 0), Error);
  EXPECT_THROW(layers_of(16, layout, 4, 0), Error);
  EXPECT_THROW(layers_of(16, layout, 0, 2), Error);
}

/// "first+count" of every chunk, stage by stage within each chunk: the order of the layers.
std::string ranges(std::int64_t layers, const Layout& layout) {
  std::string text;
  for (std::int64_t chunk = 0; chunk < layout.vpp; ++chunk) {
    for (std::int64_t stage = 0; stage < layout.pp; ++stage) {
      const LayerRange range = layers_of(layers, layout, stage, chunk);
      text += (text.empty() ? "" : " ") + std::to_string(range.first) + "+" + std::to_string(range.count);
    }
  }
  return text;
}

// megatron-core: num_layers_in_first_pipeline_stage and ..._last_... give the ends their own number, divided over their chunks; the
// others share the rest.
TEST(Layers, FirstAndLastStageMayHoldTheirOwnNumber) {
  Layout layout = layout_of(1, 4, 1);
  layout.layer_split = {.first_stage = 2, .last_stage = 4};
  EXPECT_EQ(ranges(14, layout), "0+2 2+4 6+4 10+4");
  layout.layer_split = {.first_stage = 5};
  EXPECT_EQ(ranges(14, layout), "0+5 5+3 8+3 11+3");
  layout.vpp = 2;
  layout.layer_split = {.first_stage = 2, .last_stage = 4};
  EXPECT_EQ(ranges(14, layout), "0+1 1+2 3+2 5+2 7+1 8+2 10+2 12+2");
  layout.layer_split = {.last_stage = 3};
  EXPECT_THROW(layers_of(15, layout, 3, 0), Error) << "three layers in two chunks";
}

TEST(Layers, StagesMayBeListed) {
  Layout layout = layout_of(1, 4, 1);
  layout.layer_split.stages = {3, 5, 4, 2};
  EXPECT_EQ(ranges(14, layout), "0+3 3+5 8+4 12+2");
  layout.vpp = 2;
  layout.layer_split.stages = {2, 4, 4, 2};
  EXPECT_EQ(ranges(12, layout), "0+1 1+2 3+2 5+1 6+1 7+2 9+2 11+1");
}

// megatron-core: account_for_embedding_in_pipeline_split and ..._loss_... take the place of a layer each.
TEST(Layers, EmbeddingAndLossMayCountAsLayers) {
  Layout layout = layout_of(1, 4, 1);
  layout.layer_split = {.counts_embedding = true, .counts_loss = true};
  EXPECT_EQ(ranges(126, layout), "0+31 31+32 63+32 95+31") << "Llama 3.1 405B";
  layout.vpp = 2;
  EXPECT_EQ(ranges(14, layout), "0+1 1+2 3+2 5+2 7+2 9+2 11+2 13+1");
  layout.layer_split.counts_loss = false;
  EXPECT_EQ(ranges(15, layout), "0+1 1+2 3+2 5+2 7+2 9+2 11+2 13+2");
  layout.vpp = 1;
  layout.layer_split.counts_loss = true;
  EXPECT_EQ(ranges(2, layout), "0+0 0+1 1+1 2+0");
}

TEST(Placement, PackedFillsNodeAfterNode) {
  const Placement placement = place(layout_of(4, 4, 1), 8);
  EXPECT_EQ(placement.gpus_per_node, 8);
  EXPECT_EQ(placement.world(), 16);
  EXPECT_THAT(placement.node, ElementsAre(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1));
  EXPECT_THAT(placement.slot, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7));
}

TEST(Placement, AcrossNodesDealsRanksOut) {
  Layout layout = layout_of(4, 4, 1);
  layout.placement = TensorPlacement::across_nodes;
  const Placement placement = place(layout, 8);
  EXPECT_THAT(placement.node, ElementsAre(0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1));
  EXPECT_THAT(placement.slot, ElementsAre(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7));
}

TEST(Placement, EveryGpuIsUsedOnceAndEveryTensorGroupSpansNodes) {
  for (const std::int64_t tp : {2, 4, 8, 16}) {
    for (const std::int64_t dp : {1, 2, 3}) {
      Layout layout = layout_of(tp, 2, dp);
      layout.placement = TensorPlacement::across_nodes;
      const int gpus = 2 * static_cast<int>(tp * dp);
      for (const int gpus_per_node : {2, 4, 8}) {
        if (gpus <= gpus_per_node) continue;
        const Placement placement = place(layout, gpus_per_node);
        const int nodes = (gpus + gpus_per_node - 1) / gpus_per_node;
        std::set<std::pair<int, int>> seats;
        for (std::size_t rank = 0; rank < placement.node.size(); ++rank) {
          EXPECT_LT(placement.node[rank], nodes);
          EXPECT_LT(placement.slot[rank], gpus_per_node);
          EXPECT_TRUE(seats.insert({placement.node[rank], placement.slot[rank]}).second);
        }
        const RankGrid grid(layout);
        for (int rank = 0; rank < grid.world(); ++rank) {
          std::set<int> touched;
          for (const int peer : grid.tensor(rank).ranks) touched.insert(placement.node[static_cast<std::size_t>(peer)]);
          EXPECT_EQ(touched.size(), static_cast<std::size_t>(std::min<std::int64_t>(tp, nodes)));
        }
      }
    }
  }
}

TEST(Placement, ASmallWorldHasOneNode) {
  const Placement placement = place(layout_of(2, 2, 1), 8);
  EXPECT_THAT(placement.node, ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(placement.slot, ElementsAre(0, 1, 2, 3));
}

TEST(Placement, AcrossNodesIsRefusedWhereNothingCanCross) {
  Layout layout = layout_of(4, 2, 1);
  layout.placement = TensorPlacement::across_nodes;
  try {
    place(layout, 8);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::config);
    EXPECT_STREQ(error.what(),
                 "layout.placement = \"across_nodes\": all 8 ranks fit in one node of 8 GPUs, so no tensor group can "
                 "cross nodes; set layout.placement to \"packed\"");
  }
  layout = layout_of(1, 16, 1);
  layout.placement = TensorPlacement::across_nodes;
  try {
    place(layout, 8);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("layout.tp is 1"));
  }
}

}  // namespace
}  // namespace benchsuite
