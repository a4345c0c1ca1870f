// Features of a stack that exclude one another, and what the engine doesn't have.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/train/config_fixture.h"

namespace benchsuite {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

// What sim times but nothing computes is fine to run on sim and refused where numbers are wanted.
TEST(Validate, SomeConfigurationsAreTimedOnly) {
  const auto both = [](auto change) {
    TrainConfig config = good();
    change(config);
    return std::pair{validate(config, "c.json", Wanted::times).size(), validate(config, "c.json", Wanted::numbers)};
  };
  const auto expect_timed_only = [&](auto change, const char* line) {
    const auto [timed, numbers] = both(change);
    EXPECT_EQ(timed, 0u) << line;
    ASSERT_EQ(numbers.size(), 1u) << line;
    EXPECT_THAT(to_string(numbers.front()), HasSubstr(line));
  };
  expect_timed_only([](TrainConfig& c) { c.layout.cp = 2, c.layout.attention = AttentionKernel::flash; },
                    "layout.cp = 2: context parallelism is timed on device sim alone; set it to 1");
  expect_timed_only([](TrainConfig& c) { c.layout.precision = DType::fp8; },
                    "layout.precision = \"fp8\": this precision is timed on device sim alone; set it to \"bf16\" or \"fp32\"");
  expect_timed_only([](TrainConfig& c) { c.layout.precision = DType::fp16; }, "layout.precision = \"fp16\"");
  expect_timed_only([](TrainConfig& c) { c.stack.framework_loss = true; },
                    "stack.framework_loss = true: this is timed on device sim alone; set it to false");
  expect_timed_only([](TrainConfig& c) { c.stack.separate_gate_linear = true; }, "stack.separate_gate_linear = true");
  expect_timed_only([](TrainConfig& c) { c.stack.adds_scores_bias = true; }, "stack.adds_scores_bias = true");
}

TEST(Validate, ParameterGatherOverlapsByTheBucketsOfGradientReduction) {
  EXPECT_THAT(lines([](TrainConfig& c) { c.stack.overlaps_parameter_gather = true; }),
              ElementsAre(HasSubstr("stack.overlaps_parameter_gather = true: parameters are gathered by the buckets whose gradient "
                                    "reductions overlap, and stack.overlaps_gradient_reduction is false; set "
                                    "stack.overlaps_gradient_reduction to true")));
  EXPECT_THAT(
      lines([](TrainConfig& c) { c.stack.overlaps_parameter_gather = c.stack.overlaps_gradient_reduction = true; }),
      ElementsAre());
}

TEST(Validate, FeaturesThatExcludeEachOther) {
  EXPECT_THAT(lines([](TrainConfig& c) {
                c.stack.all_reduces_in_fp32 = true;
                c.layout.zero_stage = 2, c.layout.dp = 2, c.layout.global_batch = 64;
              }),
              ElementsAre(HasSubstr("stack.all_reduces_in_fp32 = true: ZeRO stages 2 and 3 scatter the sums of gradients; set it "
                                    "to false, or layout.zero_stage to 0 or 1")));
  EXPECT_THAT(lines([](TrainConfig& c) {
                c.stack.launch_blocking = true;
                c.stack.overlaps_tensor_backward = true;
              }),
              ElementsAre(HasSubstr("stack.launch_blocking = true: nothing overlaps while the host waits for every kernel")));
  EXPECT_THAT(lines([](TrainConfig& c) {
                c.stack.launch_blocking = c.stack.cuda_graphs = true;
                c.stack.overlaps_tensor_backward = false;
              }),
              ElementsAre(HasSubstr("a captured step is launched once")));
  EXPECT_THAT(lines([](TrainConfig& c) {
                c.stack.casts_added_gradients = true;
                c.stack.gradient_dtype = DType::fp32, c.stack.fused_gradient_accumulation = true;
              }),
              ElementsAre(HasSubstr("stack.casts_added_gradients = true: products add to the gradients")));
  EXPECT_THAT(lines([](TrainConfig& c) {
                c.stack.casts_added_gradients = true;
                c.stack.gradient_dtype = DType::bf16, c.stack.fused_gradient_accumulation = false;
              }),
              ElementsAre(HasSubstr("16-bit gradients are added as they are")));
}

TEST(Validate, InputsKeptWholeAreNotGatheredInTilesOrAgain) {
  EXPECT_THAT(lines([](TrainConfig& c) { c.stack.keeps_gathered_inputs = c.layout.sequence_parallel = true; }), ElementsAre());
  EXPECT_THAT(lines([](TrainConfig& c) {
                c.stack.keeps_gathered_inputs = c.stack.overlaps_tensor_gemms = c.layout.sequence_parallel = true;
              }),
              ElementsAre(HasSubstr("stack.keeps_gathered_inputs = true: inputs of linears are kept whole, and "
                                    "stack.overlaps_tensor_gemms gathers them tile by tile; set one of them to false")));
  EXPECT_THAT(lines([](TrainConfig& c) {
                c.stack.keeps_gathered_inputs = c.layout.sequence_parallel = true;
                c.layout.recompute = {.granularity = RecomputeGranularity::selective, .modules = {RecomputeModule::layernorm}};
              }),
              ElementsAre(HasSubstr("recompute of layernorm gathers them again; set it to false, or leave layernorm out")));
}

TEST(Validate, TensorOverlapNeedsSequenceParallelism) {
  EXPECT_THAT(lines([](TrainConfig& c) { c.stack.overlaps_tensor_gemms = true; }),
              ElementsAre("c.json: stack.overlaps_tensor_gemms = true: products overlap with the gathers and scatters of "
                          "sequence parallelism, and layout.sequence_parallel is false; set layout.sequence_parallel to true, "
                          "or stack.overlaps_tensor_gemms to false"));
  EXPECT_THAT(lines([](TrainConfig& c) { c.stack.overlaps_tensor_gemms = c.layout.sequence_parallel = true; }),
              ElementsAre());
  EXPECT_THAT(lines([](TrainConfig& c) { c.stack.overlaps_tensor_gemms = true, c.layout.tp = 1; }), ElementsAre());
}

// megatron-core transformer_config.py and cuda_graphs.py: what recompute, CUDA graphs and offloading exclude.
TEST(Validate, WholeLayersAreNotRecomputedInsideGraphsOfLayerParts) {
  const auto full = [](TrainConfig& c) {
    c.layout.recompute.granularity = RecomputeGranularity::full;
    c.stack.cuda_graphs = true;
    c.stack.cuda_graph_scope = {.full_iteration = false, .mlp = true};
  };
  TrainConfig config = good();
  full(config);
  ASSERT_EQ(validate(config, "c.json", Wanted::times).size(), 1u);
  EXPECT_EQ(to_string(validate(config, "c.json", Wanted::times).front()),
            "c.json: layout.recompute.granularity = \"full\": whole layers cannot be recomputed when CUDA graphs capture parts "
            "of a layer (stack.cuda_graph_scope); recompute modules (granularity \"selective\"), set stack.cuda_graphs to "
            "false, or capture whole steps (stack.cuda_graph_scope \"full_iteration\")");
  for (const auto remedy : {+[](TrainConfig& c) { c.layout.recompute.granularity = RecomputeGranularity::selective; },
                            +[](TrainConfig& c) { c.stack.cuda_graphs = false; },
                            +[](TrainConfig& c) { c.stack.cuda_graph_scope = {}; }}) {
    TrainConfig cured = config;
    remedy(cured);
    EXPECT_TRUE(validate(cured, "c.json", Wanted::times).empty());
  }
}

TEST(Validate, DistributedActivationsNeedTensorRanksAndWholeSequences) {
  TrainConfig config = good();
  config.layout.recompute = {.granularity = RecomputeGranularity::full, .distribute_saved_activations = true};
  EXPECT_TRUE(validate(config, "c.json", Wanted::times).empty());
  config.layout.sequence_parallel = true;
  ASSERT_EQ(validate(config, "c.json", Wanted::times).size(), 1u);
  EXPECT_EQ(to_string(validate(config, "c.json", Wanted::times).front()),
            "c.json: layout.recompute.distribute_saved_activations = true: under sequence parallelism every kept input is split "
            "over the tensor ranks already; set it to false, or layout.sequence_parallel to false");
  config.layout.sequence_parallel = false;
  config.layout.tp = 1;
  ASSERT_EQ(validate(config, "c.json", Wanted::times).size(), 1u);
  EXPECT_EQ(validate(config, "c.json", Wanted::times).front().key, "layout.recompute.distribute_saved_activations");
}

TEST(Validate, OffloadingIsRefusedFirstOfAllWithAPipeline) {
  EXPECT_THAT(lines([](TrainConfig& c) { c.layout.cpu_offloading = true; }),
              ElementsAre("c.json: layout.cpu_offloading = true: activations cannot be offloaded to the host with a pipeline: "
                          "layout.pp is 4; set it to false and recompute instead (layout.recompute), or set layout.pp to 1"));
  EXPECT_THAT(lines([](TrainConfig& c) { c.layout.cpu_offloading = true, c.layout.pp = 1; }),
              ElementsAre(HasSubstr("offloading activations to the host is not in the engine; set it to false")));
}

TEST(Validate, WhatTheEngineDoesNotHave) {
  EXPECT_THAT(lines([](TrainConfig& c) { c.layout.zero_stage = 2; }), ElementsAre());
  EXPECT_THAT(lines([](TrainConfig& c) { c.layout.zero_stage = 3; }), ElementsAre());
  EXPECT_THAT(lines([](TrainConfig& c) { c.layout.zero_stage = 4; }),
              ElementsAre(HasSubstr("c.json: layout.zero_stage = 4: there is no such ZeRO stage; set it to 0")));
  EXPECT_THAT(lines([](TrainConfig& c) { c.layout.cp = 2, c.layout.attention = AttentionKernel::unfused; }),
              ElementsAre("c.json: layout.cp = 2: context parallelism needs fused attention; set layout.attention to \"flash\""));
  EXPECT_THAT(lines([](TrainConfig& c) { c.layout.cp = 0; }), ElementsAre(HasSubstr("layout.cp = 0: must ")));
  EXPECT_THAT(lines([](TrainConfig& c) {
                c.layout.cp = 8, c.layout.tp = 4, c.model.seq = 2064, c.layout.sequence_parallel = true;
                c.layout.attention = AttentionKernel::flash;
              }),
              ElementsAre(HasSubstr("model.seq = 2064: is not a multiple of layout.cp x layout.tp = 32")));
  EXPECT_THAT(
      lines([](TrainConfig& c) { c.layout.ep = 2; }),
      ElementsAre("c.json: layout.ep = 2: expert parallelism is not in the engine: its models are dense; set it to "
                  "1"));
  EXPECT_THAT(
      lines([](TrainConfig& c) { c.layout.precision = DType::int32; }),
      ElementsAre("c.json: layout.precision = \"int32\": this precision is not in the engine; set it to \"bf16\", "
                  "\"fp16\", \"fp8\" or \"fp32\""));
  EXPECT_THAT(
      lines([](TrainConfig& c) { c.model.kv_heads = 8; }),
      ElementsAre("c.json: model.kv_heads = 8: family gpt has as many key-value heads as heads; set it to 40 or "
                  "leave it out"));
  EXPECT_THAT(lines([](TrainConfig& c) { c.model.kv_heads = 10; }),
              ElementsAre(HasSubstr("family gpt has as many"),
                          HasSubstr("model.kv_heads = 10: is not a multiple of layout.tp = 4")));
  EXPECT_THAT(lines([](TrainConfig& c) { c.stack.gradient_dtype = DType::fp8; }),
              ElementsAre("c.json: stack.gradient_dtype = \"fp8\": gradients cannot accumulate in this type; set it to "
                          "\"fp32\" or \"bf16\""));
  EXPECT_THAT(lines([](TrainConfig& c) { c.stack.bucket_elements = 0; }),
              ElementsAre("c.json: stack.bucket_elements = 0: must be at least 1; set it to 1 or more"));
  EXPECT_THAT(
      lines([](TrainConfig& c) {
        c.layout.placement = TensorPlacement::across_nodes;
        c.layout.tp = 1;
      }),
      ElementsAre("c.json: layout.placement = \"across_nodes\": there is no tensor group to spread: layout.tp is 1; "
                  "set it to \"packed\" or layout.tp to 2 or more"));
}

}  // namespace
}  // namespace benchsuite
