// Both models in both precisions under every layout: parallelism, recompute and scheduling change where and when things are
// computed, and nothing else. The baseline is one rank; memory outside lifetimes is poisoned with NaN.
#include <functional>
#include <tuple>

#include "tests/engine/train/parity.h"

namespace benchsuite {
namespace {

using testing_train::kReordered;
using testing_train::kRoundedToBf16;
using testing_train::largest_difference;
using testing_train::train;

TrainConfig tiny() { return testing_train::tiny_gpt(); }

const CpuTrainingResult& baseline() { return testing_train::baseline(ModelFamily::gpt, DType::fp32); }

/// How a layout must compare with one rank.
enum class Required : std::uint8_t {
  bits,
  bits_unless_rounded,  ///< a fused kernel rounds to bf16 once where separate ones round each result
  tolerance
};
using enum Required;

struct LayoutChange {
  const char* name;
  std::function<void(TrainConfig&)> change;
  Required required;
};

void recompute(TrainConfig& config, RecomputeConfig how) { config.layout.recompute = std::move(how); }

const LayoutChange kLayouts[] = {
    // Recompute repeats the same arithmetic.
    {"full_1", [](auto& c) { recompute(c, {.granularity = RecomputeGranularity::full}); }, bits},
    {"full_2", [](auto& c) { recompute(c, {.granularity = RecomputeGranularity::full, .num_layers = 2}); }, bits},
    {"full_3", [](auto& c) { recompute(c, {.granularity = RecomputeGranularity::full, .num_layers = 3}); }, bits},
    {"block_1",
     [](auto& c) {
       recompute(c, {.granularity = RecomputeGranularity::full, .method = RecomputeMethod::block, .num_layers = 1});
     },
     bits},
    {"core_attn", [](auto& c) { recompute(c, {.granularity = RecomputeGranularity::selective}); }, bits},
    {"layernorm",
     [](auto& c) {
       recompute(c, {.granularity = RecomputeGranularity::selective, .modules = {RecomputeModule::layernorm}});
     },
     bits},
    {"mlp",
     [](auto& c) { recompute(c, {.granularity = RecomputeGranularity::selective, .modules = {RecomputeModule::mlp}}); },
     bits},
    {"layernorm_mlp",
     [](auto& c) {
       recompute(c, {.granularity = RecomputeGranularity::selective,
                     .modules = {RecomputeModule::layernorm, RecomputeModule::mlp}});
     },
     bits},
    // Stacks fuse and store differently, and compute the same.
    {"separate_kernels", [](auto& c) { c.stack.fused_bias_gelu = c.stack.fused_bias_dropout_add = false; },
     bits_unless_rounded},
    {"regenerated_masks", [](auto& c) { c.stack.stores_dropout_masks = false; }, bits},
    // The same micro-batch order on every schedule.
    {"pp2", [](auto& c) { c.layout.pp = 2; }, bits},
    {"pp4", [](auto& c) { c.layout.pp = 4; }, bits},
    {"pp2_overlapped", [](auto& c) { c.layout.pp = 2, c.stack.overlaps_pipeline = true; }, bits},
    {"pp4_overlapped", [](auto& c) { c.layout.pp = 4, c.stack.overlaps_pipeline = true; }, bits},
    {"pp2_gpipe", [](auto& c) { c.layout.pp = 2, c.layout.schedule = ScheduleKind::gpipe; }, bits},
    {"pp2_gpipe_overlapped",
     [](auto& c) {
       c.layout.pp = 2, c.layout.schedule = ScheduleKind::gpipe, c.stack.overlaps_pipeline = true;
     },
     bits},
    {"pp2_v2", [](auto& c) { c.layout.pp = 2, c.layout.vpp = 2, c.layout.schedule = ScheduleKind::interleaved; }, bits},
    {"pp2_full",
     [](auto& c) { c.layout.pp = 2, c.layout.recompute.granularity = RecomputeGranularity::full; }, bits},
    {"pp3_short_ends", [](auto& c) { c.layout.pp = 3, c.layout.layer_split = {.first_stage = 1, .last_stage = 1}; }, bits},
    {"pp2_long_start_gpipe",
     [](auto& c) {
       c.layout.pp = 2, c.layout.schedule = ScheduleKind::gpipe, c.layout.layer_split.first_stage = 3;
     },
     bits},
    {"pp6_ends_without_layers_full",
     [](auto& c) {
       c.layout.pp = 6, c.layout.layer_split = {.counts_embedding = true, .counts_loss = true};
       c.layout.recompute.granularity = RecomputeGranularity::full;
     },
     bits},
    {"pp3_v2_ends_without_layers",
     [](auto& c) {
       c.layout.pp = 3, c.layout.vpp = 2, c.layout.schedule = ScheduleKind::interleaved, c.layout.microbatch_group = 4;
       c.layout.layer_split = {.counts_embedding = true, .counts_loss = true};
     },
     bits},
    // Sums over ranks round differently, and so does a product that adds at its end.
    {"unfused_accumulation", [](auto& c) { c.stack.fused_gradient_accumulation = false; }, tolerance},
    {"flash", [](auto& c) { c.layout.attention = AttentionKernel::flash; }, tolerance},
    {"micro_batch_2", [](auto& c) { c.layout.micro_batch = 2; }, tolerance},
    {"tp2", [](auto& c) { c.layout.tp = 2; }, tolerance},
    {"tp2_sp", [](auto& c) { c.layout.tp = 2, c.layout.sequence_parallel = true; }, tolerance},
    {"tp4_sp_full",
     [](auto& c) {
       c.layout.tp = 4, c.layout.sequence_parallel = true;
       c.layout.recompute.granularity = RecomputeGranularity::full;
     },
     tolerance},
    {"tp2_sp_blocking",
     [](auto& c) {
       c.layout.tp = 2, c.layout.sequence_parallel = true, c.stack.overlaps_tensor_backward = false;
     },
     tolerance},
    {"dp2", [](auto& c) { c.layout.dp = 2; }, tolerance},
    {"dp2_overlapped", [](auto& c) { c.layout.dp = 2, c.stack.overlaps_gradient_reduction = true; }, tolerance},
    {"dp4_overlapped",
     [](auto& c) {
       c.layout.dp = 4, c.stack.overlaps_gradient_reduction = true;
     },
     tolerance},
    {"tp2_sp_pp2_dp2_selective",
     [](auto& c) {
       c.layout.tp = c.layout.pp = c.layout.dp = 2, c.layout.sequence_parallel = true;
       c.layout.recompute.granularity = RecomputeGranularity::selective;
     },
     tolerance},
    {"tp2_sp_pp2_dp2_flash",
     [](auto& c) {
       c.layout.tp = c.layout.pp = c.layout.dp = 2, c.layout.sequence_parallel = true;
       c.layout.attention = AttentionKernel::flash;
     },
     tolerance},
};

void PrintTo(const LayoutChange& layout, std::ostream* out) { *out << layout.name; }

class Parity : public testing::TestWithParam<std::tuple<ModelFamily, DType, LayoutChange>> {};

TEST_P(Parity, TrainsLikeOneRank) {
  const auto& [family, precision, layout] = GetParam();
  TrainConfig config = testing_train::tiny(family, precision);
  layout.change(config);
  const CpuTrainingResult result = train(config);
  const CpuTrainingResult& wanted = testing_train::baseline(family, precision);
  const double gradients = largest_difference(result.gradients, wanted.gradients);
  const bool bf16 = precision == DType::bf16;
  // A Llama has no biases, and without dropout nothing is left to fuse but adding the residual.
  if (layout.required == bits || (layout.required == bits_unless_rounded && (!bf16 || family == ModelFamily::llama))) {
    EXPECT_EQ(result.loss, wanted.loss);
    EXPECT_EQ(result.gradient_norm, wanted.gradient_norm);
    EXPECT_EQ(gradients, 0);
    EXPECT_EQ(largest_difference(result.parameters, wanted.parameters), 0);
    return;
  }
  for (std::size_t step = 0; step < 2; ++step) {
    // fp32: a few roundings of a loss of about 6. bf16: a token's loss moves with its logits of about 0.1, each off by 2^-8 of
    // itself; 128 tokens average it out.
    EXPECT_NEAR(result.loss[step], wanted.loss[step], bf16 ? 1e-3 : 2e-6);
    EXPECT_NEAR(result.gradient_norm[step], wanted.gradient_norm[step], bf16 ? 0.01 * wanted.gradient_norm[step] : 1e-5);
  }
  // Parameters are not compared: Adam divides by the gradient's own size, so a key bias, whose gradient is zero but for
  // rounding, moves by up to the learning rate either way. The second step's loss and gradients show the update.
  EXPECT_LT(gradients, bf16 ? kRoundedToBf16 : kReordered);
}

std::string name_of_case(const testing::TestParamInfo<Parity::ParamType>& info) {
  const auto& [family, precision, layout] = info.param;
  return std::string(name_of(family)) + "_" + std::string(name_of(precision)) + "_" + layout.name;
}

INSTANTIATE_TEST_SUITE_P(Layouts, Parity,
                         testing::Combine(testing::Values(ModelFamily::gpt, ModelFamily::llama),
                                          testing::Values(DType::fp32, DType::bf16), testing::ValuesIn(kLayouts)),
                         name_of_case);

// After a reduce-scatter a rank's buckets hold sums only in its own slice, so gradients are not compared whole.
TEST(ZeroParity, StageOneTrainsLikePlainDataParallelBitForBit) {
  for (const bool overlapped : {false, true}) {
    TrainConfig config = tiny();
    config.layout.dp = 2;
    config.layout.pp = 2;
    config.stack.overlaps_gradient_reduction = overlapped;
    const CpuTrainingResult plain = train(config);
    config.layout.zero_stage = 1;
    config.stack.overlaps_parameter_gather = overlapped;
    const CpuTrainingResult sharded = train(config);
    EXPECT_EQ(sharded.loss, plain.loss);
    EXPECT_EQ(largest_difference(sharded.parameters, plain.parameters), 0);
    EXPECT_EQ(sharded.gradient_norm, plain.gradient_norm);
  }
}

// What a stage sends in pieces, and what recompute keeps in pieces, comes back as it was.
TEST(PieceParity, ScatteredActivationsTrainAlikeBitForBit) {
  TrainConfig config = tiny();
  config.layout.tp = 4;
  config.layout.pp = 2;
  for (const bool interleaved : {false, true}) {
    config.layout.vpp = interleaved ? 2 : 1;
    config.layout.schedule = interleaved ? ScheduleKind::interleaved : ScheduleKind::one_f_one_b;
    config.stack.scatters_pipeline_activations = false;
    const CpuTrainingResult whole = train(config);
    config.stack.scatters_pipeline_activations = true;
    const CpuTrainingResult scattered = train(config);
    EXPECT_EQ(scattered.loss, whole.loss);
    EXPECT_EQ(scattered.gradient_norm, whole.gradient_norm);
    EXPECT_EQ(scattered.parameters, whole.parameters);
  }
}

TEST(PieceParity, DistributedActivationsTrainAlikeBitForBit) {
  TrainConfig config = tiny();
  config.layout.tp = config.layout.pp = 2;
  const CpuTrainingResult none = train(config);
  config.stack.scatters_pipeline_activations = true;
  for (const RecomputeMethod method : {RecomputeMethod::uniform, RecomputeMethod::block}) {
    config.layout.recompute = {
        .granularity = RecomputeGranularity::full, .method = method, .distribute_saved_activations = true};
    const CpuTrainingResult distributed = train(config);
    EXPECT_EQ(distributed.loss, none.loss);
    EXPECT_EQ(distributed.gradient_norm, none.gradient_norm);
    EXPECT_EQ(distributed.parameters, none.parameters);
  }
}

// How a software fuses, keeps and reduces is time and memory, not numbers.
TEST(StackParity, WaysOfASoftwareTrainAlikeBitForBit) {
  TrainConfig config = tiny();
  config.model.family = ModelFamily::llama;
  config.model.dropout = 0;
  config.layout.tp = config.layout.dp = 2;
  config.layout.sequence_parallel = true;
  config.layout.zero_stage = 1;
  const CpuTrainingResult plain = train(config);
  const auto expect_the_same = [&](const char* what, auto change) {
    TrainConfig other = config;
    change(other.stack);
    const CpuTrainingResult result = train(other);
    EXPECT_EQ(result.loss, plain.loss) << what;
    EXPECT_EQ(result.gradient_norm, plain.gradient_norm) << what;
    EXPECT_EQ(result.parameters, plain.parameters) << what;
  };
  expect_the_same("inputs kept whole", [](Stack& s) { s.keeps_gathered_inputs = true; });
  expect_the_same("all-reduced whole", [](Stack& s) { s.all_reduces_in_fp32 = true; });
  expect_the_same("elementary operations", [](Stack& s) {
    s.fused_norm = s.fused_softmax = s.fused_rope = s.fused_swiglu = s.fused_cross_entropy = s.strided_attention = false;
  });
}

// Tiles of a product are rows of it, and pieces of a sum are added in rank order: the same sums. But how many rows stand together
// decides how the product's library blocks the terms of each, so they round differently.
TEST(TileParity, ProductsInTilesTrainAlike) {
  for (const std::int64_t tp : {2, 4}) {
    TrainConfig config = tiny();
    config.layout.tp = tp;
    config.layout.sequence_parallel = true;
    config.layout.recompute.granularity = RecomputeGranularity::full;
    const CpuTrainingResult whole = train(config);
    config.stack.overlaps_tensor_gemms = true;
    const CpuTrainingResult tiles = train(config);
    for (std::size_t step = 0; step < 2; ++step) {
      EXPECT_NEAR(tiles.loss[step], whole.loss[step], 2e-6);  // a few roundings of a loss of about 6
      EXPECT_NEAR(tiles.gradient_norm[step], whole.gradient_norm[step], 1e-5);
    }
    EXPECT_LT(largest_difference(tiles.gradients, whole.gradients), kReordered);
    // What is recomputed in tiles is what was computed in tiles.
    config.layout.recompute.granularity = RecomputeGranularity::none;
    EXPECT_EQ(train(config).parameters, tiles.parameters) << tp << " ranks";
  }
}

// Overlap moves waits, not sums.
TEST(OverlapParity, OverlapOnAndOffTrainAlikeBitForBit) {
  TrainConfig config = tiny();
  config.layout.tp = config.layout.pp = config.layout.dp = 2;
  config.layout.sequence_parallel = true;
  config.stack.overlaps_tensor_backward = config.stack.overlaps_pipeline = config.stack.overlaps_gradient_reduction = true;
  const CpuTrainingResult on = train(config);
  config.stack.overlaps_tensor_backward = config.stack.overlaps_pipeline = config.stack.overlaps_gradient_reduction = false;
  const CpuTrainingResult off = train(config);
  EXPECT_EQ(on.loss, off.loss);
  EXPECT_EQ(on.gradient_norm, off.gradient_norm);
  EXPECT_EQ(on.parameters, off.parameters);
}

TEST(WholeModel, GradientsMatchFiniteDifferences) {
  TrainConfig config = tiny();
  config.model.layers = 2;
  config.layout.global_batch = 2;
  // Two norms and four linears a layer, each a weight and a bias; words, positions and the final norm.
  testing_train::expect_gradients_match_differences(config, 2 * 12 + 4);
}

TEST(WholeModel, AMissingTiedEmbeddingReductionIsSeen) {
  TrainConfig config = tiny();
  config.layout.pp = 2;
  const CpuTrainingResult broken = train(config, {.drop_tied_embedding_reduce = true});
  EXPECT_GT(largest_difference(broken.gradients, baseline().gradients), 100 * kReordered);
}

TEST(WholeModel, MissingRecomputedCollectivesAreSeen) {
  TrainConfig config = tiny();
  config.layout.tp = 2;
  config.layout.recompute.granularity = RecomputeGranularity::full;
  const CpuTrainingResult broken = train(config, {.drop_recomputed_collectives = true});
  EXPECT_GT(largest_difference(broken.gradients, baseline().gradients), 100 * kReordered);
}

TEST(WholeModel, LossStartsNearTheEntropyOfTheVocabulary) {
  EXPECT_NEAR(baseline().loss[0], std::log(512.0), 0.1);  // logits of N(0, 0.02) weights are close to equal
}

TEST(CpuTraining, RefusesWhatItCannotCompute) {
  TrainConfig config = tiny();
  config.layout.precision = DType::fp16;
  EXPECT_THROW(train_on_cpu(config, {}), Error);
}

}  // namespace
}  // namespace benchsuite
