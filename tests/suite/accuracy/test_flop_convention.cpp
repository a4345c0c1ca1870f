#include "suite/accuracy/flop_convention.h"

#include <gtest/gtest.h>

namespace benchsuite {
namespace {

ModelConfig gpt(std::int64_t layers, std::int64_t hidden, std::int64_t heads, std::int64_t seq, std::int64_t vocab) {
  ModelConfig model;
  model.layers = layers;
  model.hidden = hidden;
  model.ffn_hidden = 4 * hidden;
  model.heads = model.kv_heads = heads;
  model.seq = seq;
  model.vocab = vocab;
  return model;
}

TEST(FlopConvention, SmallModelByHand) {
  // B s = 24 tokens, L 2, h 4, f 16, s 8, V 32.
  const ModelConfig model = gpt(2, 4, 2, 8, 32);
  // 96 x 24 x 2 x 16 (1 + 8/24 + 32/128) = 73728 x 19/12
  EXPECT_DOUBLE_EQ(step_flops(FlopConvention::narayanan_2021, model, 3), 116736);
  // 72 x 24 x 2 x 16 (1 + 8/24 + 32/96) = 55296 x 5/3
  EXPECT_DOUBLE_EQ(step_flops(FlopConvention::korthikanti_2022, model, 3), 92160);
  // half of the attention term 55296 / 3 less
  EXPECT_DOUBLE_EQ(step_flops(FlopConvention::megatron_causal, model, 3), 92160 - 9216);
  // N = 32 x 4 + 8 x 4 + 2 (12 x 16 + 13 x 4) + 8 = 656: 24 (6 x 656 + 12 x 2 x 4 x 8)
  EXPECT_DOUBLE_EQ(step_flops(FlopConvention::palm_2022, model, 3), 24 * (3936 + 768));
  EXPECT_DOUBLE_EQ(step_flops(FlopConvention::llm_foundry, model, 3), 24 * (3936 + 768));
  EXPECT_DOUBLE_EQ(step_flops(FlopConvention::six_n, model, 3), 24 * 3936);
  EXPECT_DOUBLE_EQ(step_flops(FlopConvention::bloom_early, model, 3), 24 * 8 * 488);
}

TEST(FlopConvention, GroupedQueriesAndGatedMlp) {
  // Llama 3 8B, per token L (12 h^2 (1 + k/a + s/h) + 18 h f) + 6 V h, factored by hand: h 4096, k/a 1/4, s/h 2.
  ModelConfig model = gpt(32, 4096, 32, 8192, 128256);
  model.family = ModelFamily::llama;
  model.kv_heads = 8;
  model.ffn_hidden = 14336;
  const double token = 32.0 * (12.0 * 4096 * 4096 * 3.25 + 18.0 * 4096 * 14336) + 6.0 * 128256 * 4096;
  EXPECT_DOUBLE_EQ(step_flops(FlopConvention::korthikanti_2022, model, 1), 8192 * token);
}

TEST(FlopConvention, KnownModels) {
  // Megatron-core's own counts: GPT-3 175B at batch 1536, 22B at batch 4.
  EXPECT_NEAR(step_flops(FlopConvention::korthikanti_2022, gpt(96, 12288, 96, 2048, 51200), 1536), 3.3862e18, 0.0001e18);
  EXPECT_NEAR(step_flops(FlopConvention::korthikanti_2022, gpt(48, 6144, 64, 2048, 51200), 4), 1.14356e15, 0.00001e15);
}

TEST(FlopConvention, TrillionParametersTakeEightyFourDays) {
  // Narayanan et al. 2021, section 5.1: 450 billion tokens at 163 TFLOP/s on 3072 GPUs, batch 3072: about 84 days.
  const double step = step_flops(FlopConvention::narayanan_2021, gpt(128, 25600, 160, 2048, 51200), 3072) / (163e12 * 3072);
  const double days = step * (450e9 / (3072.0 * 2048)) / 86400;
  EXPECT_NEAR(days, 84, 0.02 * 84);
}

TEST(FlopConvention, WordsOfSources) {
  for (int i = 0; i < kFlopConventions; ++i) {
    const auto convention = static_cast<FlopConvention>(i);
    EXPECT_EQ(flop_convention_of(id_of(convention)), convention);
  }
  EXPECT_EQ(flop_convention_of("eq.(3) of arXiv:2104.04473 (counts full recompute)"), FlopConvention::narayanan_2021);
  EXPECT_EQ(flop_convention_of("mfu = PaLM-style (6N+12LHS)*tokens/s/312"), FlopConvention::palm_2022);
  EXPECT_EQ(flop_convention_of("FULL (non-causal) attention, GQA-aware; Megatron-Bridge counts causal half"),
            FlopConvention::korthikanti_2022);
  EXPECT_EQ(flop_convention_of("not stated"), std::nullopt);
  EXPECT_EQ(flop_convention_of(""), std::nullopt);
}

}  // namespace
}  // namespace benchsuite
