// Recorded and replayed steps against closed formulas: exact where the formula is exact.
#include "suite/measure/simulate.h"

#include <gtest/gtest.h>

#include <map>

#include "engine/device/sim/priced_world.h"
#include "engine/model/formulas.h"
#include "engine/parallel/schedule.h"
#include "engine/train/step.h"
#include "suite/measure/memory_report.h"
#include "tests/suite/measure/layouts.h"

namespace benchsuite {
namespace {

struct Pipeline {
  ScheduleKind kind;
  std::int64_t p, v, m, g;
};
const Pipeline kPipelines[] = {
    {ScheduleKind::one_f_one_b, 1, 1, 4, 0},  {ScheduleKind::one_f_one_b, 2, 1, 8, 0},
    {ScheduleKind::one_f_one_b, 4, 1, 2, 0},  {ScheduleKind::one_f_one_b, 4, 1, 8, 0},
    {ScheduleKind::one_f_one_b, 8, 1, 16, 0}, {ScheduleKind::gpipe, 4, 1, 8, 0},
    {ScheduleKind::interleaved, 2, 2, 4, 2},  {ScheduleKind::interleaved, 4, 2, 8, 4},
    {ScheduleKind::interleaved, 4, 2, 12, 6}, {ScheduleKind::interleaved, 2, 4, 5, 3},
};

// On `ideal` only layers take time, and all layers take the same: the bubble is (p - 1)(F + B) / v to the picosecond.
void expect_formulas_on_ideal(const RecomputeConfig& recompute, bool overlapped) {
  const HardwareProfile ideal = profile("ideal");
  for (const Pipeline& pipeline : kPipelines) {
    // Blocking receives of the interleaved schedule can add waiting of their own when groups are larger than p.
    if (pipeline.kind == ScheduleKind::interleaved && !overlapped && pipeline.g > pipeline.p) continue;
    TrainConfig config = tiny();
    config.layout.recompute = recompute;
    config.stack.overlaps_pipeline = config.stack.overlaps_pipeline_interleaved = overlapped;
    config.model.hidden = 1024, config.model.ffn_hidden = 4096, config.model.heads = config.model.kv_heads = 8;
    Layout& layout = config.layout;
    layout.schedule = pipeline.kind;
    layout.pp = pipeline.p, layout.vpp = pipeline.v, layout.microbatch_group = pipeline.g;
    layout.global_batch = 2 * pipeline.m;
    const VariantResult result = simulate(config, ideal, {});
    const ScheduleShape shape{pipeline.kind, pipeline.p, pipeline.v, pipeline.m, pipeline.g};
    const std::int64_t work_units = pipeline.v * pipeline.m, all_units = work_units + pipeline.p - 1;
    for (const StageResult& stage : result.stages) {
      const Picoseconds idle = stage.breakdown.time[static_cast<int>(Category::bubble)];
      const Picoseconds busy = result.step - idle;
      EXPECT_EQ(idle * work_units, busy * (pipeline.p - 1))
          << "p " << pipeline.p << " v " << pipeline.v << " m " << pipeline.m << " overlapped " << overlapped << " "
          << to_json(config.layout)["recompute"].dump();
      EXPECT_EQ(busy * all_units, result.step * work_units);
      EXPECT_EQ(stage.peak_in_flight, peak_in_flight(shape, stage.stage));
    }
    EXPECT_DOUBLE_EQ(result.bubble_share, result.bubble_formula_step);
    EXPECT_NEAR(result.bubble_over_ideal, result.bubble_formula_ideal, 1e-12);
  }
}

// Recompute is part of the backward: it starts when the output gradient is there, however early that could be overlapped.
TEST(Simulate, OnIdealTheBubbleTheMakespanAndTheInFlightCountsAreTheFormulas) {
  for (const bool overlapped : {false, true}) {
    expect_formulas_on_ideal({}, overlapped);
    expect_formulas_on_ideal({.granularity = RecomputeGranularity::full}, overlapped);
    expect_formulas_on_ideal({.granularity = RecomputeGranularity::selective}, overlapped);
    expect_formulas_on_ideal(
        {.granularity = RecomputeGranularity::full, .method = RecomputeMethod::block, .num_layers = 1}, overlapped);
  }
}

TEST(Simulate, TheVerifierAcceptsWhatOnlySomeSoftwareDoes) {
  SimulateOptions options;
  options.verify = true;
  const std::vector<TrainConfig> list = layouts_of_some_software();
  EXPECT_GE(list.size(), 70u) << "few of the combinations are refused";
  for (const TrainConfig& config : list) EXPECT_NO_THROW(simulate(config, profile("dgx-h100"), options));
}

TEST(Simulate, SavedActivationsEqualTheClosedFormulasAtTheirHighWaterMark) {
  for (const TrainConfig& config : layouts()) {
    const VariantResult result = simulate(config, profile("dgx-h100"), {});
    for (const StageResult& stage : result.stages) {
      EXPECT_EQ(stage.memory.saved_bytes, stage.memory.saved_formula_bytes)
          << to_json(config.layout).dump() << " stage " << stage.stage;
      double terms = 0;
      for (const StageMemory::Term& term : stage.memory.saved_terms) {
        if (term.name.find("not in the paper") == std::string::npos) terms += term.bytes;
      }
      EXPECT_EQ(terms, stage.memory.saved_bytes);
    }
  }
}

TEST(Simulate, BytesOfEveryKindOfCommunicationEqualTheClosedFormulas) {
  for (const TrainConfig& config : layouts()) {
    const VariantResult result = simulate(config, profile("dgx-h100"), {});
    int compared = 0;
    for (const CommunicationTime& kind : result.communication) {
      if (kind.expected_bytes < 0) {  // what no formula covers: the mirror image of sends, and the scalar of the norm
        EXPECT_TRUE(kind.kind == "pipeline receive" || kind.kind == "global all_reduce") << kind.kind;
        continue;
      }
      ++compared;
      EXPECT_DOUBLE_EQ(kind.bytes, kind.expected_bytes) << to_json(config.layout).dump() << " " << kind.kind;
    }
    EXPECT_GE(compared, 1);
  }
}

TEST(Simulate, EveryRankSendsWhatTheFormulaOfItsStageSays) {
  for (const TrainConfig& config : layouts()) {
    const VariantResult result = simulate(config, profile("dgx-h100"), {});
    for (const StageResult& stage : result.stages) {
      int compared = 0;
      for (const SentBytes& sent : stage.sent) {
        if (sent.expected_bytes < 0) continue;
        ++compared;
        EXPECT_EQ(sent.bytes, sent.expected_bytes)
            << to_json(config.layout).dump() << " " << sent.kind << " of stage " << stage.stage;
      }
      EXPECT_GE(compared, 1);
    }
  }
}

TEST(Simulate, EveryByteAtThePeakHasATermWithItsFormula) {
  std::vector<TrainConfig> list = layouts();
  for (const TrainConfig& config : sharded_layouts()) list.push_back(config);
  for (const TrainConfig& config : list) {
    const VariantResult result = simulate(config, profile("dgx-h100"), {});
    for (const StageResult& stage : result.stages) {
      double sum = 0;
      std::map<std::string, double> by_purpose;
      for (const StageMemory::Term& term : stage.memory.terms) {
        EXPECT_FALSE(term.formula.empty()) 
            << term.name << " of " << term.bytes << " bytes, stage " << stage.stage << " of " << to_json(config.layout).dump();
        sum += term.bytes;
        by_purpose[term.purpose] += term.bytes;
      }
      EXPECT_EQ(sum, stage.memory.peak_bytes);
      for (const auto& [purpose, bytes] : stage.memory.by_purpose) EXPECT_EQ(by_purpose[purpose], bytes) << purpose;
    }
  }
}

// The rest is what the schedule with measured passes does not explain: a few percent where links, gathers or reductions
// block, nothing on ideal hardware.
TEST(Simulate, PartsOfTheBubbleAddUpAndExplainIt) {
  struct Row {
    const char* hardware;
    std::int64_t dp;
    int zero_stage;
    bool across;
    double rest;  ///< of the waiting time
  };
  for (const Row& row : {Row{"dgx-h100", 1, 0, false, 0.03}, Row{"dgx-h100", 2, 0, false, 0.03},
                         Row{"dgx-h100", 2, 1, false, 0.03}, Row{"dgx-h100-1x100g", 1, 0, true, 0.1},
                         Row{"ideal", 1, 0, false, 0}, Row{"ideal", 2, 2, false, 0}, Row{"ideal", 2, 3, false, 0}}) {
    TrainConfig config = gpt_13b();
    config.layout.dp = row.dp;
    config.layout.global_batch *= row.dp;
    config.layout.zero_stage = row.zero_stage;
    if (row.across) config.layout.placement = TensorPlacement::across_nodes;
    const VariantResult result = simulate(config, profile(row.hardware), {});
    double sum = 0;
    for (const BubblePart& part : result.bubble_parts) sum += part.seconds;
    const double waiting = result.bubble_share * result.iteration_s;
    EXPECT_NEAR(sum, waiting, 10e-12) << row.hardware << ": a picosecond a part";
    ASSERT_EQ(result.bubble_parts.back().name, "rest");
    EXPECT_LE(std::abs(result.bubble_parts.back().seconds), row.rest * waiting + 1e-12)
        << row.hardware << " dp " << row.dp << " ZeRO-" << row.zero_stage;
    if (std::string(row.hardware) != "ideal") continue;
    for (std::size_t i = 1; i < result.bubble_parts.size(); ++i) {
      EXPECT_NEAR(result.bubble_parts[i].seconds, 0, 1e-12) << result.bubble_parts[i].name << " ZeRO-" << row.zero_stage;
    }
  }
}

// Korthikanti et al. 2022, figure 1 (GiB): activations of the first stage without sequence parallelism and recompute, and
// with both, from the recorded Programs of the paper's models. Their formula leaves out what embedding and head keep.
TEST(Simulate, RecordedActivationsAreTheOnesOfThePaper) {
  struct Row {
    std::int64_t layers, hidden, heads, tp, pp, vpp, micro_batch;
    double plain_gib, sequence_parallel_selective_gib;
  };
  const Row rows[] = {{48, 6144, 64, 8, 1, 1, 4, 59.25, 9.5625},
                      {96, 12288, 96, 8, 8, 3, 1, 66.84375, 12.3515625},
                      {105, 20480, 128, 8, 35, 3, 1, 114.0234375, 23.076171875},
                      {128, 25600, 160, 8, 64, 1, 1, 131.25, 26.5625}};
  for (const Row& row : rows) {
    for (const bool both : {false, true}) {
      TrainConfig config = tiny();
      config.model = {.name = "paper", .layers = row.layers, .hidden = row.hidden, .ffn_hidden = 4 * row.hidden,
                      .heads = row.heads, .kv_heads = row.heads, .seq = 2048, .vocab = 51200};
      Layout& layout = config.layout;
      layout.tp = row.tp, layout.pp = row.pp, layout.vpp = row.vpp, layout.micro_batch = row.micro_batch;
      layout.schedule = row.vpp > 1 ? ScheduleKind::interleaved : ScheduleKind::one_f_one_b;
      layout.global_batch = row.micro_batch * std::max<std::int64_t>(row.pp * row.vpp, 2);
      layout.sequence_parallel = both;
      if (both) layout.recompute.granularity = RecomputeGranularity::selective;
      const StageMemory memory = measure_memory(config, 0, record_step(config, 0).program, 1, 8).stage;
      double layers = 0;
      for (const StageMemory::Term& term : memory.saved_terms) {
        const bool outside = term.name.starts_with("embedding") || term.name.starts_with("final") ||
                             term.name.starts_with("logits") || term.name.find("not in") != std::string::npos;
        if (!outside) layers += term.bytes;
      }
      EXPECT_EQ(layers / (1024.0 * 1024 * 1024), both ? row.sequence_parallel_selective_gib : row.plain_gib)
          << row.layers << " layers";
    }
  }
}

// GPT-13B by hand: 72 B s L h^2 (1 + s/6h + V/12Lh) with B 32, s 2048, L 40, h 5120, V 51200 is 5.3807350284288e15 FLOPs; full
// recompute adds a forward of the layers, 24 B s L h^2 (1 + s/6h). A first-stage rank holds
//   words 51200 5120 / 4 + positions 2048 5120 + 10 layers (12 h^2 / 4 + 13 h: 3h/4 + h + h + h biases and 4h of norms)
TEST(Simulate, RatesAndMemoryAreTheArithmetic) {
  constexpr double kModelFlops = 72.0 * 32 * 2048 * 40 * 5120.0 * 5120 * (1 + 2048 / (6.0 * 5120) + 51200 / (12.0 * 40 * 5120));
  constexpr double kForwardAgain = 24.0 * 32 * 2048 * 40 * 5120.0 * 5120 * (1 + 2048 / (6.0 * 5120));
  constexpr double kPeak = 989.4e12, kGpus = 16;
  TrainConfig config = gpt_13b();
  config.layout.recompute.granularity = RecomputeGranularity::full;
  const VariantResult result = simulate(config, profile("dgx-h100"), {});
  EXPECT_NEAR(result.flops_model, kModelFlops, kModelFlops * 1e-12);
  EXPECT_NEAR(*result.mfu, kModelFlops / (result.iteration_s * kGpus * kPeak), 1e-9);
  EXPECT_NEAR(*result.hfu, (kModelFlops + kForwardAgain) / (result.iteration_s * kGpus * kPeak), 1e-9);
  EXPECT_NEAR(result.model_tflops_per_gpu, kModelFlops / result.iteration_s / kGpus * 1e-12, 1e-9);
  EXPECT_NEAR(result.tokens_per_s_per_gpu, 32 * 2048 / (result.iteration_s * kGpus), 1e-6);
  EXPECT_NEAR(result.speed_of_light_s, kModelFlops / (kGpus * kPeak), 1e-9);
  // Recompute is compute only: its collectives are a category of their own.
  Picoseconds recompute = 0;
  for (const StageResult& stage : result.stages) recompute += stage.breakdown.time[static_cast<int>(Category::recompute)];
  EXPECT_NEAR(result.recompute_s, static_cast<double>(recompute) * 1e-12 / 4, 1e-12);

  constexpr double kLayer = 12.0 * 5120 * 5120 / 4 + (3.0 / 4 + 1 + 1 + 1 + 4) * 5120;
  constexpr double kN[] = {51200.0 * 5120 / 4 + 2048.0 * 5120 + 10 * kLayer, 10 * kLayer, 10 * kLayer,
                           51200.0 * 5120 / 4 + 2 * 5120 + 10 * kLayer};
  EXPECT_EQ(kN[0], 862850560);
  double peak = 0;
  for (const StageResult& stage : result.stages) {
    const double n = kN[stage.stage];
    double sum = 0;
    for (const auto& [purpose, bytes] : stage.memory.by_purpose) {
      sum += bytes;
      if (purpose == "parameters") { EXPECT_EQ(bytes, 2 * n); }
      if (purpose == "gradients" || purpose == "master") { EXPECT_EQ(bytes, 4 * n); }
      if (purpose == "moments") { EXPECT_EQ(bytes, 8 * n); }
      if (purpose == "workspace") { EXPECT_EQ(bytes, static_cast<double>(config.stack.workspace_bytes)); }
    }
    EXPECT_EQ(stage.memory.peak_bytes, sum);
    EXPECT_GT(sum, 18 * n);
    peak = std::max(peak, sum);
  }
  EXPECT_EQ(result.peak_memory_gib, peak / (1024.0 * 1024 * 1024));
  EXPECT_TRUE(result.fits);
  config.layout.tp = 1;  // 18 bytes of four times the parameters: 62 GB, and the activations beside them
  config.layout.dp = 4;
  config.layout.sequence_parallel = false;
  config.layout.recompute.granularity = RecomputeGranularity::none;
  EXPECT_FALSE(simulate(config, profile("dgx-h100"), {}).fits);
}

// A flash kernel does half the matrix: no step on ideal hardware may come out above its peak.
TEST(Simulate, NoStepIsFasterThanItsFlops) {
  for (const AttentionKernel kernel : {AttentionKernel::flash, AttentionKernel::unfused}) {
    TrainConfig config = tiny();
    config.model.seq = 16384, config.model.hidden = 1024, config.model.ffn_hidden = 4096;
    config.model.heads = config.model.kv_heads = 8;
    config.layout.micro_batch = 1, config.layout.global_batch = 1;
    config.layout.attention = kernel;
    const VariantResult result = simulate(config, profile("ideal"), {});
    EXPECT_LE(*result.mfu, 1);
    EXPECT_GE(result.iteration_s, result.speed_of_light_s);
    EXPECT_EQ(result.flops_formula, kernel == AttentionKernel::flash ? "gpt-causal-v1" : "gpt-full-v1");
  }
}

TEST(Simulate, TensorGroupsAcrossNodesPayForTheNetwork) {
  TrainConfig config = gpt_13b();
  const double inside = simulate(config, profile("dgx-h100-8x100g"), {}).iteration_s;
  config.layout.placement = TensorPlacement::across_nodes;
  const double across = simulate(config, profile("dgx-h100-8x100g"), {}).iteration_s;
  const double shared = simulate(config, profile("dgx-h100-1x100g"), {}).iteration_s;
  EXPECT_GT(across, 2 * inside);
  EXPECT_GT(shared, 2 * across);  // one link for all groups that cross it
}

TEST(Simulate, BreakdownsAddUpToTheStep) {
  const VariantResult result = simulate(gpt_13b(), profile("dgx-h100"), {.verify = true});
  Breakdown sum;
  for (const StageResult& stage : result.stages) {
    Picoseconds total = 0;
    for (int category = 0; category < kCategories; ++category) {
      total += stage.breakdown.time[static_cast<std::size_t>(category)];
    }
    EXPECT_EQ(total, result.step);
  }
  EXPECT_GT(result.iteration_s, result.speed_of_light_s);
}

TEST(Simulate, DroppedRecomputedCollectivesShowInTheBytes) {
  TrainConfig config = gpt_13b();
  config.layout.recompute.granularity = RecomputeGranularity::full;
  const VariantResult broken =
      simulate(config, profile("dgx-h100"), {.injection = {.drop_recomputed_collectives = true}});
  bool seen = false;
  for (const CommunicationTime& kind : broken.communication) {
    if (kind.kind != "tensor all_gather (recomputed)") continue;
    seen = true;
    EXPECT_EQ(kind.bytes, 0);
    EXPECT_GT(kind.expected_bytes, 0);
  }
  EXPECT_TRUE(seen);
}

TEST(Simulate, RefusesAnImpossibleLayout) {
  TrainConfig config = gpt_13b();
  config.layout.tp = 7;
  try {
    simulate(config, profile("dgx-h100"), {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::config);
    EXPECT_FALSE(error.violations().empty());
  }
}

}  // namespace
}  // namespace benchsuite
