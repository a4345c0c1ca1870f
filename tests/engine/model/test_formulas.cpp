#include "engine/model/formulas.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/model/flops.h"
#include "engine/parallel/schedule.h"

namespace benchsuite {
namespace {

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

ModelConfig gpt(std::int64_t layers, std::int64_t hidden, std::int64_t heads) {
  ModelConfig model;
  model.layers = layers;
  model.hidden = hidden;
  model.ffn_hidden = 4 * hidden;
  model.heads = model.kv_heads = heads;
  model.seq = 2048;
  model.vocab = 51200;
  return model;
}

/// Unfused attention, no recompute, dp 1.
Layout layout_of(std::int64_t tp, std::int64_t pp, std::int64_t vpp, std::int64_t micro_batch, std::int64_t m) {
  Layout layout;
  layout.tp = tp;
  layout.pp = pp;
  layout.vpp = vpp;
  layout.micro_batch = micro_batch;
  layout.global_batch = micro_batch * m;
  layout.attention = AttentionKernel::unfused;
  layout.schedule = vpp > 1 ? ScheduleKind::interleaved : ScheduleKind::one_f_one_b;
  return layout;
}

void select(Layout& layout, std::vector<RecomputeModule> modules) {
  layout.recompute.granularity = RecomputeGranularity::selective;
  layout.recompute.modules = std::move(modules);
}

const Stack kMasks{};  // stores dropout masks, fp32 gradients

/// Korthikanti et al. 2022, Figure 1 and Table 3: GiB of the first stage.
struct Figure1 {
  const char* name;
  std::int64_t layers, hidden, heads, pp, vpp, micro_batch, m;
  double states, tp_only, sequence_parallel, selective, both;
};

const Figure1 kFigure1[] = {
    {"22B", 48, 6144, 64, 1, 1, 4, 1, 45.5625, 59.25, 39.5625, 29.25, 9.5625},
    {"175B", 96, 12288, 96, 8, 3, 1, 64, 45.5625, 66.84375, 41.4141, 37.7812, 12.3515625},
    {"530B", 105, 20480, 128, 35, 3, 1, 280, 31.640625, 114.0234375, 66.5137, 70.5859, 23.076171875},
    {"1T", 128, 25600, 160, 64, 1, 1, 512, 32.958984375, 131.25, 76.5625, 81.25, 26.5625},
};

TEST(SavedActivations, Figure1OfKorthikanti) {
  for (const Figure1& row : kFigure1) {
    const ModelConfig model = gpt(row.layers, row.hidden, row.heads);
    const auto gib = [&](bool sequence_parallel, bool selective) {
      Layout layout = layout_of(8, row.pp, row.vpp, row.micro_batch, row.m);
      layout.sequence_parallel = sequence_parallel;
      if (selective) select(layout, {RecomputeModule::core_attn});
      return saved_activations(model, layout, kMasks, 0).layers_total / kGiB;
    };
    // The ends are exact; the two between are published to four decimals.
    EXPECT_DOUBLE_EQ(gib(false, false), row.tp_only) << row.name;
    EXPECT_NEAR(gib(true, false), row.sequence_parallel, 5.1e-5) << row.name;
    EXPECT_NEAR(gib(false, true), row.selective, 5.1e-5) << row.name;
    EXPECT_DOUBLE_EQ(gib(true, true), row.both) << row.name;
  }
}

TEST(SavedActivations, Table2PerLayer) {
  const ModelConfig model = gpt(48, 6144, 64);
  const double s = 2048, b = 4, h = 6144, a = 64, t = 8;
  const double x = s * b * h, matrix = 5 * a * s / h;
  const auto bytes = [&](std::int64_t tp, bool sequence_parallel, const char* recompute) {
    Layout layout = layout_of(tp, 1, 1, 4, 1);
    layout.sequence_parallel = sequence_parallel;
    if (recompute == std::string("selective")) select(layout, {RecomputeModule::core_attn});
    return saved_activations(model, layout, kMasks, 0).layer_bytes;
  };
  EXPECT_DOUBLE_EQ(bytes(1, false, "none"), x * (34 + matrix));
  EXPECT_DOUBLE_EQ(bytes(8, false, "none"), x * (10 + 24 / t + matrix / t));
  EXPECT_DOUBLE_EQ(bytes(8, true, "none"), x * (34 / t + matrix / t));
  EXPECT_DOUBLE_EQ(bytes(8, false, "selective"), x * (10 + 24 / t));
  EXPECT_DOUBLE_EQ(bytes(8, true, "selective"), x * 34 / t);
}

TEST(SavedActivations, ModulesMasksAndFlash) {
  const ModelConfig model = gpt(48, 6144, 64);
  const double x = 2048.0 * 4 * 6144, t = 8, matrices = 64.0 * 2048 * 2048 * 4;
  Layout layout = layout_of(8, 1, 1, 4, 1);
  layout.sequence_parallel = true;
  const auto bytes = [&](const Layout& of, const Stack& stack) {
    return saved_activations(model, of, stack, 0).layer_bytes;
  };
  const double all = bytes(layout, kMasks);

  Layout selective = layout;
  select(selective, {RecomputeModule::layernorm});
  EXPECT_DOUBLE_EQ(all - bytes(selective, kMasks), 4 * x / t);  // the inputs of QKV and FC1
  select(selective, {RecomputeModule::mlp});
  EXPECT_DOUBLE_EQ(all - bytes(selective, kMasks), 16 * x / t);  // GELU in and out

  Stack regenerates;
  regenerates.stores_dropout_masks = false;
  EXPECT_DOUBLE_EQ(all - bytes(layout, regenerates), (2 * x + matrices) / t);

  Layout flash = layout;
  flash.attention = AttentionKernel::flash;
  EXPECT_DOUBLE_EQ(all - bytes(flash, kMasks), 5 * matrices / t);

  Layout wide = layout;
  wide.precision = DType::fp32;  // everything but the masks doubles
  EXPECT_DOUBLE_EQ(bytes(wide, regenerates), 2 * bytes(layout, regenerates));

  ModelConfig narrow = model;
  narrow.ffn_hidden = 1024;
  EXPECT_DOUBLE_EQ(all - saved_activations(narrow, layout, kMasks, 0).layer_bytes,
                   2 * 2 * 2048.0 * 4 * (24576 - 1024) / t);
}

TEST(SavedActivations, LlamaLayerByHand) {
  ModelConfig model = gpt(32, 4096, 32);
  model.family = ModelFamily::llama;
  model.ffn_hidden = 14336;
  model.kv_heads = 8;
  model.dropout = 0;
  const double tokens = 2048.0 * 2, h = 4096, f = 14336, kv = 8 * 128, t = 4, matrix = 32 * 2048.0 * 2048 * 2;
  Layout layout = layout_of(4, 1, 1, 2, 1);
  layout.sequence_parallel = true;
  // Two norm inputs and two norm outputs, q k v, context, gate and up, FC2 input; softmax output; no masks.
  const double inside = 2 * tokens * (h + 2 * kv + h + 2 * f + f) / t, outside = 2 * tokens * 4 * h / t;
  EXPECT_DOUBLE_EQ(saved_activations(model, layout, kMasks, 0).layer_bytes, inside + outside + 2 * matrix / t);
  layout.attention = AttentionKernel::flash;
  EXPECT_DOUBLE_EQ(saved_activations(model, layout, kMasks, 0).layer_bytes, inside + outside);
  select(layout, {RecomputeModule::mlp});
  EXPECT_DOUBLE_EQ(saved_activations(model, layout, kMasks, 0).layer_bytes, inside + outside - 2 * tokens * 3 * f / t);
  EXPECT_EQ(saved_activations(model, layout, kMasks, 0).outside.front().name, "final layernorm input") << "no mask";
}

TEST(SavedActivations, FullRecomputeKeepsInputs) {
  const ModelConfig model = gpt(48, 6144, 64);
  const double x = 2048.0 * 4 * 6144;
  Layout layout = layout_of(8, 2, 1, 4, 8);  // 24 layers a stage
  const double layer = saved_activations(model, layout, kMasks, 0).layer_bytes;
  layout.recompute.granularity = RecomputeGranularity::full;

  layout.recompute.num_layers = 1;
  SavedActivations saved = saved_activations(model, layout, kMasks, 0);
  EXPECT_DOUBLE_EQ(saved.chunk_bytes, 24 * 2 * x);
  EXPECT_DOUBLE_EQ(saved.layers_total, 2 * 24 * 2 * x);
  EXPECT_DOUBLE_EQ(saved.transient_bytes, layer - 2 * x);

  layout.recompute.num_layers = 5;  // 24 layers in chunks of 5, 5, 5, 5 and 4
  saved = saved_activations(model, layout, kMasks, 0);
  EXPECT_DOUBLE_EQ(saved.chunk_bytes, 5 * 2 * x);
  EXPECT_DOUBLE_EQ(saved.transient_bytes, 5 * layer - 2 * x);

  layout.sequence_parallel = true;
  EXPECT_DOUBLE_EQ(saved_activations(model, layout, kMasks, 0).chunk_bytes, 5 * 2 * x / 8);

  layout.sequence_parallel = false;
  layout.recompute.method = RecomputeMethod::block;  // the first 5 of 24
  saved = saved_activations(model, layout, kMasks, 0);
  EXPECT_DOUBLE_EQ(saved.chunk_bytes, 5 * 2 * x + 19 * layer);
  EXPECT_DOUBLE_EQ(saved.transient_bytes, layer - 2 * x);
}

TEST(SavedActivations, InFlightCountsAreThoseOfTheSchedule) {
  const ModelConfig model = gpt(96, 768, 12);
  for (const std::int64_t vpp : {1, 2, 3}) {
    for (const std::int64_t pp : {2, 4}) {
      for (const std::int64_t m : {4, 5, 8, 12}) {
        for (const std::int64_t g : {0, 4, 6}) {
          Layout layout = layout_of(1, pp, vpp, 1, m);
          layout.microbatch_group = vpp > 1 ? g : 0;
          const ScheduleShape shape{layout.schedule, pp, vpp, m, layout.group()};
          if (!schedule_violations(shape).empty()) continue;
          for (std::int64_t stage = 0; stage < pp; ++stage) {
            std::int64_t waiting = 0, most = 0, first_chunk = 0, most_first_chunk = 0;
            for (const Step& step : schedule(shape, stage)) {
              const int change = step.kind == Step::Kind::forward ? 1 : -1;
              most = std::max(most, waiting += change);
              if (step.chunk == 0) most_first_chunk = std::max(most_first_chunk, first_chunk += change);
            }
            const SavedActivations saved = saved_activations(model, layout, kMasks, stage);
            EXPECT_EQ(saved.chunks_in_flight, most) << "p " << pp << " v " << vpp << " m " << m << " g " << g;
            if (stage == 0) {
              EXPECT_DOUBLE_EQ(saved.outside.front().bytes, static_cast<double>(most_first_chunk) * 2048 * 768)
                  << "p " << pp << " v " << vpp << " m " << m << " g " << g;
            }
          }
        }
      }
    }
  }
}

TEST(SavedActivations, OutsideTheLayers) {
  const ModelConfig model = gpt(48, 6144, 64);
  const double x = 2048.0 * 4 * 6144, t = 8;
  Layout layout = layout_of(8, 1, 1, 4, 1);
  layout.sequence_parallel = true;
  // p = 1: s b h/t for the embedding mask and 4 s b h/t (1 + V/h).
  EXPECT_DOUBLE_EQ(saved_activations(model, layout, kMasks, 0).outside_bytes, x / t + 4 * x / t * (1 + 51200.0 / 6144));
  // First of four stages: the mask of p micro-batches and nothing else.
  layout = layout_of(8, 4, 1, 4, 8);
  EXPECT_DOUBLE_EQ(saved_activations(model, layout, kMasks, 0).outside_bytes, 4 * x);
  EXPECT_DOUBLE_EQ(saved_activations(model, layout, kMasks, 1).outside_bytes, 0);
  layout.schedule = ScheduleKind::gpipe;
  EXPECT_DOUBLE_EQ(saved_activations(model, layout, kMasks, 0).outside_bytes, 8 * x);
  EXPECT_DOUBLE_EQ(saved_activations(model, layout, kMasks, 3).outside_bytes, 8 * 4 * (x + x / 6144 * 51200 / t));
}

TEST(States, BytesPerParameter) {
  Layout layout = layout_of(8, 1, 1, 1, 1);
  Stack stack;
  layout.dp = 4;
  EXPECT_DOUBLE_EQ(state_bytes_per_parameter(layout, stack), 18);
  layout.zero_stage = 1;
  EXPECT_DOUBLE_EQ(state_bytes_per_parameter(layout, stack), 6 + 12.0 / 4);
  stack.gradient_dtype = DType::bf16;
  EXPECT_DOUBLE_EQ(state_bytes_per_parameter(layout, stack), 4 + 12.0 / 4);
  layout.precision = DType::fp32;
  stack.gradient_dtype = DType::fp32;
  EXPECT_DOUBLE_EQ(state_bytes_per_parameter(layout, stack), 8 + 8.0 / 4);
  layout.zero_stage = 0;
  EXPECT_DOUBLE_EQ(state_bytes_per_parameter(layout, stack), 16);
}

TEST(States, Figure1OfKorthikanti) {
  for (const Figure1& row : kFigure1) {
    const Layout layout = layout_of(8, row.pp, row.vpp, row.micro_batch, row.m);
    const auto h = static_cast<double>(row.hidden);
    const double matrices = 12 * static_cast<double>(row.layers) * h * h / (8.0 * static_cast<double>(row.pp));
    EXPECT_DOUBLE_EQ(state_bytes_per_parameter(layout, kMasks) * matrices / kGiB, row.states) << row.name;
  }
}

// Communication -------------------------------------------------------------------------------------------------------

const ModelConfig k13b = gpt(40, 5120, 40);
constexpr double kX = 2048.0 * 4 * 5120;  // elements of an activation of GPT-13B at b = 4

double tensor_bytes(const std::vector<Volume>& volumes, bool recomputed) {
  double bytes = 0;
  for (const Volume& volume : volumes) {
    const bool in_layers = volume.site == Site::attention || volume.site == Site::mlp;
    if (volume.group == GroupKind::tensor && in_layers && volume.recomputed == recomputed) bytes += volume.bytes;
  }
  return bytes;
}

const Volume* find(const std::vector<Volume>& volumes, GroupKind group, OpKind op, Site site, bool recomputed = false) {
  for (const Volume& volume : volumes) {
    if (volume.group == group && volume.op == op && volume.site == site && volume.recomputed == recomputed)
      return &volume;
  }
  return nullptr;
}

TEST(Communication, TensorParallelLayers) {
  // L/p m 4 2(t-1)/t 2X, and with full recompute L/p m 2 2(t-1)/t 2X more.
  Layout layout = layout_of(4, 4, 1, 4, 8);
  EXPECT_DOUBLE_EQ(tensor_bytes(communication_volumes(k13b, layout, kMasks, 1), false),
                   10.0 * 8 * 4 * 2 * 0.75 * 2 * kX);
  layout.recompute.granularity = RecomputeGranularity::full;
  const auto volumes = communication_volumes(k13b, layout, kMasks, 1);
  EXPECT_DOUBLE_EQ(tensor_bytes(volumes, false), 10.0 * 8 * 4 * 2 * 0.75 * 2 * kX);
  EXPECT_DOUBLE_EQ(tensor_bytes(volumes, true), 10.0 * 8 * 2 * 2 * 0.75 * 2 * kX);
  EXPECT_EQ(sum_bytes(volumes, GroupKind::tensor, OpKind::all_gather, false), 0);
}

TEST(Communication, SequenceParallelLayers) {
  // L/p m 10 (t-1)/t 2X: 6 gathers and 4 scatters; recompute adds 2 and 2.
  Layout layout = layout_of(4, 4, 1, 4, 8);
  layout.sequence_parallel = true;
  layout.recompute.granularity = RecomputeGranularity::full;
  const auto volumes = communication_volumes(k13b, layout, kMasks, 1);
  const double one = 10.0 * 8 * 0.75 * 2 * kX;
  EXPECT_DOUBLE_EQ(tensor_bytes(volumes, false), 10 * one);
  EXPECT_DOUBLE_EQ(sum_bytes(volumes, GroupKind::tensor, OpKind::all_gather, false), 6 * one);
  EXPECT_DOUBLE_EQ(sum_bytes(volumes, GroupKind::tensor, OpKind::reduce_scatter, false), 4 * one);
  EXPECT_DOUBLE_EQ(sum_bytes(volumes, GroupKind::tensor, OpKind::all_gather, true), 2 * one);
  EXPECT_DOUBLE_EQ(sum_bytes(volumes, GroupKind::tensor, OpKind::reduce_scatter, true), 2 * one);
  EXPECT_EQ(find(volumes, GroupKind::tensor, OpKind::all_gather, Site::attention)->calls, 3 * 10 * 8);
  EXPECT_EQ(find(volumes, GroupKind::tensor, OpKind::reduce_scatter, Site::mlp)->calls, 2 * 10 * 8);
  EXPECT_EQ(find(volumes, GroupKind::tensor, OpKind::all_gather, Site::mlp, true)->calls, 10 * 8);
}

TEST(Communication, PartialRecomputeRepeatsOnlyItsLayersOrModules) {
  Layout layout = layout_of(4, 4, 2, 4, 8);  // 5 layers a chunk
  layout.sequence_parallel = true;
  const double one = 8 * 0.75 * 2 * kX;
  layout.recompute.granularity = RecomputeGranularity::full;
  layout.recompute.method = RecomputeMethod::block;
  layout.recompute.num_layers = 2;  // 2 of 5 layers in each of 2 chunks
  EXPECT_DOUBLE_EQ(tensor_bytes(communication_volumes(k13b, layout, kMasks, 1), true), 4 * 4 * one);
  layout.recompute.method = RecomputeMethod::uniform;
  EXPECT_DOUBLE_EQ(tensor_bytes(communication_volumes(k13b, layout, kMasks, 1), true), 10 * 4 * one);
  select(layout, {RecomputeModule::core_attn, RecomputeModule::layernorm});
  EXPECT_EQ(tensor_bytes(communication_volumes(k13b, layout, kMasks, 1), true), 0);
  select(layout, {RecomputeModule::mlp});
  EXPECT_DOUBLE_EQ(tensor_bytes(communication_volumes(k13b, layout, kMasks, 1), true), 10 * 2 * one);
}

TEST(Communication, EmbeddingHeadLossAndReplicatedGradients) {
  Layout layout = layout_of(4, 4, 1, 4, 8);
  const double all_reduce = 8 * 2 * 0.75 * 2 * kX, half = all_reduce / 2;
  auto first = communication_volumes(k13b, layout, kMasks, 0);
  auto last = communication_volumes(k13b, layout, kMasks, 3);
  EXPECT_DOUBLE_EQ(find(first, GroupKind::tensor, OpKind::all_reduce, Site::embedding)->bytes, all_reduce);
  EXPECT_EQ(find(first, GroupKind::tensor, OpKind::all_gather, Site::embedding), nullptr);
  EXPECT_DOUBLE_EQ(find(last, GroupKind::tensor, OpKind::all_reduce, Site::head)->bytes, all_reduce);
  EXPECT_DOUBLE_EQ(find(last, GroupKind::tensor, OpKind::all_reduce, Site::loss)->bytes,
                   8 * 3 * 2 * 0.75 * 4 * 2048 * 4);
  EXPECT_EQ(find(last, GroupKind::tensor, OpKind::all_reduce, Site::loss)->calls, 24);
  EXPECT_EQ(find(first, GroupKind::tensor, OpKind::all_reduce, Site::head), nullptr);
  EXPECT_EQ(find(last, GroupKind::tensor, OpKind::all_reduce, Site::embedding), nullptr);
  EXPECT_EQ(find(first, GroupKind::tensor, OpKind::all_reduce, Site::gradients), nullptr);

  layout.sequence_parallel = true;
  first = communication_volumes(k13b, layout, kMasks, 0);
  last = communication_volumes(k13b, layout, kMasks, 3);
  EXPECT_DOUBLE_EQ(find(first, GroupKind::tensor, OpKind::all_reduce, Site::embedding)->bytes, all_reduce);
  EXPECT_DOUBLE_EQ(find(first, GroupKind::tensor, OpKind::all_gather, Site::embedding)->bytes, half);
  EXPECT_DOUBLE_EQ(find(last, GroupKind::tensor, OpKind::all_gather, Site::head)->bytes, 2 * half);
  EXPECT_DOUBLE_EQ(find(last, GroupKind::tensor, OpKind::reduce_scatter, Site::head)->bytes, half);
  EXPECT_EQ(find(last, GroupKind::tensor, OpKind::all_reduce, Site::head), nullptr);
  // 2(t-1)/t 4 (L/p 6h + 2h on the last stage)
  EXPECT_DOUBLE_EQ(find(first, GroupKind::tensor, OpKind::all_reduce, Site::gradients)->bytes,
                   2 * 0.75 * 4 * (10 * 6 * 5120));
  EXPECT_DOUBLE_EQ(find(last, GroupKind::tensor, OpKind::all_reduce, Site::gradients)->bytes,
                   2 * 0.75 * 4 * (10 * 6 * 5120 + 2 * 5120));
}

TEST(Communication, PipelineSends) {
  Layout layout = layout_of(4, 4, 2, 4, 8);
  struct Row {
    std::int64_t stage, forward, backward;
  };
  for (const bool sequence_parallel : {false, true}) {
    layout.sequence_parallel = sequence_parallel;
    const double tensor = 2 * kX / (sequence_parallel ? 4 : 1);
    // An interior rank sends m v each way; the first m (v-1) gradients, the last m (v-1) activations.
    for (const auto& [stage, forward, backward] : {Row{0, 16, 8}, Row{1, 16, 16}, Row{3, 8, 16}}) {
      const auto volumes = communication_volumes(k13b, layout, kMasks, stage);
      const Volume* sent = find(volumes, GroupKind::pipeline_forward, OpKind::send, Site::pipeline);
      ASSERT_NE(sent, nullptr);
      EXPECT_EQ(sent->calls, forward);
      EXPECT_DOUBLE_EQ(sent->bytes, static_cast<double>(forward) * tensor);
      sent = find(volumes, GroupKind::pipeline_backward, OpKind::send, Site::pipeline);
      ASSERT_NE(sent, nullptr);
      EXPECT_EQ(sent->calls, backward);
      EXPECT_DOUBLE_EQ(sent->bytes, static_cast<double>(backward) * tensor);
    }
  }
  const auto plain_last = communication_volumes(k13b, layout_of(4, 4, 1, 4, 8), kMasks, 3);
  EXPECT_EQ(find(plain_last, GroupKind::pipeline_forward, OpKind::send, Site::pipeline), nullptr);
  const auto alone = communication_volumes(k13b, layout_of(4, 1, 1, 4, 8), kMasks, 0);
  EXPECT_EQ(find(alone, GroupKind::pipeline_forward, OpKind::send, Site::pipeline), nullptr);
  EXPECT_EQ(find(alone, GroupKind::embedding, OpKind::all_reduce, Site::gradients), nullptr);
}

TEST(Communication, LlamaScattersItsEmbeddingAndTiesNothing) {
  ModelConfig model = k13b;
  model.family = ModelFamily::llama;
  Layout layout = layout_of(4, 4, 1, 4, 8);
  layout.sequence_parallel = true;
  const double half = 8 * 0.75 * 2 * kX, h = 5120;
  const auto first = communication_volumes(model, layout, kMasks, 0);
  const auto last = communication_volumes(model, layout, kMasks, 3);
  EXPECT_EQ(find(first, GroupKind::tensor, OpKind::all_reduce, Site::embedding), nullptr);
  EXPECT_DOUBLE_EQ(find(first, GroupKind::tensor, OpKind::reduce_scatter, Site::embedding)->bytes, half);
  EXPECT_DOUBLE_EQ(find(first, GroupKind::tensor, OpKind::all_gather, Site::embedding)->bytes, half);
  EXPECT_EQ(sum_bytes(first, GroupKind::embedding, OpKind::all_reduce, false), 0);
  EXPECT_EQ(sum_bytes(last, GroupKind::embedding, OpKind::all_reduce, false), 0);
  // Gains of two norms a layer, ten layers, and of the final one.
  EXPECT_DOUBLE_EQ(find(first, GroupKind::tensor, OpKind::all_reduce, Site::gradients)->bytes, 2 * 0.75 * 4 * 20 * h);
  EXPECT_DOUBLE_EQ(find(last, GroupKind::tensor, OpKind::all_reduce, Site::gradients)->bytes, 2 * 0.75 * 4 * 21 * h);
}

TEST(Communication, TiedEmbedding) {
  const Layout layout = layout_of(4, 4, 1, 4, 8);
  for (const std::int64_t stage : {0, 3}) {
    EXPECT_DOUBLE_EQ(
        sum_bytes(communication_volumes(k13b, layout, kMasks, stage), GroupKind::embedding, OpKind::all_reduce, false),
        4.0 * 51200 * 5120 / 4);
  }
  EXPECT_EQ(sum_bytes(communication_volumes(k13b, layout, kMasks, 1), GroupKind::embedding, OpKind::all_reduce, false),
            0);
}

TEST(Communication, DataParallel) {
  Layout layout = layout_of(4, 4, 1, 4, 8);
  EXPECT_EQ(sum_bytes(communication_volumes(k13b, layout, kMasks, 1), GroupKind::data, OpKind::all_reduce, false), 0);
  layout.dp = 8;
  layout.global_batch *= 8;
  // N of an interior stage, by hand: 10 layers of 12 h^2/t + (3h + 4h)/t biases and 6h replicated.
  const double h = 5120, parameters = 10 * (12 * h * h / 4 + 7 * h / 4 + 6 * h);
  EXPECT_DOUBLE_EQ(static_cast<double>(rank_parameters(k13b, layout, 1).total()), parameters);
  EXPECT_DOUBLE_EQ(
      sum_bytes(communication_volumes(k13b, layout, kMasks, 1), GroupKind::data, OpKind::all_reduce, false),
      2 * 7.0 / 8 * 4 * parameters);
  layout.zero_stage = 1;
  const auto volumes = communication_volumes(k13b, layout, kMasks, 1);
  EXPECT_EQ(sum_bytes(volumes, GroupKind::data, OpKind::all_reduce, false), 0);
  EXPECT_DOUBLE_EQ(sum_bytes(volumes, GroupKind::data, OpKind::reduce_scatter, false), 7.0 / 8 * 4 * parameters);
  EXPECT_DOUBLE_EQ(sum_bytes(volumes, GroupKind::data, OpKind::all_gather, false), 7.0 / 8 * 2 * parameters);
}

TEST(Communication, OneRankSendsNothing) {
  EXPECT_TRUE(communication_volumes(k13b, layout_of(1, 1, 1, 4, 8), kMasks, 0).empty());
}

}  // namespace
}  // namespace benchsuite
