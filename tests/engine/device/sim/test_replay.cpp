// Hand-computed programs: every expected instant follows from the comment beside it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/core/error.h"
#include "tests/engine/device/sim/toy.h"

namespace benchsuite {
namespace {

using testing::HasSubstr;
using toy::Builder;
using toy::expect_span;

const Group kPair{GroupKind::tensor, {0, 1}};
const Group kForward01{GroupKind::pipeline_forward, {0, 1}};
constexpr auto kTensor = StreamKind::tensor;

TEST(Replay, StreamRunsItsOpsInOrder) {
  std::vector<Builder> ranks{Builder(0)};
  ranks[0].compute(5);
  ranks[0].compute(0);
  ranks[0].compute(7);
  const auto result = toy::run_whole(ranks);
  expect_span(result.timelines[0].spans[0], 0, 0, 5);
  expect_span(result.timelines[0].spans[1], 5, 5, 5);
  expect_span(result.timelines[0].spans[2], 5, 5, 12);
  EXPECT_EQ(result.timelines[0].end, 12);
  EXPECT_EQ(result.step, 12);
}

TEST(Replay, StreamsRunSideBySideAndWaitsOrderThem) {
  const Group self{GroupKind::tensor, {0}};
  std::vector<Builder> ranks{Builder(0)};
  const OpId a = ranks[0].compute(10);
  const OpId gather = ranks[0].transfer(OpKind::all_gather, kTensor, self, {30}, {a});
  const OpId free = ranks[0].compute(8);             // waits for nothing: beside the gather
  const OpId needs = ranks[0].compute(1, {gather});  // 10 + 30
  const auto result = toy::run_whole(ranks);
  expect_span(result.timelines[0].spans[gather], 10, 10, 40);
  expect_span(result.timelines[0].spans[free], 10, 10, 18);
  expect_span(result.timelines[0].spans[needs], 40, 40, 41);
}

TEST(Replay, CollectiveStartsWhenTheLastMemberArrives) {
  std::vector<Builder> ranks{Builder(0), Builder(1)};
  for (int r = 0; r < 2; ++r) {
    const OpId before = ranks[static_cast<std::size_t>(r)].compute(r == 0 ? 3 : 11);
    ranks[static_cast<std::size_t>(r)].transfer(OpKind::all_reduce, kTensor, kPair, {20}, {before});
  }
  const auto result = toy::run_whole(ranks);
  expect_span(result.timelines[0].spans[1], 3, 11, 31);
  expect_span(result.timelines[1].spans[1], 11, 11, 31);
}

TEST(Replay, PointToPointChainsThroughStages) {
  // 0 computes 4, sends (2) to 1, which computes 5 and sends (2) to 2, which computes 1.
  const Group forward12{GroupKind::pipeline_forward, {1, 2}};
  std::vector<Builder> ranks{Builder(0), Builder(1), Builder(2)};
  const auto next = StreamKind::pipeline_send_next, previous = StreamKind::pipeline_receive_previous;
  const OpId c0 = ranks[0].compute(4);
  ranks[0].transfer(OpKind::send, next, kForward01, {2}, {c0});
  const OpId r1 = ranks[1].transfer(OpKind::receive, previous, kForward01, {2});
  const OpId c1 = ranks[1].compute(5, {r1});
  ranks[1].transfer(OpKind::send, next, forward12, {2}, {c1});
  const OpId r2 = ranks[2].transfer(OpKind::receive, previous, forward12, {2});
  ranks[2].compute(1, {r2});
  const auto result = toy::run_whole(ranks);
  expect_span(result.timelines[0].spans[1], 4, 4, 6);
  expect_span(result.timelines[1].spans[0], 0, 4, 6);
  expect_span(result.timelines[1].spans[1], 6, 6, 11);
  expect_span(result.timelines[2].spans[0], 0, 11, 13);
  expect_span(result.timelines[2].spans[1], 13, 13, 14);
  EXPECT_EQ(result.timelines[0].end, 6);
  EXPECT_EQ(result.step, 14);
}

TEST(Replay, ChannelsAreDirected) {
  // Both ranks send to each other at once: two channels, no interference.
  const Group forward10{GroupKind::pipeline_forward, {1, 0}};
  std::vector<Builder> ranks{Builder(0), Builder(1)};
  ranks[0].transfer(OpKind::send, StreamKind::pipeline_send_next, kForward01, {9});
  ranks[0].transfer(OpKind::receive, StreamKind::pipeline_receive_previous, forward10, {4});
  ranks[1].transfer(OpKind::send, StreamKind::pipeline_send_next, forward10, {4});
  ranks[1].transfer(OpKind::receive, StreamKind::pipeline_receive_previous, kForward01, {9});
  const auto result = toy::run_whole(ranks);
  expect_span(result.timelines[0].spans[0], 0, 0, 9);
  expect_span(result.timelines[0].spans[1], 0, 0, 4);
}

// Four ranks, two pairs; both groups load link 0.
std::vector<Builder> two_pairs(Picoseconds first_at, toy::Price first, Picoseconds second_at, toy::Price second) {
  std::vector<Builder> ranks;
  for (int r = 0; r < 4; ++r) {
    ranks.emplace_back(r);
    const OpId before = ranks.back().compute(r < 2 ? first_at : second_at);
    const Group group{GroupKind::tensor, r < 2 ? std::vector<int>{0, 1} : std::vector<int>{2, 3}};
    ranks.back().transfer(OpKind::all_reduce, kTensor, group, r < 2 ? first : second, {before});
  }
  return ranks;
}

TEST(Replay, TwoFlowsShareALink) {
  const auto one_link = toy::costs([](const OpShape&, const Group&) { return std::vector<LinkId>{0}; });
  // First alone 0..40 (40 of 100 done), both 40..160 (60 each of the second's 80), second alone: 20 left, ends at 180.
  const auto result = toy::run_whole(two_pairs(0, {100}, 40, {80}), one_link);
  expect_span(result.timelines[0].spans[1], 0, 0, 160);
  expect_span(result.timelines[3].spans[1], 40, 40, 180);
  // On links of their own nothing changes pace.
  const auto own = toy::costs([](const OpShape&, const Group& group) { return std::vector<LinkId>{group.ranks[0]}; });
  const auto apart = toy::run_whole(two_pairs(0, {100}, 40, {80}), own);
  EXPECT_EQ(apart.timelines[0].spans[1].end, 100);
  EXPECT_EQ(apart.timelines[3].spans[1].end, 120);
}

TEST(Replay, LatencyDoesNotGrowOnASharedLink) {
  const auto one_link = toy::costs([](const OpShape&, const Group&) { return std::vector<LinkId>{0}; });
  // Equal flows, 30 of latency and 70 of transfer: together each takes 30 + 2 x 70.
  const auto result = toy::run_whole(two_pairs(0, {100, 30}, 0, {100, 30}), one_link);
  EXPECT_EQ(result.step, 170);
}

TEST(Replay, ThreeWaySharingIsExactOverASecond) {
  // Three flows of a third of a second each on one link take a second to the picosecond.
  std::vector<Builder> ranks;
  for (int r = 0; r < 6; ++r) {
    ranks.emplace_back(r);
    const int first = r / 2 * 2;
    ranks.back().transfer(OpKind::all_reduce, kTensor, {GroupKind::tensor, {first, first + 1}}, {333'333'333'333});
  }
  const auto one_link = toy::costs([](const OpShape&, const Group&) { return std::vector<LinkId>{0}; });
  EXPECT_EQ(toy::run_whole(ranks, one_link).step, 999'999'999'999);
}

TEST(Replay, FlowGoesAtThePaceOfItsMostLoadedLink) {
  // Group {0,1} crosses links 0 and 1; {2,3} only link 1; {4,5} only link 0; {6,7} only link 1.
  std::vector<Builder> ranks;
  for (int r = 0; r < 8; ++r) {
    ranks.emplace_back(r);
    const int first = r / 2 * 2;
    ranks.back().transfer(OpKind::all_reduce, kTensor, {GroupKind::tensor, {first, first + 1}},
                          {first == 0 ? 60 : 600});
  }
  const auto links = toy::costs([](const OpShape&, const Group& group) {
    switch (group.ranks[0]) {
      case 0:
        return std::vector<LinkId>{0, 1};
      case 4:
        return std::vector<LinkId>{0};
      default:
        return std::vector<LinkId>{1};
    }
  });
  const auto result = toy::run_whole(ranks, links);
  EXPECT_EQ(result.timelines[0].spans[0].end, 180);            // link 1 carries three flows
  EXPECT_EQ(result.timelines[4].spans[0].end, 180 / 2 + 600);  // half pace for 180, then alone: 180 + 510
  EXPECT_EQ(result.timelines[2].spans[0].end, 180 + 2 * 540);  // a third of 180 done, then two flows
}

TEST(Replay, ResidentKernelsAndComputeSlowEachOther) {
  // A kernel that asks for 25 % of the SMs from 10 on: waits until 30 for its peer, then transfers. 1250 permille are asked
  // for while compute runs beside it, so both take 1.25 times as long: 20 become 25.
  std::vector<Builder> ranks{Builder(0), Builder(1)};
  const OpId first = ranks[0].compute(10);
  ranks[0].transfer(OpKind::all_gather, kTensor, kPair, {20, 0, 250}, {first});
  const OpId beside = ranks[0].compute(100);
  const OpId before = ranks[1].compute(30);
  ranks[1].transfer(OpKind::all_gather, kTensor, kPair, {20, 0, 250}, {before});
  const auto result = toy::run_whole(ranks);
  expect_span(result.timelines[0].spans[1], 10, 30, 55);
  // 45 ps at four fifths do 36; the other 64 at full pace.
  expect_span(result.timelines[0].spans[beside], 10, 10, 119);
  EXPECT_EQ(result.timelines[1].spans[0].end, 30);  // nothing resident on rank 1 by then
}

TEST(Replay, SeveralResidentKernelsAddUp) {
  const Group a{GroupKind::tensor, {0}}, b{GroupKind::data, {0}};
  std::vector<Builder> ranks{Builder(0)};
  ranks[0].transfer(OpKind::all_gather, kTensor, a, {100, 0, 300});
  ranks[0].transfer(OpKind::all_reduce, StreamKind::data, b, {50, 0, 200});
  const OpId op = ranks[0].compute(100);
  // 1500 permille until the second transfer ends: its 50 take 75, the first's first 50 too. Then 1300: the other 50 take
  // 65. Compute does 75 x 0.666 + 65 x 0.769 = 99.935 by then (paces are whole permille) and ends within a picosecond.
  const auto result = toy::run_whole(ranks);
  EXPECT_EQ(result.timelines[0].spans[1].end, 75);
  EXPECT_EQ(result.timelines[0].spans[0].end, 140);
  EXPECT_EQ(result.timelines[0].spans[op].end, 141);
}

TEST(Replay, MemoryIsSharedByWhatUsesIt) {
  const Group self{GroupKind::tensor, {0}};
  // Bound by memory, 90 % of it, no SMs: beside a transfer of 60 % both take 1.5 times as long, whatever SMs it holds.
  std::vector<Builder> ranks{Builder(0)};
  ranks[0].transfer(OpKind::all_gather, kTensor, self, {100, 0, 300, 600});
  const OpId streaming = ranks[0].compute({100, 0, 900});
  const auto result = toy::run_whole(ranks);
  EXPECT_EQ(result.timelines[0].spans[0].end, 150);
  EXPECT_EQ(result.timelines[0].spans[streaming].end, 151);  // at 666 permille
  // Together under the whole: nobody slows.
  std::vector<Builder> light{Builder(0)};
  light[0].transfer(OpKind::all_gather, kTensor, self, {100, 0, 300, 600});
  const OpId op = light[0].compute({100, 0, 400});
  const auto apart = toy::run_whole(light);
  EXPECT_EQ(apart.timelines[0].spans[0].end, 100);
  EXPECT_EQ(apart.timelines[0].spans[op].end, 100);
}

TEST(Replay, ATransferGoesAtThePaceOfItsBusiestMember) {
  // Rank 1 computes 80 from 0 on, rank 0 nothing: the pair's transfer (20 % of the SMs) starts at once at 1000/1200 of
  // its pace; compute ends after 80 x 1200/1000 (at 833 permille: 97 ps), by when 97/1.2 of the 100 are done.
  std::vector<Builder> ranks{Builder(0), Builder(1)};
  ranks[1].compute(80);
  for (Builder& rank : ranks) rank.transfer(OpKind::all_gather, kTensor, kPair, {100, 0, 200});
  const auto result = toy::run_whole(ranks);
  EXPECT_EQ(result.timelines[1].spans[0].end, 97);
  EXPECT_EQ(result.timelines[0].spans[0].end, 117);  // 97 + (100 - 80.83), rounded up
  EXPECT_EQ(result.timelines[1].spans[1].end, 117);
}

TEST(Replay, NothingStartsBeforeItsLaunch) {
  const Group self{GroupKind::tensor, {0}};
  std::vector<Builder> ranks{Builder(0)};
  const OpId first = ranks[0].compute(2);    // launched at 3 + 10
  const OpId second = ranks[0].compute(30);  // launched at 23: the device is idle from 15 on
  const OpId gather = ranks[0].transfer(OpKind::all_gather, kTensor, self, {5});  // launched at 33
  const OpId third = ranks[0].compute(4);    // launched at 43, while the second runs: the host has run ahead
  const auto result = toy::run_whole(ranks, toy::costs({}, {10, 3}));
  expect_span(result.timelines[0].spans[first], 13, 13, 15);
  expect_span(result.timelines[0].spans[second], 23, 23, 53);
  expect_span(result.timelines[0].spans[gather], 33, 33, 38);
  expect_span(result.timelines[0].spans[third], 53, 53, 57);
}

TEST(Replay, ALaunchInTheMiddleOfComputeTakesItsShareFromThen) {
  const Group self{GroupKind::tensor, {0}};
  std::vector<Builder> ranks{Builder(0)};
  const OpId first = ranks[0].compute(100);   // launched at 60
  const OpId second = ranks[0].compute(100);  // launched at 120
  const OpId gather = ranks[0].transfer(OpKind::all_gather, kTensor, self, {1000, 0, 250});  // launched at 180
  const OpId third = ranks[0].compute(80);    // launched at 240
  const auto result = toy::run_whole(ranks, toy::costs({}, {60}));
  expect_span(result.timelines[0].spans[first], 60, 60, 160);
  expect_span(result.timelines[0].spans[second], 160, 160, 280);  // 20 at full pace, 80 at four fifths
  expect_span(result.timelines[0].spans[third], 280, 280, 380);
  EXPECT_EQ(result.timelines[0].spans[gather].start, 180);
}

TEST(Replay, AnOpThatJoinsALaunchCostsTheHostLess) {
  std::vector<Builder> ranks{Builder(0)};
  const OpId first = ranks[0].compute(1);   // launched at 10
  const OpId joined = ranks[0].compute(1);  // at 12
  const OpId next = ranks[0].compute(1);    // at 22
  ranks[0].program.ops[joined].joins_launch = true;
  const auto result = toy::run_whole(ranks, toy::costs({}, {.per_op = 10, .per_joined = 2}));
  expect_span(result.timelines[0].spans[first], 10, 10, 11);
  expect_span(result.timelines[0].spans[joined], 12, 12, 13);
  expect_span(result.timelines[0].spans[next], 22, 22, 23);
}

TEST(Replay, EveryKernelOfAnOpIsALaunch) {
  std::vector<Builder> ranks{Builder(0)};
  const OpId first = ranks[0].compute(1);
  ranks[0].program.shapes[0].extra_kernels = 2;  // launched at 30
  const auto result = toy::run_whole(ranks, toy::costs({}, {.per_op = 10}));
  expect_span(result.timelines[0].spans[first], 30, 30, 31);
}

// CUDA_LAUNCH_BLOCKING: nothing is launched while anything runs, so every launch shows.
TEST(Replay, BlockingLaunchesAddToEveryOp) {
  std::vector<Builder> ranks{Builder(0)};
  const Group self{GroupKind::tensor, {0}};
  ranks[0].compute(100);
  const OpId second = ranks[0].compute(100);
  const OpId gather = ranks[0].transfer(OpKind::all_gather, kTensor, self, {100}, {second});
  const auto result = toy::run_whole(ranks, toy::costs({}, {.per_op = 10, .blocking = true}));
  expect_span(result.timelines[0].spans[second], 110, 110, 220);
  expect_span(result.timelines[0].spans[gather], 220, 220, 330);
}

TEST(Replay, AnOpThatWaitsStartsWhenBothItsWaitAndItsLaunchAreOver) {
  std::vector<Builder> ranks{Builder(0)};
  const Group self{GroupKind::tensor, {0}};
  const OpId gather = ranks[0].transfer(OpKind::all_gather, kTensor, self, {100});  // 10 .. 110
  const OpId late = ranks[0].compute(1, {gather});
  const OpId later = ranks[0].compute(1);
  const auto result = toy::run_whole(ranks, toy::costs({}, {10, 0}));
  expect_span(result.timelines[0].spans[late], 110, 110, 111);
  expect_span(result.timelines[0].spans[later], 111, 111, 112);
}

TEST(Replay, CollapsedRoleMeetsOnce) {
  // Two ranks of one role: the rendezvous needs one arrival only.
  std::vector<Builder> ranks{Builder(0)};
  ranks[0].transfer(OpKind::all_reduce, kTensor, kPair, {12});
  World world{toy::programs_of(ranks), {0, 0}};
  EXPECT_EQ(replay(price(world, toy::costs())).step, 12);
}

std::string message_of(const std::vector<Builder>& ranks) {
  try {
    toy::run_whole(ranks);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::run);
    return error.what();
  }
  return "no error";
}

TEST(ReplayDeadlock, NamesWhoWaitsForWhom) {
  // Rank 0 reduces before it gathers; rank 1 gathers first, on another group's stream, and waits for the reduction.
  const Group other{GroupKind::data, {0, 1}};
  std::vector<Builder> ranks{Builder(0), Builder(1)};
  const OpId reduce0 = ranks[0].transfer(OpKind::all_reduce, kTensor, kPair, {1}, {}, {Phase::backward, 2, 0, 7});
  ranks[0].transfer(OpKind::all_gather, StreamKind::data, other, {1}, {reduce0}, {Phase::forward, 3, 0, 5});
  const OpId gather1 =
      ranks[1].transfer(OpKind::all_gather, StreamKind::data, other, {1}, {}, {Phase::forward, 3, 0, 5});
  ranks[1].transfer(OpKind::all_reduce, kTensor, kPair, {1}, {gather1}, {Phase::backward, 2, 0, 7});
  const std::string message = message_of(ranks);
  EXPECT_THAT(message,
              HasSubstr("rank 0: all_reduce of layer 7, micro-batch 2 (backward, stream tensor, op 0) waits for "
                        "operation 0 of tensor group {0, 1}: missing rank 1, whose all_reduce of layer 7, "
                        "micro-batch 2 (backward, stream tensor, op 1) has not started"));
  EXPECT_THAT(message,
              HasSubstr("rank 0: all_gather of layer 5, micro-batch 3 (forward, stream data, op 1) waits for "
                        "all_reduce of layer 7, micro-batch 2 (backward, stream tensor, op 0) of the same rank"));
  EXPECT_THAT(message, HasSubstr("rank 1: all_gather of layer 5, micro-batch 3 (forward, stream data, op 0) waits for "
                                 "operation 0 of data group {0, 1}: missing rank 0"));
}

TEST(ReplayDeadlock, NamesAMemberThatNeverPosts) {
  std::vector<Builder> ranks{Builder(0), Builder(1)};
  ranks[0].transfer(OpKind::send, StreamKind::pipeline_send_next, kForward01, {1});
  ranks[1].compute(5);
  EXPECT_THAT(message_of(ranks), HasSubstr("missing rank 1, which never posts it"));
}

TEST(ReplayMismatch, DifferentCollectivesOfOneGroupDoNotMeet) {
  std::vector<Builder> ranks{Builder(0), Builder(1)};
  ranks[0].transfer(OpKind::all_reduce, kTensor, kPair, {1});
  ranks[1].transfer(OpKind::all_gather, kTensor, kPair, {1});
  EXPECT_THAT(message_of(ranks), HasSubstr("rank 1 posts all_gather"));
}

TEST(ReplayMismatch, DifferentSizesDoNotMeet) {
  std::vector<Builder> ranks{Builder(0), Builder(1)};
  ranks[0].transfer(OpKind::all_reduce, kTensor, kPair, {1}, {}, {}, 64);
  ranks[1].transfer(OpKind::all_reduce, kTensor, kPair, {1}, {}, {}, 65);
  EXPECT_THAT(message_of(ranks), HasSubstr("of 65 elements"));
}

TEST(ReplayMismatch, TwoSendersOfOneChannelDoNotMeet) {
  std::vector<Builder> ranks{Builder(0), Builder(1)};
  ranks[0].transfer(OpKind::send, StreamKind::pipeline_send_next, kForward01, {1});
  ranks[1].transfer(OpKind::send, StreamKind::pipeline_send_next, kForward01, {1});
  EXPECT_THAT(message_of(ranks), HasSubstr("rank 1 posts send"));
}

TEST(ReplayRules, ComputeStaysOnItsStreamAndAGroupOnOne) {
  std::vector<Builder> ranks{Builder(0)};
  const Group self{GroupKind::tensor, {0}};
  ranks[0].transfer(OpKind::all_gather, kTensor, self, {1});
  ranks[0].transfer(OpKind::all_gather, StreamKind::data, self, {1});
  EXPECT_THROW(toy::run_whole(ranks), Error);
  std::vector<Builder> misplaced{Builder(0)};
  misplaced[0].compute(1);
  misplaced[0].program.ops[0].stream = kTensor;
  EXPECT_THROW(toy::run_whole(misplaced), Error);
}

}  // namespace
}  // namespace benchsuite
