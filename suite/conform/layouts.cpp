// The table of layouts, and the one rule that says what each must equal.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <span>
#include <sstream>
#include <string_view>

#include "suite/conform/conform.h"
#include "suite/conform/layout_words.h"

namespace benchsuite {

namespace {

constexpr DType kPrecisions[] = {DType::fp32, DType::bf16};

TrainConfig baseline(const ModelConfig& model, DType precision) {
  TrainConfig config;
  config.model = model;
  config.layout.precision = precision;
  config.layout.attention = AttentionKernel::unfused;
  config.layout.global_batch = 8;
  // DeepSpeed's limits scaled down to the model, so that gathers, prefetches, reuse and releases all happen.
  config.stack.sharded_parameters = {
      .prefetch_elements = 3000, .max_live_elements = 20000, .max_reuse_distance = 2500, .persistence_threshold = 32};
  return config;
}

/// Words (layout_words.h) by line. What a layout must equal is not written here: bit_equal_partner says it.
constexpr std::string_view kLayouts[] = {
    // recompute in every form
    "full1",
    "full2",
    "full3",
    "full8",
    "block1",
    "block3",
    "block8",
    "core",
    "norm",
    "mlp",
    "core norm mlp",
    // fused and separate kernels, stored and regenerated masks, attention kernels, micro-batch size
    "separate",
    "regenerated",
    "separate regenerated full2",
    "flash",
    "flash full1",
    "flash core",
    "flash regenerated",
    "b2",
    "b2 full2",
    "b2 regenerated",
    "b2 flash",
    // pipelines: depths, schedules, micro-batch groups, overlap
    "pp2",
    "pp4",
    "pp2 gpipe",
    "pp4 gpipe",
    "pp2 overlap-pp",
    "pp4 overlap-pp",
    "pp4 gpipe overlap-pp",
    "pp2 v2",
    "pp2 v4",
    "pp4 v2",
    "pp2 v2 g4",
    "pp2 v4 g8",
    "pp4 v2 g8",
    "pp2 v2 blocking-pp",
    "pp4 v2 g8 blocking-pp",
    "pp4 full1",
    "pp2 v2 full2",
    "pp4 v2 core norm mlp",
    "pp2 block1 regenerated",
    "pp2 gpipe flash",
    "pp4 b2",
    "pp2 v2 b2",
    "pp4 short-ends",
    "pp2 v2 long-start full2",
    // tensor and sequence parallelism
    "tp2",
    "tp4",
    "tp2 sp",
    "tp4 sp",
    "tp2 blocking-tp",
    "tp2 sp blocking-tp",
    "tp4 sp blocking-tp",
    "tp2 full1",
    "tp2 sp full1",
    "tp4 sp full2",
    "tp4 core norm mlp",
    "tp2 sp core norm mlp",
    "tp4 sp block3",
    "tp2 sp separate",
    "tp4 sp regenerated",
    "tp2 sp flash",
    "tp4 flash",
    "tp4 flash regenerated",
    "tp2 sp flash full1",
    "tp2 sp b2",
    "tp2 pp2",
    "tp4 pp2 gpipe",
    "tp2 sp pp2",
    "tp2 sp pp4 v2",
    "tp4 sp pp2 v2 g4 full1",
    "tp2 sp pp2 core overlap-pp",
    "tp4 sp pp4 mlp",
    "tp2 sp tiles",
    "tp4 sp tiles",
    "tp2 sp pp2 tiles full1",
    "tp2 pp2 scattered",
    "tp4 pp2 v2 scattered block1 distributed",
    "tp2 full2 distributed",
    // data parallelism and ZeRO; one micro-batch of two samples on four replicas
    "dp2",
    "dp4",
    "dp2 overlap-dp",
    "dp4 overlap-dp",
    "dp2 zero1",
    "dp4 zero1",
    "dp2 zero1 overlap-dp",
    "dp2 zero1 late-gather",
    "pp2 v2 dp2 zero2 late-gather",
    "dp2 zero2",
    "dp2 zero2 overlap-dp",
    "dp2 zero3",
    "dp2 zero3 overlap-dp",
    "dp2 zero3 by-layer",
    "dp2 zero3 nothing-kept",
    "dp2 zero3 everything-kept",
    "dp4 zero2",
    "dp4 zero3",
    "dp2 zero2 full2",
    "dp2 zero3 full1",
    "dp2 zero3 by-layer full2",
    "dp2 zero3 core norm mlp",
    "dp2 zero3 by-parameter",
    "dp4 b2",
    "dp4 b2 zero1",
    "dp4 b2 zero2",
    "dp4 b2 zero3",
    "dp4 b2 zero3 by-layer",
    "dp4 b2 zero3 nothing-kept overlap-dp",
    "dp4 b2 zero2 block3",
    // everything together
    "pp2 dp2",
    "pp2 dp2 zero1",
    "pp4 dp2 overlap-pp overlap-dp",
    "pp2 v2 dp2 zero1 overlap-dp",
    "pp2 dp2 zero2",
    "pp2 dp2 zero3",
    "pp2 v2 dp2 zero3",
    "pp4 dp2 zero3 by-layer full1",
    "tp2 dp2",
    "tp2 dp2 zero1",
    "tp2 sp dp2",
    "tp2 sp dp2 zero1 overlap-dp",
    "tp2 sp dp2 zero2",
    "tp2 sp dp2 zero3",
    "tp2 sp dp2 zero3 full1",
    "tp2 sp pp2 dp2",
    "tp2 sp pp2 dp2 zero1 core",
    "tp2 sp pp2 v2 dp2 zero1 full1",
    "tp2 sp pp2 dp2 zero3",
    "tp4 sp dp2",
    "tp4 sp dp2 zero1 regenerated",
    // FSDP2: whole layers, the next one prefetched, resharded after forward, nothing persistent
    "dp2 zero3 fsdp2",
    "dp4 zero3 fsdp2",
    "dp2 zero3 fsdp2 full1",
    "pp2 dp2 zero3 fsdp2 core",
    "tp2 sp dp2 zero3 fsdp2",
};

/// Of the model whose attention fused kernels take.
constexpr std::string_view kFusedAttentionLayouts[] = {
    "flash", "flash full1", "flash core", "b2 flash", "pp2 flash", "pp2 gpipe flash core", "tp2 flash", "tp2 sp flash", "tp2 sp flash full1", "dp2 flash",
};

struct TableModel {
  ModelConfig model;
  std::span<const std::string_view> layouts;
};

/// A family joins the table by an entry here. Small enough for minutes, large enough for every split: 8 layers for p =
/// 4 with two chunks each, 4 key-value heads and 512 rows of vocabulary for t = 4 without padding, and 8 samples a step
/// for 8 micro-batches on one replica, 1 on four.
std::vector<TableModel> models() {
  const ModelConfig gpt{.name = "gpt-tiny",
                        .family = ModelFamily::gpt,
                        .layers = 8,
                        .hidden = 16,
                        .ffn_hidden = 64,
                        .heads = 4,
                        .kv_heads = 4,
                        .seq = 8,
                        .vocab = 512,
                        .dropout = 0.1};
  const ModelConfig llama{.name = "llama-tiny",
                          .family = ModelFamily::llama,
                          .layers = 8,
                          .hidden = 32,
                          .ffn_hidden = 64,
                          .heads = 8,
                          .kv_heads = 4,
                          .seq = 8,
                          .vocab = 512,
                          .dropout = 0.1};
  // Heads as libraries' fused attention kernels take them: a multiple of 8 channels, and no dropout.
  ModelConfig fused = llama;
  fused.name = "llama-fused", fused.heads = 4, fused.kv_heads = 2, fused.dropout = 0;
  return {{gpt, kLayouts}, {llama, kLayouts}, {fused, kFusedAttentionLayouts}};
}

std::vector<std::string> words_of(std::string_view line) {
  std::istringstream stream{std::string(line)};
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

}  // namespace

TrainConfig bit_equal_partner(const TrainConfig& config) {
  TrainConfig partner = config;
  Layout& layout = partner.layout;
  layout.pp = layout.vpp = 1;
  layout.schedule = ScheduleKind::one_f_one_b;
  layout.microbatch_group = 0;
  layout.layer_split = {};
  layout.recompute = {};
  // Stages 2 and 3 sum over replicas first and over micro-batches second; with one micro-batch there is one order.
  layout.zero_stage = layout.zero_stage >= 2 && layout.micro_batches() > 1 ? 2 : 0;

  const TrainConfig plain = baseline(config.model, layout.precision);
  const Stack kept = partner.stack;
  partner.stack = plain.stack;
  // How many rows a tile has decides how a product's library blocks its sums.
  partner.stack.overlaps_tensor_gemms = kept.overlaps_tensor_gemms;
  if (layout.precision != DType::fp32) {  // a fused kernel rounds once where separate ones round each result
    partner.stack.fused_bias_gelu = kept.fused_bias_gelu;
    partner.stack.fused_bias_dropout_add = kept.fused_bias_dropout_add;
  }
  return partner;
}

std::vector<ConformSetup> conform_setups() {
  std::vector<ConformSetup> setups;
  for (const auto& [model, layouts] : models()) {
    for (const DType precision : kPrecisions) {
      const TrainConfig plain = baseline(model, precision);
      const std::string prefix = fmt::format("{}/{}/", model.name, name_of(precision));
      setups.push_back({prefix + "one-rank", "", plain});
      for (const std::string_view line : layouts) {
        ConformSetup setup{prefix + std::string(line), std::string(line), plain};
        std::replace(setup.id.begin(), setup.id.end(), ' ', '+');
        for (const std::string& word : words_of(line)) apply_layout_word(word, setup.config);
        setups.push_back(std::move(setup));
      }
    }
  }
  return setups;
}

ConformTolerance conform_tolerance(DType precision) {
  // A gradient entry of relative error r moves its parameter by at most r times the learning rate of 1e-3, since Adam
  // divides by the gradient's own size, and so moves the loss by r |g| 1e-3: with N = 3e4 entries of |g| about 1 /
  // sqrt(N) and errors of random sign, by r 1e-3 a step.
  if (precision == DType::fp32) {
    // r = 1e-5 adds 2e-7 in 20 steps. A loss of 6 is rounded by up to 2.4e-7 in each of at most 10 additions.
    return {"fp32", 5e-6, 1e-5,
            "fp32 sums in another order: some roundings of 2.4e-7 of a loss of 6, and single gradient entries off by "
            "1e-5 of their "
            "tensor's largest, which average out in the norm"};
  }
  // r = 0.02 adds 4e-4 in 20 steps; each token's loss moves with its logits of about 0.1, each off by 2^-8 of itself.
  return {"bf16", 2e-3, 0.02,
          "bf16 rounds each value to 2^-9; about a hundred roundings in a row through eight layers and back leave 2 % "
          "on a gradient "
          "entry, which Adam carries into the parameters of every later step"};
}

std::vector<ConformWord> explained_words(const std::vector<ConformRow>& rows) {
  std::set<const LayoutWord*> used;
  for (const ConformRow& row : rows) {
    for (const std::string& word : words_of(row.layout)) used.insert(find_layout_word(word));
  }
  std::vector<ConformWord> words;
  for (const LayoutWord& word : layout_words()) {
    if (!used.contains(&word)) continue;
    words.push_back({std::string(word.name) + (word.numbered ? "N" : ""), std::string(word.meaning)});
  }
  return words;
}

}  // namespace benchsuite
