// One representative per stage must give every rank's timeline, to the picosecond: random small worlds are replayed
// whole and collapsed. Groups are laid out with tensor ranks fastest, then data, then stages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "engine/core/error.h"
#include "tests/engine/device/sim/toy.h"

namespace benchsuite {
namespace {

using testing::HasSubstr;
using toy::Builder;

struct Shape {
  int t = 1, d = 1, p = 1;
  int gpus_per_node = 4, nics_per_node = 4;
  bool tensor_across_nodes = false;
  unsigned seed = 0;

  int world() const { return t * d * p; }
  int rank(int tensor, int data, int stage) const { return tensor + t * (data + d * stage); }
  int nodes() const { return (world() + gpus_per_node - 1) / gpus_per_node; }
  int node(int r) const { return tensor_across_nodes ? r % nodes() : r / gpus_per_node; }
  int slot(int r) const { return tensor_across_nodes ? r / nodes() : r % gpus_per_node; }
  int sending_nic(int r) const { return 2 * (node(r) * nics_per_node + slot(r) % nics_per_node); }
};

/// A step of random lengths, equal for all ranks of a stage.
Builder record(const Shape& s, int rank) {
  const int tensor = rank % s.t, data = rank / s.t % s.d, stage = rank / (s.t * s.d);
  Builder out(rank);
  std::mt19937 common(s.seed), own(s.seed * 977 + static_cast<unsigned>(stage) + 1);
  const auto draw = [](std::mt19937& from, int low, int high) {
    return low + static_cast<int>(from() % static_cast<unsigned>(high - low + 1));
  };

  Group tensor_group{GroupKind::tensor, {}}, data_group{GroupKind::data, {}}, model{GroupKind::model_parallel, {}},
      world{GroupKind::world, {}};
  for (int i = 0; i < s.t; ++i) tensor_group.ranks.push_back(s.rank(i, data, stage));
  for (int i = 0; i < s.d; ++i) data_group.ranks.push_back(s.rank(tensor, i, stage));
  for (int j = 0; j < s.p; ++j) {
    for (int i = 0; i < s.t; ++i) model.ranks.push_back(s.rank(i, data, j));
  }
  for (int i = 0; i < s.world(); ++i) world.ranks.push_back(i);
  const int next = rank + s.t * s.d, previous = rank - s.t * s.d;

  const int micro_batches = draw(common, 1, 4);
  OpId last = kNone;
  for (int i = 0; i < micro_batches; ++i) {
    const toy::Price hop{draw(common, 1, 400), 1, draw(common, 0, 1) * 100};
    std::vector<OpId> waits;
    if (stage > 0) {
      if (last != kNone) waits.push_back(last);  // recorded communication follows the compute before it
      waits = {out.transfer(OpKind::receive, StreamKind::pipeline_receive_previous,
                            {GroupKind::pipeline_forward, {previous, rank}}, hop, waits)};
    }
    for (int k = draw(own, 1, 5); k > 0; --k) {
      const bool host_waits = !waits.empty() && draw(own, 0, 1) == 0;
      last = out.compute({draw(own, 0, 300), static_cast<std::int32_t>(draw(own, 0, 1) * 1000),
                          static_cast<std::int32_t>(draw(own, 0, 900))}, waits);
      out.program.ops[last].host_waits = host_waits;
      waits.clear();
      const OpId reduce = out.transfer(OpKind::all_reduce, StreamKind::tensor, tensor_group,
                                       {draw(own, 0, 200), 0, draw(own, 0, 150), draw(own, 0, 500)}, {last});
      out.program.ops[reduce].host_waits = draw(own, 0, 5) == 0;
      if (draw(own, 0, 1) == 0) waits.push_back(reduce);
      if (draw(own, 0, 2) == 0) {
        out.transfer(OpKind::reduce_scatter, StreamKind::data, data_group, {draw(own, 50, 900), 7, draw(own, 0, 150)},
                     {last});
      }
    }
    if (stage + 1 < s.p) {
      out.transfer(OpKind::send, StreamKind::pipeline_send_next, {GroupKind::pipeline_forward, {rank, next}}, hop,
                   {last});
    }
  }
  const OpId norm = out.transfer(OpKind::all_reduce, StreamKind::global, model, {draw(common, 1, 50), 1}, {last});
  out.compute(draw(own, 1, 100), {norm});
  if (s.p > 1 && (stage == 0 || stage == s.p - 1)) {
    out.transfer(OpKind::all_reduce, StreamKind::embedding,
                 {GroupKind::embedding, {s.rank(tensor, data, 0), s.rank(tensor, data, s.p - 1)}},
                 {draw(common, 100, 500), 3, 50}, {last});
  }
  const OpId end = out.transfer(OpKind::all_reduce, StreamKind::global, world, {7, 1}, {norm});
  out.compute(5, {end});
  return out;
}

/// Node-crossing transfers cost one and a half and load the members' network cards: both directions for collectives.
CostSource costs_of(const Shape& s) {
  return {[](const OpShape& shape, Site) {
            return ComputeCost{shape.dims[1], static_cast<std::int32_t>(shape.dims[2]),
                               static_cast<std::int32_t>(shape.dims[3])};
          },
          [s](const OpShape& shape, const Group& group) {
            TransferCost cost;
            cost.latency = shape.dims[2];
            cost.duration = std::max<Picoseconds>(shape.dims[1], cost.latency);
            cost.sm_permille = static_cast<std::int32_t>(shape.dims[3]);
            cost.memory_permille = static_cast<std::int32_t>(shape.dims[4]);
            bool crosses = false;
            for (int rank : group.ranks) crosses = crosses || s.node(rank) != s.node(group.ranks[0]);
            if (!crosses) return cost;
            cost.duration += cost.duration / 2;
            if (is_point_to_point(shape.kind)) {
              cost.links = {s.sending_nic(group.ranks[0]), s.sending_nic(group.ranks[1]) + 1};
            } else {
              for (int rank : group.ranks) {
                cost.links.push_back(s.sending_nic(rank));
                cost.links.push_back(s.sending_nic(rank) + 1);
              }
            }
            std::sort(cost.links.begin(), cost.links.end());
            cost.links.erase(std::unique(cost.links.begin(), cost.links.end()), cost.links.end());
            return cost;
          },
          HostCost{11, 5}};
}

struct Both {
  std::vector<Builder> ranks;
  World whole, collapsed;
};

Both build(const Shape& s) {
  Both both;
  for (int r = 0; r < s.world(); ++r) both.ranks.push_back(record(s, r));
  both.whole = whole_world(toy::programs_of(both.ranks));
  for (int stage = 0; stage < s.p; ++stage) {
    both.collapsed.programs.push_back(both.whole.programs[static_cast<std::size_t>(s.rank(0, 0, stage))]);
  }
  for (int r = 0; r < s.world(); ++r) both.collapsed.role_of_rank.push_back(r / (s.t * s.d));
  return both;
}

std::int32_t heaviest(const PricedWorld& world) {
  std::int32_t weight = 0;
  for (const PricedRole& role : world.roles) {
    for (const PricedTransfer& transfer : role.transfers) {
      for (const LinkLoad& load : transfer.loads) weight = std::max(weight, load.weight);
    }
  }
  return weight;
}

void expect_same_spans(const ReplayResult& a, const ReplayResult& b, unsigned trial) {
  for (std::size_t role = 0; role < a.timelines.size(); ++role) {
    for (std::size_t op = 0; op < a.timelines[role].spans.size(); ++op) {
      const Span &x = a.timelines[role].spans[op], &y = b.timelines[role].spans[op];
      ASSERT_TRUE(x.ready == y.ready && x.start == y.start && x.end == y.end)
          << "trial " << trial << " role " << role << " op " << op << ": " << x.ready << ' ' << x.start << ' ' << x.end
          << ", " << y.ready << ' ' << y.start << ' ' << y.end;
    }
  }
}

TEST(Replay, RolesThatGoOnAloneSeeWhatTheySeeByTime) {
  std::mt19937 random(991);
  for (unsigned trial = 0; trial < 200; ++trial) {
    Shape s;
    s.t = 1 << random() % 2;
    s.d = 1 << random() % 2;
    s.p = 1 + static_cast<int>(random() % 5);
    s.gpus_per_node = 2 << random() % 2;
    s.nics_per_node = random() % 2 ? 1 : s.gpus_per_node;
    s.seed = trial;
    std::vector<Builder> ranks;
    for (int r = 0; r < s.world(); ++r) {  // ranks of a stage differ: who comes first changes all the time
      ranks.push_back(record(s, r));
      for (OpShape& shape : ranks.back().program.shapes) {
        if (!is_communication(shape.kind)) shape.dims[1] += r * 7 % 5 * shape.dims[1] / 9;
      }
    }
    const PricedWorld world = price(whole_world(toy::programs_of(ranks)), costs_of(s));
    expect_same_spans(replay(world, ReplayOrder::by_time), replay(world, ReplayOrder::by_role), trial);
  }
}

TEST(Collapse, RandomWorldsReplayAsTheWholeOnes) {
  int collapsible = 0, shared = 0;
  std::mt19937 random(20261);
  for (unsigned trial = 0; trial < 400; ++trial) {
    Shape s;
    s.t = 1 << random() % 3;
    s.d = 1 << random() % 3;
    s.p = 1 + static_cast<int>(random() % 4);
    s.gpus_per_node = 2 << random() % 3;
    s.nics_per_node = random() % 2 ? 1 : s.gpus_per_node;
    s.tensor_across_nodes = random() % 4 == 0 && s.world() % s.gpus_per_node == 0;
    s.seed = trial;
    const Both both = build(s);
    const CostSource costs = costs_of(s);
    if (!why_not_collapsible(both.collapsed, costs).empty()) continue;
    ++collapsible;
    const PricedWorld priced = price(both.collapsed, costs);
    if (heaviest(priced) > 1) ++shared;
    const ReplayResult whole = replay(price(both.whole, costs)), collapsed = replay(priced);
    expect_same_spans(replay(priced, ReplayOrder::by_time), collapsed, trial);
    ASSERT_EQ(whole.step, collapsed.step) << "trial " << trial;
    for (std::size_t rank = 0; rank < both.ranks.size(); ++rank) {
      const auto& expected = whole.timelines[rank].spans;
      const auto& got = collapsed.timelines[static_cast<std::size_t>(both.collapsed.role_of_rank[rank])].spans;
      ASSERT_EQ(expected.size(), got.size());
      for (std::size_t op = 0; op < expected.size(); ++op) {
        ASSERT_TRUE(expected[op].ready == got[op].ready && expected[op].start == got[op].start &&
                    expected[op].end == got[op].end)
            << "trial " << trial << " rank " << rank << " op " << op << ": whole " << expected[op].ready << ' '
            << expected[op].start << ' ' << expected[op].end << ", collapsed " << got[op].ready << ' ' << got[op].start
            << ' ' << got[op].end;
      }
    }
  }
  // The comparison means little unless it happened, and happened with siblings that share a card.
  EXPECT_GT(collapsible, 150);
  EXPECT_GT(shared, 50);
}

TEST(Collapse, EveryRankItsOwnRoleNeedsNoProof) {
  const Shape s{2, 2, 2, 2, 1, false, 3};
  const Both both = build(s);
  EXPECT_EQ(why_not_collapsible(both.whole, costs_of(s)), "");
}

TEST(Collapse, RefusesGroupsOfUnequalNodes) {
  // Tensor groups of four on nodes of six: {0..3} fits a node, {4..7} straddles two.
  Shape s{4, 2, 1, 6, 6, false, 5};
  const Both both = build(s);
  const std::string reason = why_not_collapsible(both.collapsed, costs_of(s));
  EXPECT_THAT(reason, HasSubstr("tensor group {0, 1, 2, 3}"));
  EXPECT_THAT(reason, HasSubstr("tensor group {4, 5, 6, 7}"));
  EXPECT_THROW(price(both.collapsed, costs_of(s)), Error);
  // And rightly so: the two groups don't keep time.
  const ReplayResult whole = replay(price(both.whole, costs_of(s)));
  bool differ = false;
  for (std::size_t op = 0; op < whole.timelines[0].spans.size(); ++op) {
    differ = differ || whole.timelines[0].spans[op].end != whole.timelines[4].spans[op].end;
  }
  EXPECT_TRUE(differ);
}

TEST(Collapse, RefusesUnequalSharing) {
  // Two stages of three replicas; replicas 0 and 1 send over one card, replica 2 over another.
  std::vector<Builder> ranks;
  for (int r = 0; r < 6; ++r) {
    ranks.emplace_back(r);
    const Group channel{GroupKind::pipeline_forward, {r % 3, r % 3 + 3}};
    if (r < 3) ranks.back().transfer(OpKind::send, StreamKind::pipeline_send_next, channel, {100});
    if (r >= 3) ranks.back().transfer(OpKind::receive, StreamKind::pipeline_receive_previous, channel, {100});
  }
  const CostSource costs =
      toy::costs([](const OpShape&, const Group& group) { return std::vector<LinkId>{group.ranks[0] / 2}; });
  const World collapsed{{&ranks[0].program, &ranks[3].program}, {0, 0, 0, 1, 1, 1}};
  EXPECT_THAT(why_not_collapsible(collapsed, costs), HasSubstr("share their links with different flows"));
  const ReplayResult whole = replay(price(whole_world(toy::programs_of(ranks)), costs));
  EXPECT_EQ(whole.timelines[0].end, 200);
  EXPECT_EQ(whole.timelines[2].end, 100);
}

TEST(Collapse, SiblingsOnOneCardSlowEachOther) {
  // The same with all three on one card: equivalent, and three times as slow.
  std::vector<Builder> ranks{Builder(0), Builder(3)};
  const Group channel{GroupKind::pipeline_forward, {0, 3}};
  ranks[0].transfer(OpKind::send, StreamKind::pipeline_send_next, channel, {100, 10});
  ranks[1].transfer(OpKind::receive, StreamKind::pipeline_receive_previous, channel, {100, 10});
  const World world{toy::programs_of(ranks), {0, 0, 0, 1, 1, 1}};
  const CostSource costs = toy::costs([](const OpShape&, const Group&) { return std::vector<LinkId>{0}; });
  EXPECT_EQ(why_not_collapsible(world, costs), "");
  EXPECT_EQ(replay(price(world, costs)).step, 10 + 3 * 90);
}

TEST(Collapse, RefusesRepresentativesOfDifferentGroups) {
  // Rank 1 stands for the second stage but is not the peer of rank 0.
  std::vector<Builder> ranks{Builder(0), Builder(3)};
  ranks[0].transfer(OpKind::send, StreamKind::pipeline_send_next, {GroupKind::pipeline_forward, {0, 2}}, {1});
  ranks[1].transfer(OpKind::receive, StreamKind::pipeline_receive_previous, {GroupKind::pipeline_forward, {1, 3}}, {1});
  const World world{toy::programs_of(ranks), {0, 0, 1, 1}};
  EXPECT_THAT(why_not_collapsible(world, toy::costs()), HasSubstr("not its representative, rank 3"));
}

TEST(Collapse, RefusesGroupsThatDoNotTileTheirRole) {
  std::vector<Builder> ranks{Builder(0)};
  ranks[0].transfer(OpKind::all_reduce, StreamKind::tensor, {GroupKind::tensor, {0, 1}}, {1});
  const World world{toy::programs_of(ranks), {0, 0, 0}};
  EXPECT_THAT(why_not_collapsible(world, toy::costs()), HasSubstr("has no image for every rank"));
}

}  // namespace
}  // namespace benchsuite
