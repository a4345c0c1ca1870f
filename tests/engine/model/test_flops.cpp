#include "engine/model/flops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

namespace benchsuite {
namespace {

using ::testing::HasSubstr;

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

Layout layout_of(std::int64_t tp, std::int64_t pp, std::int64_t global_batch) {
  Layout layout;
  layout.tp = tp;
  layout.pp = pp;
  layout.global_batch = global_batch;
  return layout;
}

const ModelConfig k175b = gpt(96, 12288, 96, 2048, 51200);
const ModelConfig k22b = gpt(48, 6144, 64, 2048, 51200);

double total(const ModelConfig& model, std::int64_t batch, FlopsFormula formula) {
  return model_flops(model, layout_of(8, 1, batch), formula).total();
}

TEST(ModelFlops, PublishedValues) {
  // Five digits are published.
  EXPECT_NEAR(total(k175b, 1536, FlopsFormula::gpt_full_v1) / 3.3862e18, 1, 2e-5);
  EXPECT_NEAR(total(k175b, 1536, FlopsFormula::gpt_causal_v1) / 3.3406e18, 1, 2e-5);
  EXPECT_NEAR(total(k22b, 4, FlopsFormula::gpt_full_v1) / 1.14356e15, 1, 5e-6);
  EXPECT_NEAR(total(k22b, 4, FlopsFormula::gpt_causal_v1) / 1.11387e15, 1, 5e-6);
}

TEST(ModelFlops, Gpt2PerToken) {
  struct Row {
    std::int64_t seq;
    double full, causal;
  };
  for (const auto& [seq, full, causal] :
       {Row{64, 7.485e8, 7.449e8}, Row{256, 7.697e8, 7.556e8}, Row{1024, 8.547e8, 7.980e8}}) {
    const ModelConfig model = gpt(12, 768, 12, seq, 50257);
    const Layout layout = layout_of(1, 1, 1);
    const auto tokens = static_cast<double>(seq);
    EXPECT_NEAR(model_flops(model, layout, FlopsFormula::gpt_full_v1).total() / tokens / full, 1, 1e-4) << seq;
    EXPECT_NEAR(model_flops(model, layout, FlopsFormula::gpt_causal_v1).total() / tokens / causal, 1, 1e-4) << seq;
  }
}

TEST(ModelFlops, EqualsTheFactoredForm) {
  // 72 B s L h^2 (1 + s/6h + V/12Lh) for the full matrix, s/12h for its causal half.
  const double s = 2048, L = 96, h = 12288, V = 51200, B = 1536;
  const double unit = 72 * B * s * L * h * h;
  EXPECT_NEAR(total(k175b, 1536, FlopsFormula::gpt_full_v1) / (unit * (1 + s / (6 * h) + V / (12 * L * h))), 1, 1e-14);
  EXPECT_NEAR(total(k175b, 1536, FlopsFormula::gpt_causal_v1) / (unit * (1 + s / (12 * h) + V / (12 * L * h))), 1,
              1e-14);
}

TEST(ModelFlops, AnyFfnWidth) {
  ModelConfig model = gpt(2, 64, 4, 32, 512);
  model.ffn_hidden = 100;
  const double tokens = 3 * 32;
  const double expected = 6 * tokens * (2 * (4 * 64 * 64 + 2 * 64 * 100) + 64 * 512) + 12 * tokens * 32 * 2 * 64;
  EXPECT_DOUBLE_EQ(model_flops(model, layout_of(1, 1, 3), FlopsFormula::gpt_full_v1).total(), expected);
}

TEST(ModelFlops, CountsThePaddedVocabularyAndNoRecompute) {
  const ModelConfig model = gpt(12, 768, 12, 1024, 50257);
  Layout layout = layout_of(8, 1, 1);
  const double with_t8 = model_flops(model, layout, FlopsFormula::gpt_full_v1).terms.back().flops;
  EXPECT_DOUBLE_EQ(with_t8, 6.0 * 1024 * 768 * 51200);
  const double before = model_flops(model, layout, FlopsFormula::gpt_full_v1).total();
  layout.recompute.granularity = RecomputeGranularity::full;
  EXPECT_EQ(model_flops(model, layout, FlopsFormula::gpt_full_v1).total(), before);
}

TEST(HardwareFlops, FullUniformIsOneMoreForwardOfEveryLayer) {
  // 96 B s L h^2 (1 + s/6h + V/16Lh), Korthikanti et al. 2022, appendix A; whatever num_layers.
  const double s = 2048, L = 96, h = 12288, V = 51200, B = 1536;
  Layout layout = layout_of(8, 8, 1536);
  layout.recompute.granularity = RecomputeGranularity::full;
  for (const std::int64_t k : {1, 4, 12}) {
    layout.recompute.num_layers = k;
    EXPECT_NEAR(hardware_flops(k175b, layout, FlopsFormula::gpt_full_v1).total() /
                    (96 * B * s * L * h * h * (1 + s / (6 * h) + V / (16 * L * h))),
                1, 1e-14);
  }
}

TEST(HardwareFlops, FullBlockRepeatsTheFirstLayersOfEachChunk) {
  const double s = 2048, h = 12288, B = 1536;
  Layout layout = layout_of(8, 8, 1536);
  layout.vpp = 3;
  layout.recompute.granularity = RecomputeGranularity::full;
  layout.recompute.method = RecomputeMethod::block;
  layout.recompute.num_layers = 1;  // of the 4 layers in each of 24 chunks
  const double model = model_flops(k175b, layout, FlopsFormula::gpt_full_v1).total();
  const double forward_of_layer = 24 * B * s * h * h * (1 + s / (6 * h));
  EXPECT_NEAR((hardware_flops(k175b, layout, FlopsFormula::gpt_full_v1).total() - model) / (24 * forward_of_layer), 1,
              1e-12);
  layout.recompute.num_layers = 4;
  EXPECT_NEAR((hardware_flops(k175b, layout, FlopsFormula::gpt_full_v1).total() - model) / (96 * forward_of_layer), 1,
              1e-12);
}

TEST(HardwareFlops, SelectiveRepeatsWhatItNames) {
  const double s = 2048, h = 12288, L = 96, B = 1536;
  Layout layout = layout_of(8, 8, 1536);
  layout.recompute.granularity = RecomputeGranularity::selective;
  const auto extra = [&](FlopsFormula formula) {
    return hardware_flops(k175b, layout, formula).total() - model_flops(k175b, layout, formula).total();
  };
  layout.recompute.modules = {RecomputeModule::core_attn};
  EXPECT_NEAR(extra(FlopsFormula::gpt_full_v1) / (4 * B * s * s * L * h), 1, 1e-12);
  EXPECT_NEAR(extra(FlopsFormula::gpt_causal_v1) / (2 * B * s * s * L * h), 1, 1e-12);
  layout.recompute.modules = {RecomputeModule::mlp};
  EXPECT_NEAR(extra(FlopsFormula::gpt_full_v1) / (4 * B * s * L * h * 4 * h), 1, 1e-12);
  layout.recompute.modules = {RecomputeModule::layernorm};
  EXPECT_EQ(extra(FlopsFormula::gpt_full_v1), 0);
  layout.recompute.modules = {RecomputeModule::layernorm, RecomputeModule::mlp, RecomputeModule::core_attn};
  EXPECT_NEAR(extra(FlopsFormula::gpt_full_v1) / (4 * B * s * L * h * (4 * h + s)), 1, 1e-12);
}

TEST(HardwareFlops, FullOverSelectiveIsThePublishedRatio) {
  // GPT-13B at s = 2048: 1.30 with the full matrix, 1.31 with its causal half.
  const ModelConfig model = gpt(40, 5120, 40, 2048, 51200);
  Layout full = layout_of(4, 4, 32);
  full.recompute.granularity = RecomputeGranularity::full;
  Layout selective = full;
  selective.recompute.granularity = RecomputeGranularity::selective;
  const auto ratio = [&](FlopsFormula formula) {
    return hardware_flops(model, full, formula).total() / hardware_flops(model, selective, formula).total();
  };
  EXPECT_NEAR(ratio(FlopsFormula::gpt_full_v1), 1.30, 0.005);
  EXPECT_NEAR(ratio(FlopsFormula::gpt_causal_v1), 1.31, 0.005);
}

ModelConfig llama(std::int64_t layers, std::int64_t hidden, std::int64_t ffn, std::int64_t heads, std::int64_t kv_heads,
                  std::int64_t seq, std::int64_t vocab) {
  ModelConfig model = gpt(layers, hidden, heads, seq, vocab);
  model.family = ModelFamily::llama;
  model.ffn_hidden = ffn;
  model.kv_heads = kv_heads;
  model.dropout = 0;
  return model;
}

const ModelConfig kLlama7b = llama(32, 4096, 11008, 32, 32, 4096, 32000);
const ModelConfig kLlama8b = llama(32, 4096, 14336, 32, 8, 8192, 128256);
const ModelConfig kLlama70b = llama(80, 8192, 28672, 64, 8, 8192, 128256);

TEST(LlamaCounts, ParametersAreThoseOfTheReleasedModels) {
  // The parameters of the released checkpoints.
  EXPECT_EQ(parameter_count(kLlama7b, kLlama7b.vocab).total(), 6'738'415'616);
  EXPECT_EQ(parameter_count(kLlama8b, kLlama8b.vocab).total(), 8'030'261'248);
  EXPECT_EQ(parameter_count(kLlama70b, kLlama70b.vocab).total(), 70'553'706'496);
}

TEST(LlamaCounts, RanksTogetherHoldEveryParameterOnce) {
  for (const std::int64_t tp : {1, 2, 8}) {
    for (const std::int64_t pp : {1, 4}) {
      const Layout layout = layout_of(tp, pp, 1);
      std::int64_t unique = 0;
      for (std::int64_t stage = 0; stage < pp; ++stage) {
        const RankParameters held = rank_parameters(kLlama8b, layout, stage);
        unique += tp * held.sharded + held.replicated;
        EXPECT_EQ(held.tied_copy, 0);
      }
      EXPECT_EQ(unique, parameter_count(kLlama8b, padded_vocab(kLlama8b.vocab, tp)).total());
    }
  }
}

TEST(LlamaCounts, FlopsAreSixPerWeightAndTokenPlusAttention) {
  // Every weight but the embedding's and the norms' is multiplied once a token; 12 (causal 6) B s^2 L h for the core.
  const Layout layout = layout_of(1, 1, 3);
  const double tokens = 3.0 * 8192, L = 32, h = 4096;
  const double products = 8'030'261'248.0 - 128256.0 * h - (2 * L + 1) * h;
  const double core = tokens * 8192 * L * h;
  EXPECT_DOUBLE_EQ(model_flops(kLlama8b, layout, FlopsFormula::llama_full_v1).total(), 6 * tokens * products + 12 * core);
  EXPECT_DOUBLE_EQ(model_flops(kLlama8b, layout, FlopsFormula::llama_causal_v1).total(), 6 * tokens * products + 6 * core);
  EXPECT_THROW(model_flops(kLlama8b, layout, FlopsFormula::gpt_full_v1), Error);
}

TEST(LlamaCounts, RecomputeRepeatsAForward) {
  Layout layout = layout_of(1, 1, 3);
  const double tokens = 3.0 * 8192, L = 32, h = 4096, f = 14336, kv = 8 * 128;
  const auto extra = [&] {
    return hardware_flops(kLlama8b, layout, FlopsFormula::llama_causal_v1).total() -
           model_flops(kLlama8b, layout, FlopsFormula::llama_causal_v1).total();
  };
  layout.recompute.granularity = RecomputeGranularity::full;
  EXPECT_NEAR(extra() / (2 * tokens * L * (2 * h * h + 2 * h * kv + 3 * h * f) + 2 * tokens * 8192 * L * h), 1, 1e-12);
  layout.recompute = {.granularity = RecomputeGranularity::selective, .modules = {RecomputeModule::mlp}};
  EXPECT_NEAR(extra() / (6 * tokens * L * h * f), 1, 1e-12);
}

TEST(FlopsFormulas, Ids) {
  for (const FlopsFormula formula : {FlopsFormula::llama_full_v1, FlopsFormula::llama_causal_v1}) {
    EXPECT_EQ(flops_formula(id_of(formula)), formula);
  }
  EXPECT_EQ(flops_formula_of(ModelFamily::gpt, true), FlopsFormula::gpt_causal_v1);
  EXPECT_EQ(flops_formula_of(ModelFamily::gpt, false), FlopsFormula::gpt_full_v1);
  EXPECT_EQ(id_of(flops_formula_of(ModelFamily::llama, true)), "llama-causal-v1");
  EXPECT_EQ(id_of(flops_formula_of(ModelFamily::llama, false)), "llama-full-v1");
  EXPECT_EQ(id_of(FlopsFormula::gpt_full_v1), "gpt-full-v1");
  EXPECT_EQ(id_of(FlopsFormula::gpt_causal_v1), "gpt-causal-v1");
  EXPECT_EQ(flops_formula("gpt-full-v1"), FlopsFormula::gpt_full_v1);
  EXPECT_EQ(flops_formula("gpt-causal-v1"), FlopsFormula::gpt_causal_v1);
  EXPECT_EQ(model_flops(k22b, layout_of(8, 1, 4), FlopsFormula::gpt_causal_v1).formula, "gpt-causal-v1");
  try {
    flops_formula("gpt-ful-v1");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::config);
    EXPECT_THAT(error.what(), HasSubstr("did you mean \"gpt-full-v1\"?"));
  }
}

TEST(Parameters, Gpt2) {
  const ModelConfig model = gpt(12, 768, 12, 1024, 50257);
  EXPECT_EQ(parameter_count(model, model.vocab).total(), 124'439'808);
  EXPECT_EQ(parameter_count(model, padded_vocab(model.vocab, 1)).total(), 124'475'904);
  EXPECT_EQ(parameter_count(model, model.vocab).position, 1024 * 768);
  EXPECT_EQ(parameter_count(model, model.vocab).final_norm, 2 * 768);
}

TEST(Parameters, RanksTogetherHoldEveryParameterOnce) {
  const ModelConfig model = gpt(12, 768, 12, 1024, 50257);
  for (const std::int64_t tp : {1, 2, 4}) {
    for (const std::int64_t pp : {1, 2, 4}) {
      const Layout layout = layout_of(tp, pp, 1);
      std::int64_t unique = 0;
      for (std::int64_t stage = 0; stage < pp; ++stage) {
        const RankParameters held = rank_parameters(model, layout, stage);
        unique += tp * held.sharded + held.replicated;
        const bool copies = pp > 1 && stage == pp - 1;
        EXPECT_EQ(held.tied_copy, copies ? padded_vocab(model.vocab, tp) * 768 / tp : 0);
        EXPECT_EQ(held.total(), held.sharded + held.replicated + held.tied_copy);
      }
      EXPECT_EQ(unique, parameter_count(model, padded_vocab(model.vocab, tp)).total()) << "tp " << tp << " pp " << pp;
    }
  }
}

TEST(Parameters, ByHandOnATinyModel) {
  // h 8, f 32, L 4, s 16, V 256, t 2, p 2: two layers a stage.
  const ModelConfig model = gpt(4, 8, 2, 16, 256);
  const Layout layout = layout_of(2, 2, 1);
  // QKV 3 h^2/t + 3h/t = 96 + 12, out h^2/t = 32, FC1 hf/t + f/t = 128 + 16, FC2 fh/t = 128.
  const std::int64_t sharded_layer = 96 + 12 + 32 + 128 + 16 + 128;
  // Out and FC2 biases 2h = 16, two norms 4h = 32.
  const RankParameters first = rank_parameters(model, layout, 0);
  EXPECT_EQ(first.sharded, 2 * sharded_layer + 256 * 8 / 2);
  EXPECT_EQ(first.replicated, 2 * 48 + 16 * 8);
  EXPECT_EQ(first.tied_copy, 0);
  const RankParameters last = rank_parameters(model, layout, 1);
  EXPECT_EQ(last.sharded, 2 * sharded_layer);
  EXPECT_EQ(last.replicated, 2 * 48 + 16);
  EXPECT_EQ(last.tied_copy, 256 * 8 / 2);
  EXPECT_THROW(rank_parameters(model, layout, 2), Error);
}

}  // namespace
}  // namespace benchsuite
