#include "engine/parallel/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace benchsuite {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kSmallest = R"("tp": 4, "pp": 2, "dp": 1, "micro_batch": 2, "global_batch": 16)";

struct Parsed {
  Layout layout;
  std::vector<std::string> problems;
};

/// The smallest layout with more keys.
Parsed parse(const std::string& more) {
  const Json json = parse_json(std::string("{") + kSmallest + (more.empty() ? "" : ", " + more) + "}", "c.json");
  std::vector<Violation> problems;
  Parsed parsed{read_layout(json, "c.json", "layout", problems), {}};
  for (const Violation& problem : problems) parsed.problems.push_back(to_string(problem));
  return parsed;
}

TEST(Layout, DefaultsAreTheDocumentedOnes) {
  const auto [layout, problems] = parse("");
  EXPECT_THAT(problems, ElementsAre());
  EXPECT_EQ(layout.tp, 4);
  EXPECT_EQ(layout.pp, 2);
  EXPECT_EQ(layout.dp, 1);
  EXPECT_EQ(layout.micro_batch, 2);
  EXPECT_EQ(layout.global_batch, 16);
  EXPECT_EQ(layout.vpp, 1);
  EXPECT_EQ(layout.cp, 1);
  EXPECT_EQ(layout.ep, 1);
  EXPECT_FALSE(layout.sequence_parallel);
  EXPECT_EQ(layout.recompute.granularity, RecomputeGranularity::none);
  EXPECT_EQ(layout.zero_stage, 0);
  EXPECT_EQ(layout.precision, DType::bf16);
  EXPECT_EQ(layout.attention, AttentionKernel::flash);
  EXPECT_EQ(layout.placement, TensorPlacement::packed);
  EXPECT_EQ(layout.schedule, ScheduleKind::one_f_one_b);
  EXPECT_EQ(layout.microbatch_group, 0);
  EXPECT_EQ(layout.world(), 8);
  EXPECT_EQ(layout.micro_batches(), 8);
  EXPECT_EQ(layout.group(), 2);
}

TEST(Layout, EveryKeyIsRead) {
  const auto [layout, problems] = parse(
      R"("vpp": 3, "cp": 5, "ep": 7, "sequence_parallel": true, "zero_stage": 1, "precision": "fp32",
         "attention": "unfused", "placement": "across_nodes", "schedule": "interleaved", "microbatch_group": 4,
         "recompute": {"granularity": "full", "method": "block", "num_layers": 2})");
  EXPECT_THAT(problems, ElementsAre());
  EXPECT_EQ(layout.vpp, 3);
  EXPECT_EQ(layout.cp, 5);
  EXPECT_EQ(layout.ep, 7);
  EXPECT_TRUE(layout.sequence_parallel);
  EXPECT_EQ(layout.zero_stage, 1);
  EXPECT_EQ(layout.precision, DType::fp32);
  EXPECT_EQ(layout.attention, AttentionKernel::unfused);
  EXPECT_EQ(layout.placement, TensorPlacement::across_nodes);
  EXPECT_EQ(layout.schedule, ScheduleKind::interleaved);
  EXPECT_EQ(layout.microbatch_group, 4);
  EXPECT_EQ(layout.group(), 4);
  EXPECT_EQ(layout.recompute.granularity, RecomputeGranularity::full);
  EXPECT_EQ(layout.recompute.method, RecomputeMethod::block);
  EXPECT_EQ(layout.recompute.num_layers, 2);
}

TEST(Layout, RoundTripThroughJson) {
  for (
      const char* more :
      {"", R"("recompute": "full")", R"("recompute": "selective")",
       R"("recompute": {"granularity": "selective", "modules": ["mlp", "layernorm"]}, "precision": "fp16")",
       R"("recompute": {"granularity": "full", "method": "block", "num_layers": 3}, "schedule": "gpipe",
           "zero_stage": 1)",
       R"("vpp": 2, "schedule": "interleaved", "microbatch_group": 4, "placement": "across_nodes", "precision": "fp8",
           "sequence_parallel": true, "attention": "unfused", "cp": 2, "ep": 3)",
       R"("recompute": {"granularity": "full", "method": "uniform", "num_layers": 1, "distribute_saved_activations": true},
           "layer_split": {"first_stage": 3, "last_stage": 1}, "cpu_offloading": true)",
       R"("layer_split": {"counts_embedding": true, "counts_loss": true})"}) {
    const Layout layout = parse(more).layout;
    std::vector<Violation> problems;
    const Layout again = read_layout(to_json(layout), "c.json", "", problems);
    EXPECT_TRUE(problems.empty()) << more;
    EXPECT_EQ(again, layout) << more;
  }
}

TEST(Layout, MissingKeysAreAllListed) {
  std::vector<Violation> problems;
  read_layout(Json::object(), "c.json", "layout", problems);
  std::vector<std::string> keys;
  for (const Violation& problem : problems) keys.push_back(problem.key);
  EXPECT_THAT(keys, ElementsAre("layout.tp", "layout.pp", "layout.dp", "layout.micro_batch", "layout.global_batch"));
}

TEST(Layout, UnknownKeysAndWordsAreGuessed) {
  EXPECT_THAT(
      parse(R"("microbatch": 3, "schedule": "interleavd", "precision": "bf15", "zero": 2)").problems,
      ElementsAre(HasSubstr("layout.precision = \"bf15\": not a known choice; did you mean \"bf16\"?"),
                  HasSubstr("layout.schedule = \"interleavd\": not a known choice; did you mean \"interleaved\"?"),
                  HasSubstr("layout.microbatch = 3: unknown key; did you mean \"micro_batch\"?"),
                  HasSubstr("layout.zero = 2: unknown key")));
}

TEST(Layout, LayerSplit) {
  const Layout layout = parse(R"("layer_split": {"first_stage": 3, "counts_loss": true})").layout;
  EXPECT_EQ(layout.layer_split, (LayerSplit{.first_stage = 3, .counts_loss = true}));
  EXPECT_FALSE(layout.layer_split.even());
  EXPECT_TRUE(parse("").layout.layer_split.even());
  EXPECT_THAT(parse(R"("layer_split": {"first": 3})").problems,
              ElementsAre(HasSubstr("layout.layer_split.first = 3: unknown key")));
}

TEST(Recompute, ModulesOfOtherModelsAreRefusedWithTheReason) {
  EXPECT_THAT(parse(R"("recompute": {"granularity": "selective", "modules": ["moe_act", "mla_up_proj", "mlp"]})").problems,
              ElementsAre(HasSubstr("\"moe_act\" is a module of models the engine does not have: its layers are dense"),
                          HasSubstr("\"mla_up_proj\" is a module of models the engine does not have")));
}

TEST(Recompute, DistributedActivationsBelongToFullRecompute) {
  EXPECT_THAT(parse(R"("recompute": {"granularity": "selective", "distribute_saved_activations": true})").problems,
              ElementsAre(HasSubstr("layout.recompute.distribute_saved_activations = true: means nothing with granularity "
                                    "\"selective\"; remove it or set granularity to \"full\"")));
}

// Recompute -----------------------------------------------------------------------------------------------------------

TEST(Recompute, Shorthands) {
  EXPECT_EQ(parse(R"("recompute": "none")").layout.recompute.granularity, RecomputeGranularity::none);
  const RecomputeConfig selective = parse(R"("recompute": "selective")").layout.recompute;
  EXPECT_EQ(selective.granularity, RecomputeGranularity::selective);
  EXPECT_THAT(selective.modules, ElementsAre(RecomputeModule::core_attn));
  const RecomputeConfig full = parse(R"("recompute": "full")").layout.recompute;
  EXPECT_EQ(full.granularity, RecomputeGranularity::full);
  EXPECT_EQ(full.method, RecomputeMethod::uniform);
  EXPECT_EQ(full.num_layers, 1);
}

TEST(Recompute, SelectsOnlyWhenSelective) {
  RecomputeConfig recompute;
  EXPECT_FALSE(recompute.selects(RecomputeModule::core_attn)) << "granularity none";
  recompute.granularity = RecomputeGranularity::selective;
  EXPECT_TRUE(recompute.selects(RecomputeModule::core_attn));
  EXPECT_FALSE(recompute.selects(RecomputeModule::mlp));
  recompute.granularity = RecomputeGranularity::full;
  EXPECT_FALSE(recompute.selects(RecomputeModule::core_attn));
}

TEST(Recompute, FullNeedsMethodAndNumLayers) {
  EXPECT_THAT(
      parse(R"("recompute": {"granularity": "full"})").problems,
      ElementsAre("c.json: layout.recompute.method: full recompute needs a method; add \"method\": \"uniform\" "
                  "(all layers, in chunks of num_layers) or \"block\" (the first num_layers of each chunk)",
                  "c.json: layout.recompute.num_layers: full recompute needs the number of layers; add "
                  "\"num_layers\": 1, or more to keep fewer inputs (uniform) or recompute more layers (block)"));
}

TEST(Recompute, KeysOfAnotherGranularityAreRefused) {
  EXPECT_THAT(parse(R"("recompute": {"granularity": "selective", "method": "block", "num_layers": 2})").problems,
              ElementsAre("c.json: layout.recompute.method = \"block\": means nothing with granularity \"selective\"; "
                          "remove it or set granularity to \"full\"",
                          "c.json: layout.recompute.num_layers = 2: means nothing with granularity \"selective\"; "
                          "remove it or set granularity to \"full\""));
  EXPECT_THAT(
      parse(R"("recompute": {"granularity": "none", "modules": ["mlp"]})").problems,
      ElementsAre("c.json: layout.recompute.modules = [\"mlp\"]: means nothing with granularity \"none\"; remove "
                  "it or set granularity to \"selective\""));
}

TEST(Recompute, Modules) {
  EXPECT_THAT(
      parse(R"("recompute": {"granularity": "selective", "modules": ["mlp", "layernorm"]})").layout.recompute.modules,
      ElementsAre(RecomputeModule::mlp, RecomputeModule::layernorm));
  EXPECT_THAT(parse(R"("recompute": {"granularity": "selective", "modules": []})").problems,
              ElementsAre("c.json: layout.recompute.modules = []: selective recompute of nothing; name at least one of "
                          "core_attn, layernorm, mlp, or set granularity to \"none\""));
  EXPECT_THAT(parse(R"("recompute": {"granularity": "selective", "modules": ["core_atn", "mlp", "mlp"]})").problems,
              ElementsAre(HasSubstr("\"core_atn\" is not a module that can be recomputed; did you mean \"core_attn\"? "
                                    "(core_attn, layernorm, mlp)"),
                          HasSubstr("\"mlp\" stands there twice; name each module once")));
  EXPECT_THAT(parse(R"("recompute": {"granularity": "selective", "modules": "mlp"})").problems,
              ElementsAre(HasSubstr("layout.recompute.modules = \"mlp\": must be a list of strings")));
}

TEST(Recompute, WrongShapes) {
  EXPECT_THAT(parse(R"("recompute": true)").problems,
              ElementsAre(HasSubstr("layout.recompute = true: must be an object or one of")));
  EXPECT_THAT(
      parse(R"("recompute": "selectiv")").problems,
      ElementsAre(HasSubstr("layout.recompute = \"selectiv\": not a known choice; did you mean \"selective\"?")));
  EXPECT_THAT(parse(R"("recompute": {"method": "uniform"})").problems,
              ElementsAre(HasSubstr("layout.recompute.granularity: missing")));
  EXPECT_THAT(parse(R"("recompute": {"granularity": "none", "numlayers": 1})").problems,
              ElementsAre(HasSubstr("layout.recompute.numlayers = 1: unknown key; did you mean \"num_layers\"?")));
}

}  // namespace
}  // namespace benchsuite
