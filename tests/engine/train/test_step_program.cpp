// The recorded step against what megatron-core documents: which collectives a layer posts and where their waits stand.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "engine/model/terms.h"
#include "engine/program/verifier.h"
#include "engine/train/step.h"
#include "tests/engine/program/program_mutations.h"

namespace benchsuite {
namespace {

TrainConfig tiny() {
  TrainConfig config;
  config.model = {.name = "tiny", .layers = 4, .hidden = 64, .ffn_hidden = 256, .heads = 4, .kv_heads = 4, .seq = 32,
                  .vocab = 512};
  config.layout.attention = AttentionKernel::unfused;
  config.layout.global_batch = 1;
  return config;
}

/// Collectives of the tensor group in the layers of the Program, by (phase, kind), for each layer.
std::map<std::pair<Phase, OpKind>, std::int64_t> collectives_of_a_layer(const TrainConfig& config) {
  std::map<std::pair<Phase, OpKind>, std::int64_t> counts;
  const Program program = record_step(config, 0).program;
  for (const Op& op : program.ops) {
    if (op.stream == StreamKind::tensor && op.layer >= 0) ++counts[{op.phase, op.kind}];
  }
  const std::int64_t each = config.model.layers * config.layout.micro_batches();
  for (auto& [key, count] : counts) count = div_exact(count, each);
  return counts;
}

using Counts = std::map<std::pair<Phase, OpKind>, std::int64_t>;

// Korthikanti et al. 2022, section 4.2: f and f-bar are all-reduces, g and g-bar all-gathers and reduce-scatters.
TEST(StepProgram, TensorParallelLayerHasTwoAllReducesEachWay) {
  TrainConfig config = tiny();
  config.layout.tp = 2;
  EXPECT_EQ(collectives_of_a_layer(config),
            (Counts{{{Phase::forward, OpKind::all_reduce}, 2}, {{Phase::backward, OpKind::all_reduce}, 2}}));
}

TEST(StepProgram, SequenceParallelLayerGathersTwiceMoreInBackward) {
  TrainConfig config = tiny();
  config.layout.tp = 2;
  config.layout.sequence_parallel = true;
  EXPECT_EQ(collectives_of_a_layer(config), (Counts{{{Phase::forward, OpKind::all_gather}, 2},
                                                    {{Phase::forward, OpKind::reduce_scatter}, 2},
                                                    {{Phase::backward, OpKind::all_gather}, 4},
                                                    {{Phase::backward, OpKind::reduce_scatter}, 2}}));
}

TEST(StepProgram, FullRecomputeRepeatsTheForwardCollectives) {
  TrainConfig config = tiny();
  config.layout.tp = 2;
  config.layout.sequence_parallel = true;
  config.layout.recompute.granularity = RecomputeGranularity::full;
  const Counts counts = collectives_of_a_layer(config);
  EXPECT_EQ(counts.at({Phase::recompute, OpKind::all_gather}), 2);
  EXPECT_EQ(counts.at({Phase::recompute, OpKind::reduce_scatter}), 2);
}

TEST(StepProgram, SelectiveRecomputeOfCoreAttentionRepeatsNoCollectiveAndOnlyTheCore) {
  TrainConfig config = tiny();
  config.layout.tp = 2;
  config.layout.sequence_parallel = true;
  config.layout.recompute.granularity = RecomputeGranularity::selective;
  EXPECT_EQ(collectives_of_a_layer(config).count({Phase::recompute, OpKind::all_gather}), 0u);
  const Program program = record_step(config, 0).program;
  std::map<OpKind, int> again;
  for (const Op& op : program.ops) {
    if (op.phase == Phase::recompute) ++again[op.kind];
  }
  EXPECT_EQ(again, (std::map<OpKind, int>{{OpKind::attention_scores, 4}, {OpKind::attention_context, 4},
                                          {OpKind::softmax, 4}, {OpKind::dropout, 4}}));
}

TEST(StepProgram, SelectiveRecomputeOfTheMlpRepeatsItsCollectives) {
  TrainConfig config = tiny();
  config.layout.tp = 2;
  config.layout.sequence_parallel = true;
  config.layout.recompute = {.granularity = RecomputeGranularity::selective, .modules = {RecomputeModule::mlp}};
  const Counts counts = collectives_of_a_layer(config);
  EXPECT_EQ(counts.at({Phase::recompute, OpKind::all_gather}), 1);
  EXPECT_EQ(counts.at({Phase::recompute, OpKind::reduce_scatter}), 1);
}

/// The last op on the compute stream before `id`.
bool is_wgrad(const Program& program, const Op& op) {
  const OpShape& shape = program.shape_of(op);
  return op.kind == OpKind::gemm && shape.accumulate && shape.transpose_a;
}

/// How many weight-gradient products wait for a collective that was posted after the input-gradient product.
int wgrads_that_wait_for_dx(const Program& program) {
  int waiting = 0;
  for (const Op& op : program.ops) {
    if (!is_wgrad(program, op)) continue;
    for (const OpId wait : program.waits_of(op)) {
      if (program.ops[wait].kind == OpKind::reduce_scatter) ++waiting;
    }
  }
  return waiting;
}

TEST(StepProgram, TheStackDecidesWhetherTheInputGradientReductionHidesBehindTheWeightGradient) {
  TrainConfig config = tiny();
  config.layout.tp = 2;
  config.layout.sequence_parallel = true;
  EXPECT_EQ(wgrads_that_wait_for_dx(record_step(config, 0).program), 0);
  config.stack.overlaps_tensor_backward = false;
  EXPECT_EQ(wgrads_that_wait_for_dx(record_step(config, 0).program), 4 * 2 + 1);  // two a layer, one in the head
}

/// Of one layer in the only micro-batch: products but the weight gradients, exchanges of pieces, products that wait for one.
struct Tiles {
  int products = 0, exchanges = 0, waits = 0;
};

Tiles tiles_of(const Program& program, Phase phase) {
  Tiles tiles;
  for (const Op& op : program.ops) {
    if (op.layer != 0 || op.phase != phase) continue;
    tiles.exchanges += op.kind == OpKind::shift;
    if (op.kind != OpKind::gemm || program.shape_of(op).accumulate) continue;
    ++tiles.products;
    const auto waits = program.waits_of(op);
    tiles.waits += std::any_of(waits.begin(), waits.end(), [&](OpId id) { return program.ops[id].kind == OpKind::shift; });
  }
  return tiles;
}

// Transformer Engine with userbuffers: forward both products of a block and backward the input gradient of the row-parallel one
// run in t tiles; the tile of the rank's own piece waits for no exchange.
TEST(StepProgram, TilesOfAProductRunBesideTheExchangesOfItsPieces) {
  TrainConfig config = tiny();
  config.layout.tp = 4;
  config.layout.sequence_parallel = true;
  config.stack.overlaps_tensor_gemms = true;
  const Program program = record_step(config, 1).program;
  const Tiles forward = tiles_of(program, Phase::forward);
  EXPECT_EQ(forward.products, 4 * 4);
  EXPECT_EQ(forward.exchanges, 4 * 3);
  EXPECT_EQ(forward.waits, 2 * 3) << "gathered pieces, each awaited by its own tile";
  const Tiles backward = tiles_of(program, Phase::backward);
  EXPECT_EQ(backward.products, 2 * 4 + 2) << "the column-parallel input gradients are whole";
  EXPECT_EQ(backward.exchanges, 2 * 3);
  EXPECT_EQ(backward.waits, 2 * 3);
  const Counts counts = collectives_of_a_layer(config);
  EXPECT_EQ(counts.at({Phase::backward, OpKind::all_gather}), 2) << "the re-gathers";
  EXPECT_EQ(counts.at({Phase::backward, OpKind::reduce_scatter}), 2) << "of input gradients, behind the weight gradients";
  EXPECT_EQ(counts.count({Phase::forward, OpKind::all_gather}), 0u);
}

/// Launches of the host: ops that join no other's.
std::int64_t launches(const Program& program) {
  return std::count_if(program.ops.begin(), program.ops.end(), [](const Op& op) { return !op.joins_launch; });
}

// A captured part of a layer is one launch each way and micro-batch.
TEST(StepProgram, GraphsOfLayerPartsAreOneLaunchEach) {
  TrainConfig config = tiny();
  config.layout.global_batch = 2;
  const auto joined = [&](GraphScope scope) {
    config.stack.cuda_graphs = true;
    config.stack.cuda_graph_scope = scope;
    const Program program = record_step(config, 0).program;
    std::map<Site, std::int64_t> by_site;
    for (const Op& op : program.ops) {
      if (!op.joins_launch && op.layer >= 0) ++by_site[op.site];
    }
    return by_site;
  };
  const std::int64_t passes = 2 * 2 * config.model.layers;  // each way, of two micro-batches
  EXPECT_EQ(joined({.full_iteration = false, .attention = true})[Site::attention], passes);
  EXPECT_GT(joined({.full_iteration = false, .attention = true})[Site::mlp], passes);
  EXPECT_EQ(joined({.full_iteration = false, .mlp = true})[Site::mlp], passes);
  const auto both = joined({.full_iteration = false, .attention = true, .mlp = true});
  std::int64_t all = 0;
  for (const auto& [site, count] : both) all += count;
  EXPECT_EQ(all, passes) << "one graph of the whole layer";
  const Program whole = record_step(config, 0).program;
  config.stack.cuda_graphs = false;
  const Program eager = record_step(config, 0).program;
  EXPECT_EQ(launches(eager), static_cast<std::int64_t>(eager.ops.size()));
  EXPECT_LT(launches(whole), launches(eager));
}

TEST(StepProgram, TheSoftmaxKernelTakesMultiplesOfItsBatchesOnly) {
  TrainConfig config = tiny();
  config.layout.attention = AttentionKernel::unfused;
  const std::int64_t batches = config.layout.micro_batch * config.model.heads;
  const auto elementary = [&](std::int64_t of) {
    config.stack.fused_softmax_batches = of;
    const Program program = record_step(config, 0).program;
    std::set<bool> found;
    for (const OpShape& shape : program.shapes) {
      if (shape.kind != OpKind::softmax && shape.kind != OpKind::softmax_backward) continue;
      EXPECT_EQ(shape.dims[2], shape.eager ? 1 : 0);
      found.insert(shape.eager);
    }
    EXPECT_EQ(found.size(), 1u);
    return found.contains(true);
  };
  EXPECT_FALSE(elementary(1));
  EXPECT_FALSE(elementary(batches));
  EXPECT_TRUE(elementary(batches + 1));
}

TEST(StepProgram, OverlappedGradientReductionStartsBucketsBeforeTheLastBackwardEnds) {
  TrainConfig config = tiny();
  config.model.layers = 6;
  config.model.hidden = 256;
  config.model.ffn_hidden = 1024;
  config.layout.dp = 2;
  config.layout.global_batch = 4;
  config.stack.bucket_elements = 1'000'000;  // below 1 M d, which then decides: 2 M of 4.7 M elements
  config.stack.overlaps_gradient_reduction = true;
  const auto reductions_before_last_backward = [](const Program& program) {
    std::size_t last_backward = 0;
    for (std::size_t id = 0; id < program.ops.size(); ++id) {
      if (program.ops[id].phase == Phase::backward) last_backward = id;
    }
    int early = 0, micro_batch = -1;
    for (std::size_t id = 0; id < last_backward; ++id) {
      if (program.ops[id].phase == Phase::backward) micro_batch = program.ops[id].micro_batch;
      if (program.ops[id].stream != StreamKind::data) continue;
      ++early;
      EXPECT_EQ(micro_batch, 1) << "gradients are reduced in the last micro-batch only";
    }
    return early;
  };
  EXPECT_EQ(reductions_before_last_backward(record_step(config, 0).program), 2);
  config.stack.overlaps_gradient_reduction = false;
  EXPECT_EQ(reductions_before_last_backward(record_step(config, 0).program), 0);
}

// megatron-core --overlap-param-gather: a step begins with the gather of what the last one updated, and a bucket's gather is
// posted before the forward pass of the bucket before it.
TEST(StepProgram, OverlappedParameterGathersStandBeforeTheirFirstUse) {
  TrainConfig config = tiny();
  config.model.layers = 6;
  config.model.hidden = 256;
  config.model.ffn_hidden = 1024;
  config.layout.dp = 2;
  config.layout.zero_stage = 1;
  config.layout.global_batch = 4;
  config.stack.bucket_elements = 1'000'000;  // below 1 M d, which then decides: 2 M of 4.7 M elements
  config.stack.overlaps_gradient_reduction = true;
  const auto gathers = [&] {
    std::vector<OpId> ids;
    const Program program = record_step(config, 0).program;
    for (OpId id = 0; id < program.ops.size(); ++id) {
      if (program.ops[id].phase == Phase::parameter_gather) ids.push_back(id);
    }
    OpId forward = 0;  // end of the first forward pass
    while (program.ops[forward].phase != Phase::backward) ++forward;
    return std::pair{ids, forward};
  };
  const auto [late, late_backward] = gathers();
  ASSERT_EQ(late.size(), 4u) << "the words, two buckets of 2 M elements, the rest";
  EXPECT_GT(late.front(), late_backward);
  config.stack.overlaps_parameter_gather = true;
  const auto [early, backward] = gathers();
  ASSERT_EQ(early.size(), 4u);
  EXPECT_LT(early.back(), backward);
  EXPECT_LT(early[2] + 1, early[3]) << "the last is set off by the first use of the one before, not at the start";
}

// megatron-core: no weight decay for biases and one-dimensional tensors.
TEST(StepProgram, OnlyMatricesDecay) {
  const RecordedStep step = record_step(tiny(), 0);
  double decayed = 0, exempt = 0, matrices = 0, vectors = 0;
  for (const Op& op : step.program.ops) {
    if (op.kind != OpKind::adamw) continue;
    const OpShape& shape = step.program.shape_of(op);
    (shape.scalars[0] > 0 ? decayed : exempt) += static_cast<double>(shape.dims[0]);
  }
  for (const Parameter& parameter : step.bindings.parameters) {
    if (parameter.shared_copy) continue;
    const bool vector = parameter.name.ends_with("bias") || parameter.name.find("norm") != std::string::npos;
    (vector ? vectors : matrices) += static_cast<double>(parameter.elements());
  }
  EXPECT_EQ(decayed, matrices);
  EXPECT_EQ(exempt, vectors);
}

/// Sends that the very next compute op waits for.
int awaited_sends(const Program& program) {
  int awaited = 0;
  OpId sent = kNone;
  for (OpId id = 0; id < program.ops.size(); ++id) {
    const Op& op = program.ops[id];
    if (op.kind == OpKind::send) sent = id;
    if (op.stream != StreamKind::compute) continue;
    const auto waits = program.waits_of(op);
    awaited += sent != kNone && std::find(waits.begin(), waits.end(), sent) != waits.end();
    sent = kNone;
  }
  return awaited;
}

TEST(StepProgram, BlockingTransportWaitsForItsSends) {
  TrainConfig config = tiny();
  config.layout.pp = 2;
  config.layout.global_batch = 4;
  EXPECT_EQ(awaited_sends(record_step(config, 0).program), 4);
  config.stack.overlaps_pipeline = true;
  EXPECT_EQ(awaited_sends(record_step(config, 0).program), 0);
}

TEST(StepProgram, RecordingIsAPureFunction) {
  TrainConfig config = tiny();
  config.layout.tp = 2;
  config.layout.pp = 2;
  config.layout.global_batch = 4;
  const Program a = record_step(config, 2).program, b = record_step(config, 2).program;
  ASSERT_EQ(a.ops.size(), b.ops.size());
  EXPECT_EQ(a.waits, b.waits);
  EXPECT_EQ(a.shapes, b.shapes);
  EXPECT_EQ(a.groups, b.groups);
  for (std::size_t i = 0; i < a.buffers.size(); ++i) ASSERT_EQ(a.buffers[i].offset, b.buffers[i].offset);
}

struct Sweep {
  const char* name;
  int tp, pp, vpp, dp, zero;
  bool sequence_parallel, flash, fused, overlapped;
  RecomputeConfig recompute;
  bool pieces = false, tiles = false;  ///< pieces: stages send them, recompute keeps them; with 4 stages, uneven ones
};

std::vector<Sweep> sweeps() {
  const RecomputeConfig none, full{.granularity = RecomputeGranularity::full},
      full2{.granularity = RecomputeGranularity::full, .num_layers = 2},
      block{.granularity = RecomputeGranularity::full, .method = RecomputeMethod::block},
      core{.granularity = RecomputeGranularity::selective},
      all{.granularity = RecomputeGranularity::selective,
          .modules = {RecomputeModule::core_attn, RecomputeModule::layernorm, RecomputeModule::mlp}};
  std::vector<Sweep> list;
  for (const RecomputeConfig& recompute : {none, full, full2, block, core, all}) {
    for (const bool variant : {false, true}) {
      list.push_back({"one rank", 1, 1, 1, 1, 0, false, variant, !variant, variant, recompute});
      list.push_back({"tp2", 2, 1, 1, 1, 0, variant, !variant, variant, variant, recompute});
      list.push_back({"tp2 pp2 dp2", 2, 2, 1, 2, variant, true, variant, true, variant, recompute});
      list.push_back({"pp2 v2 dp2", 1, 2, 2, 2, variant, false, variant, variant, !variant, recompute});
      list.push_back({"tp4 pp4 v2", 4, 4, 2, 1, variant, true, variant, variant, variant, recompute});
      list.push_back({"tp4 pp2 tiles", 4, 2, 1, 1, 0, true, variant, variant, variant, recompute, false, true});
      list.push_back({"tp2 pp2 v2 in pieces", 2, 2, 2, 1, 0, false, variant, variant, variant, recompute, true});
      list.push_back({"tp4 pp4 dp2 in pieces, uneven", 4, 4, 1, 2, 1, false, variant, variant, variant, recompute, true});
    }
  }
  return list;
}

TEST(StepProgram, TheVerifierAcceptsEveryLayout) {
  for (const Sweep& sweep : sweeps()) {
    TrainConfig config = tiny();
    config.model.layers = 8;
    Layout& layout = config.layout;
    layout.tp = sweep.tp, layout.pp = sweep.pp, layout.vpp = sweep.vpp, layout.dp = sweep.dp;
    layout.zero_stage = sweep.zero;
    layout.sequence_parallel = sweep.sequence_parallel;
    layout.attention = sweep.flash ? AttentionKernel::flash : AttentionKernel::unfused;
    layout.schedule = sweep.vpp > 1 ? ScheduleKind::interleaved : ScheduleKind::one_f_one_b;
    layout.recompute = sweep.recompute;
    config.stack.scatters_pipeline_activations = sweep.pieces;
    config.stack.overlaps_tensor_gemms = sweep.tiles;
    layout.recompute.distribute_saved_activations =
        sweep.pieces && layout.recompute.granularity == RecomputeGranularity::full;
    if (sweep.pieces && sweep.pp == 4) layout.layer_split = {.first_stage = 3, .last_stage = 1};
    if (sweep.vpp * sweep.pp == 8) layout.recompute.num_layers = 1;
    layout.global_batch = 4 * sweep.dp;
    config.stack.fused_bias_gelu = config.stack.fused_bias_dropout_add = sweep.fused;
    config.stack.stores_dropout_masks = sweep.fused;
    config.stack.overlaps_gradient_reduction = config.stack.overlaps_pipeline = sweep.overlapped;
    config.stack.overlaps_tensor_backward = config.stack.overlaps_pipeline_interleaved = sweep.overlapped;
    const std::vector<Violation> refused = validate(config, "", Wanted::times);
    ASSERT_TRUE(refused.empty()) << sweep.name << ": " << to_string(refused.front());
    std::vector<Program> programs;
    for (int rank = 0; rank < layout.world(); ++rank) programs.push_back(record_step(config, rank).program);
    std::vector<const Program*> pointers;
    for (const Program& program : programs) pointers.push_back(&program);
    const auto findings = verify(pointers);
    EXPECT_TRUE(findings.empty()) << sweep.name << ":\n" << to_string(findings);
  }
}

TEST(StepProgram, DroppingAWaitThatMattersIsARace) {
  TrainConfig config = tiny();
  config.model.layers = 2;
  Layout& layout = config.layout;
  layout.tp = layout.pp = layout.dp = 2;
  layout.sequence_parallel = true;
  layout.zero_stage = 1;
  layout.global_batch = 4;
  layout.recompute.granularity = RecomputeGranularity::full;
  int waits = 0, mattered = 0;
  for_each_dropped_wait(record_step(config, 0).program, [&](const DroppedWait& dropped) {
    const std::vector<Finding> findings = verify_rank(dropped.program);
    const bool race = std::any_of(findings.begin(), findings.end(),
                                  [](const Finding& finding) { return finding.kind == Finding::Kind::race; });
    EXPECT_EQ(race, !races_by_brute_force(dropped.program).empty())
        << "op " << dropped.op << " without its wait for op " << dropped.waited_for;
    ++waits;
    mattered += race;
  });
  // Two micro-batches of one layer: 14 collectives each with recompute, each waits for its input and is waited for.
  EXPECT_GE(mattered, 2 * 14 * 2);
  EXPECT_GE(waits, mattered);
}

// Waiting for a send that the other rank cannot yet take would stop the pipeline; reused memory makes such waits.
TEST(StepProgram, NoScheduleDeadlocksWhateverItsGroups) {
  for (const bool overlapped : {true, false}) {
    for (const int p : {2, 3, 4}) {
      for (const int v : {2, 3}) {
        for (int m = p; m <= 3 * p + 1; ++m) {
          for (int group = p; group <= m; ++group) {
            TrainConfig config = tiny();
            config.model.layers = p * v;
            config.stack.overlaps_pipeline_interleaved = overlapped;
            Layout& layout = config.layout;
            layout.pp = p, layout.vpp = v, layout.global_batch = m, layout.microbatch_group = group;
            layout.schedule = ScheduleKind::interleaved;
            if (!validate(config, "", Wanted::times).empty()) continue;  // a short last group below p
            std::vector<Program> programs;
            for (int rank = 0; rank < p; ++rank) programs.push_back(record_step(config, rank).program);
            std::vector<const Program*> pointers;
            for (const Program& program : programs) pointers.push_back(&program);
            const auto findings = verify(pointers);
            ASSERT_TRUE(findings.empty()) << "p " << p << " v " << v << " m " << m << " g " << group << ":\n"
                                          << to_string(findings);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace benchsuite
