#include "engine/parallel/stack.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

namespace benchsuite {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Stack read_file(const std::string& name) {
  const std::string path = std::string(BENCHSUITE_SOURCE_DIR) + "/cases/stacks/" + name + ".json";
  std::vector<Violation> problems;
  const Stack stack = read_stack(parse_json_file(path), path, "", problems);
  for (const Violation& problem : problems) ADD_FAILURE() << to_string(problem);
  return stack;
}

std::vector<std::string> problems_of(const Json& json) {
  std::vector<Violation> problems;
  read_stack(json, "s.json", "", problems);
  std::vector<std::string> lines;
  for (const Violation& problem : problems) lines.push_back(to_string(problem));
  return lines;
}

TEST(Stacks, EveryCommittedFileIsReadAndNamedAfterItself) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(BENCHSUITE_SOURCE_DIR) + "/cases/stacks")) {
    if (entry.path().extension() != ".json") continue;
    ++files;
    const Stack stack = read_file(entry.path().stem().string());
    EXPECT_EQ(stack.name, entry.path().stem().string());
    EXPECT_FALSE(stack.title.empty());
    EXPECT_FALSE(stack.source.empty());
    EXPECT_FALSE(stack.memory_source.empty());
  }
  EXPECT_GE(files, 3);
}

TEST(Stacks, MegatronCore) {
  const Stack stack = read_file("megatron-core");
  EXPECT_TRUE(stack.fused_bias_gelu);
  EXPECT_TRUE(stack.fused_bias_dropout_add);
  EXPECT_TRUE(stack.stores_dropout_masks);
  EXPECT_EQ(stack.gradient_dtype, DType::fp32);
  EXPECT_TRUE(stack.overlaps_tensor_backward);
  EXPECT_FALSE(stack.overlaps_pipeline);
  EXPECT_TRUE(stack.overlaps_pipeline_interleaved);
  EXPECT_FALSE(stack.overlaps_gradient_reduction);

  Stack overlap = read_file("megatron-core-overlap");
  EXPECT_TRUE(overlap.overlaps_gradient_reduction);
  overlap.name = stack.name;
  overlap.title = stack.title;
  overlap.source = stack.source;
  overlap.overlaps_gradient_reduction = false;
  EXPECT_EQ(overlap, stack) << "they differ in nothing else";
}

TEST(Stacks, Plain) {
  const Stack stack = read_file("plain");
  EXPECT_FALSE(stack.fused_bias_gelu);
  EXPECT_FALSE(stack.fused_bias_dropout_add);
  EXPECT_FALSE(stack.stores_dropout_masks);
  EXPECT_TRUE(stack.overlaps_tensor_backward);
  EXPECT_TRUE(stack.overlaps_pipeline);
  EXPECT_TRUE(stack.overlaps_pipeline_interleaved);
  EXPECT_TRUE(stack.overlaps_gradient_reduction);
  EXPECT_EQ(stack.workspace_bytes, 0);
}

TEST(Stacks, RoundTripThroughJson) {
  Stack stack = read_file("megatron-core");
  stack.gradient_dtype = DType::bf16;
  stack.overlaps_pipeline = true;
  stack.bucket_elements = 7;
  stack.context_bytes = 1;
  stack.communicator_bytes = 2;
  stack.workspace_bytes = 3;
  stack.segment_bytes = 4;
  stack.cuda_graphs = true;
  stack.step_fixed_s = 0.5;
  stack.host_source = "a page";
  stack.overlaps_tensor_gemms = true;
  stack.scatters_pipeline_activations = true;
  stack.cuda_graph_scope = {.full_iteration = false, .attention = true};
  stack.sharded_parameters.unit = ShardedParameterConfig::Unit::parameter;
  stack.sharded_parameters.synchronous = stack.sharded_parameters.by_lists = true;
  stack.fused_gradient_accumulation = false;
  stack.casts_added_gradients = stack.adds_scores_bias = true;
  stack.fused_softmax_batches = 4;
  stack.host_waits = {.inputs = true, .exchanges = false, .pieces = true, .objects = true};
  stack.overlaps_gradient_reduction = stack.overlaps_parameter_gather = true;
  std::vector<Violation> problems;
  EXPECT_EQ(read_stack(to_json(stack), "s.json", "", problems), stack);
  EXPECT_TRUE(problems.empty());
}

TEST(Stacks, EveryFeatureMustBeStated) {
  std::vector<Violation> problems;
  read_stack(Json::object(), "s.json", "stack", problems);
  std::vector<std::string> keys;
  for (const Violation& problem : problems) keys.push_back(problem.key);
  EXPECT_THAT(keys, ElementsAre("stack.name", "stack.title", "stack.source", "stack.fused_bias_gelu",
                                "stack.fused_bias_dropout_add", "stack.stores_dropout_masks", "stack.gradient_dtype",
                                "stack.overlaps_tensor_backward", "stack.overlaps_pipeline",
                                "stack.overlaps_pipeline_interleaved", "stack.overlaps_gradient_reduction"));
}

TEST(Stacks, BadValues) {
  Json json = to_json(read_file("plain"));
  json["gradient_dtype"] = "fp8";
  json["bucket_elements"] = 0;
  json["fused_softmax_batches"] = 0;
  json["workspace_bytes"] = -1;
  json["step_fixed_s"] = 0.1;
  json["host_source"] = "";
  json["fused_bias_glu"] = true;
  EXPECT_THAT(
      problems_of(json),
      ElementsAre(HasSubstr("fused_softmax_batches = 0: must be at least 1"),
                  HasSubstr("gradient_dtype = \"fp8\": not a known choice"),
                  HasSubstr("step_fixed_s = 0.1: has no source"),
                  "s.json: bucket_elements = 0: must be at least 1; write the least elements of a gradient bucket",
                  "s.json: workspace_bytes = -1: must not be negative; write a size in bytes, 0 if none is "
                  "documented",
                  HasSubstr("fused_bias_glu = true: unknown key; did you mean \"fused_bias_gelu\"?")));
}

TEST(Stacks, GraphScopes) {
  Json json = to_json(read_file("plain"));
  EXPECT_EQ(json["cuda_graph_scope"], "full_iteration");
  json["cuda_graph_scope"] = {"attn", "mlp"};
  std::vector<Violation> problems;
  const GraphScope both{.full_iteration = false, .attention = true, .mlp = true};
  EXPECT_EQ(read_stack(json, "s.json", "", problems).cuda_graph_scope, both);
  EXPECT_TRUE(problems.empty());
  json["cuda_graph_scope"] = {"attn", "moe_router", "head"};
  EXPECT_THAT(problems_of(json),
              ElementsAre(HasSubstr("\"moe_router\" is a part of models the engine does not have: its layers are dense; write "
                                    "\"full_iteration\", or a list of the layer parts captured: [\"attn\", \"mlp\"]"),
                          HasSubstr("\"head\" is not a part of a layer that can be captured")));
  json["cuda_graph_scope"] = "moe_router";  // one part alone is a list of one
  EXPECT_THAT(problems_of(json), ElementsAre(HasSubstr("\"moe_router\" is a part of models the engine does not have")));
  json["cuda_graph_scope"] = "mlp";
  const GraphScope mlp{.full_iteration = false, .mlp = true};
  EXPECT_EQ(read_stack(json, "s.json", "", problems).cuda_graph_scope, mlp);
  EXPECT_TRUE(problems.empty());
  json["cuda_graph_scope"] = Json::array();
  EXPECT_THAT(problems_of(json), ElementsAre(HasSubstr("cuda_graph_scope = []: names no scope")));
  json["cuda_graph_scope"] = {"mlp"};
  json["cuda_graphs"] = false;
  EXPECT_THAT(problems_of(json), ElementsAre(HasSubstr("cuda_graph_scope = [\"mlp\"]: means nothing without CUDA graphs; "
                                                       "remove it or set cuda_graphs to true")));
}

TEST(Stacks, WhatTheHostWaitsFor) {
  Json json = to_json(read_file("megatron-2021"));
  EXPECT_EQ(json["host_waits_for"], (Json{"inputs", "exchanges"}));
  std::vector<Violation> problems;
  const std::pair<const char*, HostWaits> each[] = {{"inputs", {.inputs = true, .exchanges = false, .pieces = false}},
                                                    {"exchanges", {.inputs = false, .exchanges = true, .pieces = false}},
                                                    {"pieces", {.inputs = false, .exchanges = false, .pieces = true}}};
  for (const auto& [name, waits] : each) {
    json["host_waits_for"] = Json::array({name});
    EXPECT_EQ(read_stack(json, "s.json", "", problems).host_waits, waits) << name;
  }
  json["host_waits_for"] = {"pieces", "exchanges"};
  const HostWaits two{.inputs = false, .exchanges = true, .pieces = true};
  EXPECT_EQ(read_stack(json, "s.json", "", problems).host_waits, two);
  EXPECT_TRUE(problems.empty());
  json["host_waits_for"] = {"exchanges", "kernels"};
  EXPECT_THAT(problems_of(json),
              ElementsAre(HasSubstr("\"kernels\" is nothing that the host waits for; write a list of \"inputs\", "
                                    "\"exchanges\", \"pieces\", \"objects\", \"sequence_lengths\"; [] where the host never waits")));
  json["host_waits_for"] = true;
  EXPECT_THAT(problems_of(json), ElementsAre(HasSubstr("host_waits_for = true: is not a list")));
  json["host_waits_for"] = {"sequence_lengths", "objects"};
  const HostWaits others{.objects = true, .sequence_lengths = true};
  EXPECT_EQ(read_stack(json, "s.json", "", problems).host_waits, others);
  EXPECT_TRUE(problems.empty());
  json["cuda_graphs"] = true;
  EXPECT_EQ(host_waits_of(read_stack(json, "s.json", "", problems)), HostWaits{}) << "whole steps are captured";
  json["cuda_graph_scope"] = {"mlp"};
  EXPECT_EQ(host_waits_of(read_stack(json, "s.json", "", problems)), others);
  EXPECT_TRUE(problems.empty());
  json["cuda_graph_scope"] = {"attn", "mlp"};
  EXPECT_THAT(problems_of(json), ElementsAre(HasSubstr("stops the host inside attention, which cuda_graph_scope captures")));
}

TEST(Stacks, MemoryNeedsASource) {
  Json json = to_json(read_file("plain"));
  json["memory_source"] = "";
  json["context_bytes"] = 1000;
  EXPECT_THAT(problems_of(json),
              ElementsAre("s.json: context_bytes = 1000: has no source; say in memory_source where the figure is "
                          "documented"));
}

}  // namespace
}  // namespace benchsuite
