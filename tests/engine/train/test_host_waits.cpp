// Before which passes the host waits, as the softwares' schedules have it: Megatron-LM's p2p_communication.py and data.py,
// DeepSpeed's pipeline engine, and Aleph Alpha's communicator.py and attention.py.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "engine/train/step.h"

namespace benchsuite {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr HostWaits kMegatron{.inputs = true, .exchanges = true, .pieces = false};
constexpr HostWaits kDeepSpeed{.inputs = true, .exchanges = false, .pieces = true};

TrainConfig pipeline(std::int64_t stages, std::int64_t micro_batches, const HostWaits& waits) {
  TrainConfig config;
  config.model = {.name = "tiny", .layers = 4, .hidden = 64, .ffn_hidden = 256, .heads = 4, .kv_heads = 4, .seq = 32,
                  .vocab = 512};
  config.layout.attention = AttentionKernel::unfused;
  config.layout.pp = stages;
  config.layout.global_batch = micro_batches;
  config.stack.overlaps_pipeline = config.stack.overlaps_pipeline_interleaved = false;
  config.stack.host_waits = waits;
  return config;
}

/// The passes before which the host waits on a rank, in recording order: "F0", of a chunk "F0.1"; "*" where the op is a gather,
/// ">" where it is a send.
std::vector<std::string> waited(const TrainConfig& config, int rank) {
  std::vector<std::string> found;
  for (const Op& op : record_step(config, rank).program.ops) {
    if (!op.host_waits) continue;
    std::string name = (op.phase == Phase::forward ? "F" : "B") + std::to_string(op.micro_batch);
    if (config.layout.vpp > 1) name += "." + std::to_string(op.chunk);
    found.push_back(name + (op.kind == OpKind::all_gather ? "*" : op.kind == OpKind::send ? ">" : ""));
  }
  return found;
}

TEST(HostWaitsOfAStep, NoneUnlessTheStackSaysSo) {
  EXPECT_THAT(waited(pipeline(2, 3, {}), 0), IsEmpty());
  EXPECT_THAT(waited(pipeline(2, 3, {}), 1), IsEmpty());
}

TEST(HostWaitsOfAStep, InputsBeforeForwardPassesOfTheFirstAndTheLastStage) {
  constexpr HostWaits kInputs{.inputs = true, .exchanges = false, .pieces = false};
  EXPECT_THAT(waited(pipeline(1, 3, kInputs), 0), ElementsAre("F0", "F1", "F2"));
  EXPECT_THAT(waited(pipeline(4, 2, kInputs), 0), ElementsAre("F0", "F1"));
  EXPECT_THAT(waited(pipeline(4, 2, kInputs), 1), IsEmpty());
  EXPECT_THAT(waited(pipeline(4, 2, kInputs), 3), ElementsAre("F0", "F1"));
}

// 1F1B, two stages: F0 F1 B0 F2 B1 B2 on the first, which sends forward and receives backward; F0 B0 F1 B1 F2 B2 on the last.
TEST(HostWaitsOfAStep, EveryExchangeOfOneForwardOneBackward) {
  constexpr HostWaits kExchanges{.inputs = false, .exchanges = true, .pieces = false};
  EXPECT_THAT(waited(pipeline(2, 3, kExchanges), 0), ElementsAre("F1", "B0", "B1", "B2"));
  EXPECT_THAT(waited(pipeline(2, 3, kExchanges), 1), ElementsAre("F0", "F1", "F2"));
  EXPECT_THAT(waited(pipeline(2, 3, kMegatron), 0), ElementsAre("F0", "F1", "B0", "F2", "B1", "B2"));
  EXPECT_THAT(waited(pipeline(4, 2, kMegatron), 1), ElementsAre("F0", "F1", "B0", "B1")) << "a middle stage";
}

// Two stages of two chunks, four micro-batches. The last warms up with two forward passes; then pairs exchange behind their
// backward pass, whose own input came with the exchange before.
TEST(HostWaitsOfAStep, InterleavedPairsExchangeTogether) {
  TrainConfig config = pipeline(2, 4, kMegatron);
  config.layout.vpp = 2;
  config.layout.schedule = ScheduleKind::interleaved;
  EXPECT_THAT(waited(config, 1), ElementsAre("F0.0", "F1.0", "F0.1", "F1.1", "F2.0", "F3.0", "F2.1", "F3.1",
                                             "B2.0", "B3.0"));
}

TEST(HostWaitsOfAStep, OverlappedExchangesAndCapturedStepsHaveNone) {
  TrainConfig config = pipeline(2, 3, {.inputs = false, .exchanges = true, .pieces = false});
  config.stack.overlaps_pipeline = true;
  EXPECT_THAT(waited(config, 0), IsEmpty());
  config = pipeline(2, 3, kMegatron);
  config.stack.cuda_graphs = true;
  EXPECT_THAT(waited(config, 0), IsEmpty());
  config.stack.cuda_graph_scope = {.full_iteration = false, .mlp = true};
  EXPECT_FALSE(waited(config, 0).empty());
}

// What came in pieces is gathered behind the wait; forward passes that load inputs wait as ever.
TEST(HostWaitsOfAStep, TensorsThatComeInPieces) {
  TrainConfig config = pipeline(4, 1, kDeepSpeed);
  EXPECT_THAT(waited(config, 2), IsEmpty()) << "whole tensors";
  config.stack.scatters_pipeline_activations = true;
  EXPECT_THAT(waited(config, 2), IsEmpty()) << "one tensor rank";
  config.layout.tp = 2;
  EXPECT_THAT(waited(config, 0), ElementsAre("F0", "B0*"));
  EXPECT_THAT(waited(config, 4), ElementsAre("F0*", "B0*")) << "the third stage";
  EXPECT_THAT(waited(config, 6), ElementsAre("F0*")) << "the last";
  config.layout.sequence_parallel = true;
  EXPECT_THAT(waited(config, 4), IsEmpty());
}

// Objects beside activations: copied to the device before a send (what the last stage sends back has none), read behind a receive.
// A send's op carries its micro-batch: F0> is the wait before activations of micro-batch 0 are sent.
TEST(HostWaitsOfAStep, ObjectsBesideActivations) {
  constexpr HostWaits kObjects{.objects = true};
  EXPECT_THAT(waited(pipeline(1, 3, kObjects), 0), IsEmpty());
  EXPECT_THAT(waited(pipeline(2, 3, kObjects), 0), ElementsAre("F0>", "F1>", "F2>"));
  EXPECT_THAT(waited(pipeline(2, 3, kObjects), 1), ElementsAre("F0", "F1", "F2"));
  EXPECT_THAT(waited(pipeline(4, 2, kObjects), 1), ElementsAre("F0", "F0>", "F1", "F1>")) << "a middle stage";
  TrainConfig overlapped = pipeline(2, 3, kObjects);
  overlapped.stack.overlaps_pipeline = true;
  EXPECT_THAT(waited(overlapped, 1), ElementsAre("F0", "F1", "F2")) << "what is hidden is read all the same";
}

// Once in each forward pass of each layer, before the op that is told: the flash kernel, or the softmax with its mask. Recomputed
// passes read it again.
TEST(HostWaitsOfAStep, SequenceLengthsInEveryForwardPassOfALayer) {
  const auto waits = [](const TrainConfig& config) {
    std::vector<std::string> found;
    for (const Op& op : record_step(config, 0).program.ops) {
      if (!op.host_waits) continue;
      EXPECT_TRUE(op.kind == OpKind::flash_attention || op.kind == OpKind::softmax) << static_cast<int>(op.kind);
      found.push_back(std::to_string(op.layer) + (op.phase == Phase::forward ? "f" : op.phase == Phase::recompute ? "r" : "b"));
    }
    return found;
  };
  TrainConfig config = pipeline(2, 1, {.sequence_lengths = true});  // two layers of four on the first stage
  EXPECT_THAT(waits(config), ElementsAre("0f", "1f"));
  config.layout.attention = AttentionKernel::flash;
  EXPECT_THAT(waits(config), ElementsAre("0f", "1f"));
  config.layout.recompute.granularity = RecomputeGranularity::full;
  EXPECT_THAT(waits(config), ElementsAre("0f", "1f", "1r", "0r"));
  config.stack.cuda_graphs = true;
  EXPECT_THAT(waits(config), IsEmpty());
}

// It changes nothing but the host's clock.
TEST(HostWaitsOfAStep, AreAllThatDiffers) {
  const Program with = record_step(pipeline(2, 3, kMegatron), 1).program;
  const Program without = record_step(pipeline(2, 3, {}), 1).program;
  EXPECT_EQ(with.waits, without.waits);
  EXPECT_EQ(with.arena_bytes, without.arena_bytes);
  ASSERT_EQ(with.ops.size(), without.ops.size());
  for (std::size_t id = 0; id < with.ops.size(); ++id) {
    EXPECT_EQ(with.ops[id].kind, without.ops[id].kind);
    EXPECT_EQ(with.ops[id].stream, without.ops[id].stream);
  }
}

}  // namespace
}  // namespace benchsuite
