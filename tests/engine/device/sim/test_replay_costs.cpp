// The replay on a CostModel: prices and links of a profile reach the event loop.
#include <gtest/gtest.h>

#include "engine/device/sim/cost_model.h"
#include "tests/engine/device/sim/toy.h"

namespace benchsuite {
namespace {

using toy::Builder;

/// Two nodes of two GPUs, one card each of 1 GB/s: 1000 bytes cross in a microsecond, plus half a microsecond.
HardwareProfile one_card() {
  HardwareProfile profile;
  profile.name = "one card";
  profile.gpus_per_node = 2;
  profile.sm_count = 100;
  profile.memory_bandwidth = 1e12;
  profile.peak_flops[DType::bf16] = 1e15;
  profile.nics_per_node = 1;
  profile.nic_bandwidth = 1e9;
  profile.nic_latency_s = 0.5e-6;
  return profile;
}

const Placement kTwoNodes{2, {0, 0, 1, 1}, {0, 1, 0, 1}};

/// The rank's only op: 500 elements of two bytes.
void post(Builder& out, OpKind kind, StreamKind stream, const Group& channel) {
  out.transfer(kind, stream, channel, {}, {}, {}, 500);
  out.program.shapes[0].dtype = out.program.shapes[0].out_dtype = DType::bf16;
}

TEST(ReplayCosts, ReplicasShareTheCardOfTheirNode) {
  std::vector<Builder> ranks;
  for (int r = 0; r < 4; ++r) {
    ranks.emplace_back(r);
    const Group channel{GroupKind::pipeline_forward, {r % 2, r % 2 + 2}};
    if (r < 2) post(ranks.back(), OpKind::send, StreamKind::pipeline_send_next, channel);
    if (r >= 2) post(ranks.back(), OpKind::receive, StreamKind::pipeline_receive_previous, channel);
  }
  const HardwareProfile profile = one_card();
  const CostModel costs(profile, kTwoNodes);
  const ReplayResult whole = replay(whole_world(toy::programs_of(ranks)), costs);
  EXPECT_EQ(whole.step, 500'000 + 2 * 1'000'000);
  const World collapsed{{&ranks[0].program, &ranks[2].program}, {0, 0, 1, 1}};
  EXPECT_EQ(why_not_collapsible(collapsed, costs), "");
  EXPECT_EQ(replay(collapsed, costs).step, whole.step);
}

}  // namespace
}  // namespace benchsuite
