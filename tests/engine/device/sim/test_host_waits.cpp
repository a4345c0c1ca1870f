// The host's clock where it waits for the device: launches are prefix sums from the last wait.
#include <gtest/gtest.h>

#include <string>

#include "tests/engine/device/sim/toy.h"

namespace benchsuite {
namespace {

using toy::Builder;
using toy::expect_span;

TEST(HostWaits, LaunchesFollowTheWaitOneByOne) {
  std::vector<Builder> ranks{Builder(0)};
  const OpId first = ranks[0].compute(100);
  const OpId waited = ranks[0].compute(5);  // the host waits from 10 to 110
  const OpId next = ranks[0].compute(5);
  const OpId again = ranks[0].compute(5);   // from 130 to 135
  ranks[0].program.ops[waited].host_waits = ranks[0].program.ops[again].host_waits = true;
  const auto result = toy::run_whole(ranks, toy::costs({}, {.per_op = 10}));
  expect_span(result.timelines[0].spans[first], 10, 10, 110);
  expect_span(result.timelines[0].spans[waited], 120, 120, 125);
  expect_span(result.timelines[0].spans[next], 130, 130, 135);
  expect_span(result.timelines[0].spans[again], 145, 145, 150);
}

TEST(HostWaits, AHostThatIsBehindTheDeviceWaitsForNothing) {
  const Group self{GroupKind::tensor, {0}};
  std::vector<Builder> ranks{Builder(0)};
  ranks[0].compute(5);  // 13 .. 18
  for (int i = 0; i < 3; ++i) ranks[0].transfer(OpKind::all_gather, StreamKind::tensor, self, {1});  // launched at 23, 33, 43
  const OpId waited = ranks[0].compute(5);
  ranks[0].program.ops[waited].host_waits = true;
  const auto result = toy::run_whole(ranks, toy::costs({}, {.per_op = 10, .first = 3}));
  expect_span(result.timelines[0].spans[waited], 53, 53, 58);
}

// On whatever stream the wait stands: ready long before or at the same instant, what is recorded behind it is launched behind it.
TEST(HostWaits, WhatIsRecordedBehindAWaitIsLaunchedBehindIt) {
  const Group self{GroupKind::tensor, {0}}, other{GroupKind::data, {0}};
  std::vector<Builder> ranks{Builder(0)};
  const OpId first = ranks[0].compute(100);  // 10 .. 110
  const OpId waited = ranks[0].transfer(OpKind::all_reduce, StreamKind::data, other, {5}, {first});
  const OpId ready = ranks[0].transfer(OpKind::all_gather, StreamKind::tensor, self, {7});
  const OpId later = ranks[0].compute(4);
  ranks[0].program.ops[waited].host_waits = true;
  const auto result = toy::run_whole(ranks, toy::costs({}, {.per_op = 10}));
  expect_span(result.timelines[0].spans[waited], 120, 120, 125);
  expect_span(result.timelines[0].spans[ready], 130, 130, 137);
  expect_span(result.timelines[0].spans[later], 140, 140, 144);
}

// CUDA_LAUNCH_BLOCKING is the same, but that the profile's host adds the launch to the op's own time.
TEST(HostWaits, BeforeEveryOpAreBlockingLaunches) {
  std::vector<Builder> ranks{Builder(0)};
  for (int i = 0; i < 4; ++i) ranks[0].compute(7);
  const auto blocking = toy::run_whole(ranks, toy::costs({}, {.per_op = 10, .first = 3, .blocking = true}));
  for (Op& op : ranks[0].program.ops) op.host_waits = true;
  const auto result = toy::run_whole(ranks, toy::costs({}, {.per_op = 10, .first = 3}));
  for (OpId id = 0; id < 4; ++id) {
    const Picoseconds end = 3 + (10 + 7) * (Picoseconds{id} + 1);
    expect_span(result.timelines[0].spans[id], end - 7, end - 7, end);
    EXPECT_EQ(blocking.timelines[0].spans[id].end, end);
  }
}

// The kernels queued before a wait keep running; only what comes behind it is late.
TEST(HostWaits, WhatWasLaunchedBeforeRunsOn) {
  const Group self{GroupKind::tensor, {0}}, other{GroupKind::data, {0}};
  std::vector<Builder> ranks{Builder(0)};
  const OpId first = ranks[0].compute(40);                                                    // 10 .. 50
  const OpId gather = ranks[0].transfer(OpKind::all_gather, StreamKind::tensor, self, {90});  // 20 .. 110
  const OpId later = ranks[0].transfer(OpKind::all_gather, StreamKind::tensor, self, {30});   // launched at 30
  const OpId reduce = ranks[0].transfer(OpKind::all_reduce, StreamKind::data, other, {25}, {first});  // 50 .. 75
  const OpId waited = ranks[0].compute(5, {reduce});                                          // the host waits until 75
  const OpId next = ranks[0].compute(5, {later});
  ranks[0].program.ops[waited].host_waits = true;
  const auto result = toy::run_whole(ranks, toy::costs({}, {.per_op = 10}));
  expect_span(result.timelines[0].spans[gather], 20, 20, 110);
  expect_span(result.timelines[0].spans[later], 110, 110, 140);
  expect_span(result.timelines[0].spans[waited], 85, 85, 90);
  expect_span(result.timelines[0].spans[next], 140, 140, 145);
}

// The wait comes behind what its own stream still has to do.
TEST(HostWaits, AWaitBehindARunningOpOfItsStreamHoldsOtherStreamsBack) {
  const Group self{GroupKind::tensor, {0}}, other{GroupKind::data, {0}};
  std::vector<Builder> ranks{Builder(0)};
  const OpId before = ranks[0].transfer(OpKind::all_reduce, StreamKind::data, other, {200});  // 10 .. 210
  const OpId waited = ranks[0].transfer(OpKind::all_reduce, StreamKind::data, other, {5});
  const OpId ready = ranks[0].transfer(OpKind::all_gather, StreamKind::tensor, self, {7});
  ranks[0].program.ops[waited].host_waits = true;
  const auto result = toy::run_whole(ranks, toy::costs({}, {.per_op = 10}));
  expect_span(result.timelines[0].spans[before], 10, 10, 210);
  expect_span(result.timelines[0].spans[waited], 220, 220, 225);
  expect_span(result.timelines[0].spans[ready], 230, 230, 237);
}

// Before a collective as before compute: a tensor that came in pieces is joined when they are there.
TEST(HostWaits, BeforeACollective) {
  const Group self{GroupKind::tensor, {0}}, other{GroupKind::data, {0}};
  std::vector<Builder> ranks{Builder(0)};
  const OpId receive = ranks[0].transfer(OpKind::all_reduce, StreamKind::data, other, {100});                     // 10 .. 110
  const OpId gather = ranks[0].transfer(OpKind::all_gather, StreamKind::tensor, self, {20}, {receive});
  const OpId next = ranks[0].compute(5, {gather});
  ranks[0].program.ops[gather].host_waits = true;
  const auto result = toy::run_whole(ranks, toy::costs({}, {.per_op = 10}));
  expect_span(result.timelines[0].spans[gather], 120, 120, 140);
  expect_span(result.timelines[0].spans[next], 140, 140, 145);
}

TEST(HostWaits, CostNothingWhereLaunchesDo) {
  std::vector<Builder> ranks{Builder(0)};
  ranks[0].compute(100);
  const OpId waited = ranks[0].compute(5);
  ranks[0].program.ops[waited].host_waits = true;
  expect_span(toy::run_whole(ranks).timelines[0].spans[waited], 100, 100, 105);
}

/// Forward passes of `micro_batches` through two stages: n ops each, which take no time, and a transfer between.
std::vector<Builder> two_stages(int micro_batches, int n, bool host_waits) {
  const Group channel{GroupKind::pipeline_forward, {0, 1}};
  std::vector<Builder> ranks{Builder(0), Builder(1)};
  for (int i = 0; i < micro_batches; ++i) {
    OpId last = kNone;
    for (int k = 0; k < n; ++k) last = ranks[0].compute(0);
    ranks[0].transfer(OpKind::send, StreamKind::pipeline_send_next, channel, {}, {last});
    std::vector<OpId> waits = {ranks[1].transfer(OpKind::receive, StreamKind::pipeline_receive_previous, channel, {})};
    for (int k = 0; k < n; ++k) {
      last = ranks[1].compute(0, waits);
      ranks[1].program.ops[last].host_waits = host_waits && k == 0;
      waits.clear();
    }
  }
  return ranks;
}

// Launches alone take time, L each. A host that runs ahead of its receives hides the pipeline's start behind it: m (n + 1) L,
// what each stage launches. One that waits for them has it: the second stage launches its n ops of the last micro-batch
// after the first stage is done.
TEST(HostWaits, APipelineBoundByLaunchesHasItsBubble) {
  constexpr Picoseconds kLaunch = 10;
  for (const int m : {1, 3, 8}) {
    for (const int n : {1, 4, 7}) {
      const auto makespan = [&](bool host_waits) {
        return toy::run_whole(two_stages(m, n, host_waits), toy::costs({}, {.per_op = kLaunch})).step;
      };
      EXPECT_EQ(makespan(false), m * (n + 1) * kLaunch) << m << " micro-batches of " << n << " ops";
      EXPECT_EQ(makespan(true), (m * (n + 1) + n) * kLaunch) << m << " micro-batches of " << n << " ops";
    }
  }
}

}  // namespace
}  // namespace benchsuite
