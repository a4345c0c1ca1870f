// What a layout may be.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/train/config_fixture.h"

namespace benchsuite {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

TEST(Validate, AcceptsWhatTheEngineRuns) {
  EXPECT_THAT(lines([](TrainConfig&) {}), ElementsAre());
  EXPECT_THAT(lines([](TrainConfig& c) { c.layout.sequence_parallel = true; }), ElementsAre());
  EXPECT_THAT(lines([](TrainConfig& c) { c.layout.zero_stage = 1; }), ElementsAre());
  EXPECT_THAT(lines([](TrainConfig& c) { c.layout.precision = DType::fp32; }), ElementsAre());
  EXPECT_THAT(lines([](TrainConfig& c) { c.layout.schedule = ScheduleKind::gpipe; }), ElementsAre());
  EXPECT_THAT(lines([](TrainConfig& c) { c.layout.placement = TensorPlacement::across_nodes; }), ElementsAre());
  EXPECT_THAT(lines([](TrainConfig& c) { c.layout.recompute.granularity = RecomputeGranularity::selective; }),
              ElementsAre());
  EXPECT_THAT(lines([](TrainConfig& c) {
                c.layout.recompute.granularity = RecomputeGranularity::full;
                c.layout.recompute.num_layers = 10;
              }),
              ElementsAre());
  EXPECT_THAT(lines([](TrainConfig& c) {
                c.layout.vpp = 5;
                c.layout.schedule = ScheduleKind::interleaved;
              }),
              ElementsAre());
  EXPECT_THAT(lines([](TrainConfig& c) { c.model.dropout = 0; }), ElementsAre());
}

TEST(Validate, Divisibility) {
  EXPECT_THAT(lines([](TrainConfig& c) { c.model.heads = c.model.kv_heads = 36; }),
              ElementsAre(HasSubstr("c.json: model.hidden = 5120: is not a multiple of model.heads = 36; choose "
                                    "model.heads among ")));
  EXPECT_THAT(
      lines([](TrainConfig& c) { c.layout.tp = 3; }),
      ElementsAre("c.json: model.heads = 40: is not a multiple of layout.tp = 3; choose layout.tp among 1, 2, 4, "
                  "5, 8, 10, 20, 40, or model.heads = 39 or 42",
                  HasSubstr("c.json: model.ffn_hidden = 20480: is not a multiple of layout.tp = 3; choose layout.tp "
                            "among 1, 2, 4, 5, ")));
  EXPECT_THAT(
      lines([](TrainConfig& c) { c.model.ffn_hidden = 20482; }),
      ElementsAre("c.json: model.ffn_hidden = 20482: is not a multiple of layout.tp = 4; choose layout.tp among 1, "
                  "2, 7, 11, 14, 19, 22, 38, 49, 77, 98, 133, or model.ffn_hidden = 20480 or 20484"));
  EXPECT_THAT(
      lines([](TrainConfig& c) { c.layout.pp = 3; }),
      ElementsAre("c.json: model.layers = 40: is not a multiple of layout.pp x layout.vpp = 3 x 1 = 3; choose a "
                  "product among 1, 2, 4, 5, 8, 10, 20, 40, or model.layers = 39 or 42, or split unevenly (layout.layer_split)"));
  EXPECT_THAT(lines([](TrainConfig& c) {
                c.layout.vpp = 3;
                c.layout.schedule = ScheduleKind::interleaved;
              }),
              ElementsAre(HasSubstr("is not a multiple of layout.pp x layout.vpp = 4 x 3 = 12")));
  EXPECT_THAT(
      lines([](TrainConfig& c) { c.layout.global_batch = 30; }),
      ElementsAre("c.json: layout.global_batch = 30: is not a multiple of layout.micro_batch x layout.dp = 4 x 1 = "
                  "4, and all micro-batches must be equal; set it to 28 or 32"));
  EXPECT_THAT(lines([](TrainConfig& c) { c.layout.global_batch = 3; }), ElementsAre(HasSubstr("; set it to 4")));
}

// megatron-core: number of layers in the first and last stage, or the embedding and the loss counted as layers.
TEST(Validate, UnevenLayerSplits) {
  const auto split = [](TrainConfig& c, LayerSplit how) { c.layout.layer_split = how; };
  EXPECT_THAT(lines([](TrainConfig& c) { c.layout.layer_split = {.first_stage = 9, .last_stage = 11}; }), ElementsAre());
  EXPECT_THAT(lines([](TrainConfig& c) {
                c.model.layers = 38;
                c.layout.layer_split = {.counts_embedding = true, .counts_loss = true};
              }),
              ElementsAre());
  TrainConfig config = good();
  split(config, {.first_stage = 9});
  ASSERT_EQ(validate(config, "c.json", Wanted::times).size(), 1u);
  EXPECT_EQ(to_string(validate(config, "c.json", Wanted::times).front()),
            "c.json: layout.layer_split.first_stage = 9: leaves 31 of model.layers = 40 for 3 chunks of the other 3 stages; "
            "choose first_stage and last_stage so that every other chunk gets an equal number, at least 1");
  EXPECT_THAT(keys([](TrainConfig& c) { c.layout.layer_split.first_stage = 40; }),
              ElementsAre("layout.layer_split.first_stage"));
  EXPECT_THAT(keys([](TrainConfig& c) { c.layout.layer_split.last_stage = -1; }),
              ElementsAre("layout.layer_split.last_stage"));
  EXPECT_THAT(keys([](TrainConfig& c) {
                c.layout.vpp = 2, c.layout.schedule = ScheduleKind::interleaved;
                c.layout.layer_split.first_stage = 7;
              }),
              ElementsAre("layout.layer_split.first_stage"));
  EXPECT_THAT(lines([](TrainConfig& c) { c.layout.layer_split.counts_loss = true; }),
              ElementsAre(HasSubstr("layout.layer_split.counts_loss = true: makes 41 layers of 40, not a multiple of layout.pp x "
                                    "layout.vpp = 4; choose a product among 1, 41, or state first_stage and last_stage")));
  EXPECT_THAT(keys([](TrainConfig& c) { c.layout.layer_split = {.first_stage = 10, .counts_loss = true}; }),
              ElementsAre("layout.layer_split"));
  EXPECT_THAT(keys([](TrainConfig& c) { c.layout.pp = 1, c.layout.layer_split.first_stage = 10; }),
              ElementsAre("layout.layer_split"));
  EXPECT_THAT(lines([](TrainConfig& c) {  // the longest chunk has 11 layers
                c.layout.layer_split = {.first_stage = 9, .last_stage = 11};
                c.layout.recompute = {.granularity = RecomputeGranularity::full, .num_layers = 12};
              }),
              ElementsAre(HasSubstr("layout.recompute.num_layers = 12: must lie between 1 and the 11 layers")));
}

TEST(Validate, ListedStages) {
  const auto listed = [](std::vector<std::int64_t> stages) {
    TrainConfig config = good();
    config.layout.layer_split.stages = std::move(stages);
    std::vector<std::string> lines;
    for (const Violation& problem : validate(config, "c.json", Wanted::times)) lines.push_back(to_string(problem));
    return lines;
  };
  EXPECT_THAT(listed({11, 11, 10, 8}), ElementsAre());
  const auto refused = ElementsAre(HasSubstr("must hold layout.pp = 4 numbers, multiples of layout.vpp = 1, that add up to "
                                             "model.layers = 40; list the layers of every stage"));
  EXPECT_THAT(listed({20, 20}), refused);
  EXPECT_THAT(listed({10, 10, 10, 9}), refused);
  EXPECT_THAT(listed({20, 20, 0, 0}), refused);
  EXPECT_THAT(lines([](TrainConfig& c) {
                c.layout.layer_split.stages = {10, 10, 10, 10};
                c.layout.layer_split.first_stage = 10;
              }),
              ElementsAre(HasSubstr("layout.layer_split.stages = [10, 10, 10, 10]: a list is given beside another form")));
}

TEST(Validate, SequenceParallel) {
  EXPECT_THAT(
      lines([](TrainConfig& c) {
        c.layout.tp = 1;
        c.layout.sequence_parallel = true;
      }),
      ElementsAre("c.json: layout.sequence_parallel = true: sequence parallelism splits over the tensor ranks, and "
                  "layout.tp is 1; set it to false or layout.tp to 2 or more"));
  EXPECT_THAT(
      lines([](TrainConfig& c) {
        c.model.seq = 2046;
        c.layout.sequence_parallel = true;
      }),
      ElementsAre(HasSubstr("c.json: model.seq = 2046: is not a multiple of layout.tp = 4; choose layout.tp among")));
  EXPECT_THAT(lines([](TrainConfig& c) { c.model.seq = 2046; }), ElementsAre());
}

TEST(Validate, ScheduleRulesCarryTheFileAndTheBatch) {
  EXPECT_THAT(lines([](TrainConfig& c) { c.layout.vpp = 2; }),
              ElementsAre(HasSubstr("c.json: layout.vpp = 2: only the interleaved schedule has several chunks")));
  EXPECT_THAT(lines([](TrainConfig& c) { c.layout.schedule = ScheduleKind::interleaved; }),
              ElementsAre(HasSubstr("c.json: layout.vpp = 1: the interleaved schedule needs at least two chunks")));
  EXPECT_THAT(lines([](TrainConfig& c) {
                c.layout.pp = 1;
                c.layout.vpp = 2;
                c.layout.schedule = ScheduleKind::interleaved;
              }),
              ElementsAre(HasSubstr("c.json: layout.vpp = 2: several chunks per stage need a pipeline")));
  EXPECT_THAT(lines([](TrainConfig& c) {
                c.layout.vpp = 2;
                c.layout.schedule = ScheduleKind::interleaved;
                c.layout.global_batch = 8;
              }),
              ElementsAre(HasSubstr("c.json: layout.global_batch = 8: gives 2 micro-batches a step, too few for 4")));
  EXPECT_THAT(lines([](TrainConfig& c) {
                c.layout.vpp = 2;
                c.layout.schedule = ScheduleKind::interleaved;
                c.layout.microbatch_group = 3;
              }),
              ElementsAre(HasSubstr("c.json: layout.microbatch_group = 3: smaller than the 4 pipeline stages")));
  EXPECT_THAT(
      lines([](TrainConfig& c) { c.layout.microbatch_group = 4; }),
      ElementsAre("c.json: layout.microbatch_group = 4: only the interleaved schedule has groups; set it to 0 or "
                  "layout.schedule to \"interleaved\""));
}

TEST(Validate, ScheduleIsJudgedEvenWhenTheBatchDoesNotDivide) {
  EXPECT_THAT(keys([](TrainConfig& c) {
                c.layout.vpp = 2;
                c.layout.schedule = ScheduleKind::interleaved;
                c.layout.microbatch_group = 3;
                c.layout.global_batch = 30;
              }),
              UnorderedElementsAre("layout.global_batch", "layout.microbatch_group"));
}

TEST(Validate, Recompute) {
  for (const std::int64_t k : {0, 11, -1}) {
    TrainConfig config = good();
    config.layout.recompute.granularity = RecomputeGranularity::full;
    config.layout.recompute.num_layers = k;
    for (const RecomputeMethod method : {RecomputeMethod::uniform, RecomputeMethod::block}) {
      config.layout.recompute.method = method;
      const auto problems = validate(config, "c.json", Wanted::times);
      ASSERT_EQ(problems.size(), 1u);
      EXPECT_EQ(
          to_string(problems.front()),
          "c.json: layout.recompute.num_layers = " + std::to_string(k) +
              ": must lie between 1 and the 10 layers of a model chunk; set it to 1 to keep the input of every layer "
              "(uniform) or to recompute one layer (block)");
    }
    config.layout.recompute.granularity = RecomputeGranularity::selective;
    EXPECT_TRUE(validate(config, "c.json", Wanted::times).empty()) << "num_layers is for full only";
  }
  EXPECT_THAT(
      lines([](TrainConfig& c) {
        c.layout.recompute.granularity = RecomputeGranularity::selective;
        c.layout.recompute.modules.clear();
      }),
      ElementsAre(HasSubstr("layout.recompute.modules = []: selective recompute of nothing; name at least one")));
}

void llama(TrainConfig& c) {
  c.model.family = ModelFamily::llama;
  c.model.kv_heads = 8;
}

TEST(Validate, LlamaGroupsItsHeadsAndTurnsPairs) {
  EXPECT_THAT(lines([](TrainConfig& c) { llama(c); }), ElementsAre());
  EXPECT_THAT(lines([](TrainConfig& c) {
                llama(c);
                c.model.kv_heads = 12;
              }),
              ElementsAre(HasSubstr("model.heads = 40: is not a multiple of model.kv_heads = 12")));
  EXPECT_THAT(keys([](TrainConfig& c) {
                llama(c);
                c.model.kv_heads = 2;
              }),
              ElementsAre("model.kv_heads"))
      << "tp 4";
  EXPECT_THAT(lines([](TrainConfig& c) {
                llama(c);
                c.model.hidden = 40 * 127;
              }),
              ElementsAre(HasSubstr("model.heads = 40: gives heads of 127 channels")));
  EXPECT_THAT(keys([](TrainConfig& c) {
                llama(c);
                c.model.rope_theta = 1;
              }),
              ElementsAre("model.rope_theta"));
}

TEST(Validate, EveryNumberMustBePositive) {
  const std::vector<std::pair<const char*, Change>> changes = {
      {"model.layers", [](TrainConfig& c) { c.model.layers = 0; }},
      {"model.hidden", [](TrainConfig& c) { c.model.hidden = -1; }},
      {"model.ffn_hidden", [](TrainConfig& c) { c.model.ffn_hidden = 0; }},
      {"model.heads", [](TrainConfig& c) { c.model.heads = 0; }},
      {"model.kv_heads", [](TrainConfig& c) { c.model.kv_heads = 0; }},
      {"model.seq", [](TrainConfig& c) { c.model.seq = 0; }},
      {"model.vocab", [](TrainConfig& c) { c.model.vocab = 0; }},
      {"layout.tp", [](TrainConfig& c) { c.layout.tp = 0; }},
      {"layout.pp", [](TrainConfig& c) { c.layout.pp = 0; }},
      {"layout.dp", [](TrainConfig& c) { c.layout.dp = -2; }},
      {"layout.vpp", [](TrainConfig& c) { c.layout.vpp = 0; }},
      {"layout.micro_batch", [](TrainConfig& c) { c.layout.micro_batch = 0; }},
      {"layout.global_batch", [](TrainConfig& c) { c.layout.global_batch = 0; }},
  };
  for (const auto& [key, change] : changes) {
    EXPECT_THAT(keys(change), ElementsAre(key));
    EXPECT_THAT(lines(change), ElementsAre(HasSubstr("must be at least 1; set it to 1 or more"))) << key;
  }
  EXPECT_THAT(lines([](TrainConfig& c) { c.layout.microbatch_group = -1; }),
              ElementsAre("c.json: layout.microbatch_group = -1: must be at least 0; set it to 0 or more"));
  EXPECT_THAT(lines([](TrainConfig& c) { c.model.dropout = 1; }),
              ElementsAre("c.json: model.dropout = 1.0: must be a probability below 1; set it to 0 for no dropout"));
  EXPECT_THAT(keys([](TrainConfig& c) { c.model.dropout = -0.1; }), ElementsAre("model.dropout"));
}

TEST(Validate, NothingOverflows) {
  constexpr std::int64_t huge = 9'000'000'000'000'000'000;
  TrainConfig config = good();
  config.model.layers = config.model.hidden = config.model.ffn_hidden = config.model.heads = config.model.kv_heads =
      huge;
  config.model.seq = config.model.vocab = huge;
  config.layout.tp = config.layout.pp = config.layout.dp = config.layout.vpp = huge;
  config.layout.micro_batch = config.layout.global_batch = config.layout.microbatch_group = huge;
  config.layout.recompute.granularity = RecomputeGranularity::full;
  const auto problems = validate(config, "c.json", Wanted::times);
  EXPECT_EQ(problems.size(), 14u);
  for (const Violation& problem : problems)
    EXPECT_THAT(to_string(problem), HasSubstr("is beyond what the engine counts"));

  EXPECT_THAT(
      lines([](TrainConfig& c) {
        c.layout.tp = 1 << 10;
        c.layout.pp = 1 << 10;
        c.layout.dp = 2;
      }),
      ElementsAre("c.json: layout.dp = 2: tp x pp x dp is beyond the 1048576 ranks the engine counts; lower one of "
                  "them"));
}

TEST(Validate, ListsEverythingAtOnce) {
  EXPECT_THAT(
      keys([](TrainConfig& c) {
        c.model.layers = 41;
        c.model.ffn_hidden = 20482;
        c.layout.zero_stage = -1;
        c.layout.cp = 2, c.layout.attention = AttentionKernel::unfused;
        c.layout.precision = DType::int32;
        c.layout.global_batch = 30;
        c.layout.vpp = 2;
        c.layout.recompute.granularity = RecomputeGranularity::full;
        c.layout.recompute.num_layers = 99;
      }),
      UnorderedElementsAre("model.layers", "model.ffn_hidden", "layout.zero_stage", "layout.cp", "layout.precision",
                           "layout.global_batch", "layout.vpp", "layout.recompute.num_layers"));
}

TEST(Notes, SayWhatIsProbablyNotMeant) {
  EXPECT_THAT(notes(good()), ElementsAre());
  TrainConfig config = good();
  config.layout.recompute.granularity = RecomputeGranularity::selective;
  EXPECT_THAT(notes(config), ElementsAre(HasSubstr("recomputing core_attn is pointless with flash attention")));
  config.layout.attention = AttentionKernel::unfused;
  EXPECT_THAT(notes(config), ElementsAre());
  config.layout.zero_stage = 1;
  EXPECT_THAT(notes(config), ElementsAre(HasSubstr("with one replica ZeRO has nothing to shard")));
  config = good();
  config.layout.global_batch = 8;
  EXPECT_THAT(notes(config), ElementsAre(HasSubstr("2 micro-batches for 4 pipeline stages")));
  config = good();
  config.model.vocab = 50257;
  EXPECT_THAT(notes(config), ElementsAre(HasSubstr("50257 rows are padded to 50688")));
}

}  // namespace
}  // namespace benchsuite
