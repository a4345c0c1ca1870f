// The same engine everywhere: what device cpu really did in a step is what the Program says and what the closed formulas count:
// ops, their order, collectives and their bytes, memory. Nothing here asks the Recorder's bookkeeping; spans, calls to the
// communicator and touched bytes are what is counted.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <tuple>

#include "engine/core/exact_sum.h"
#include "engine/model/flops.h"
#include "engine/model/formulas.h"
#include "engine/program/memory_summary.h"
#include "tests/engine/train/executed.h"
#include "tests/engine/train/recount.h"

namespace benchsuite {
namespace {

using testing_train::execute;
using testing_train::Executed;
using testing_train::execution_order;
using testing_train::NotingWorld;
using testing_train::recount;
using testing_train::recount_saved;

/// Dimensions at which no ZeRO bucket is padded on one tensor rank: sizes of all buckets are multiples of 128 d.
TrainConfig small() {
  TrainConfig config;
  config.model = {.name = "small", .layers = 4, .hidden = 128, .ffn_hidden = 512, .heads = 4, .kv_heads = 4, .seq = 16,
                  .vocab = 512, .dropout = 0.1};
  config.layout.precision = DType::fp32;
  config.layout.attention = AttentionKernel::unfused;
  config.layout.global_batch = 4;
  config.stack.sharded_parameters = {
      .prefetch_elements = 0, .max_live_elements = 0, .max_reuse_distance = 0, .persistence_threshold = 0};
  return config;
}

struct Configuration {
  const char* name;
  std::function<void(TrainConfig&)> change;
};

void full(TrainConfig& c, std::int64_t layers, RecomputeMethod method = RecomputeMethod::uniform) {
  c.layout.recompute = {.granularity = RecomputeGranularity::full, .method = method, .num_layers = layers};
}

const Configuration kConfigurations[] = {
    {"one_rank", [](auto&) {}},
    {"one_rank_bf16", [](auto& c) { c.layout.precision = DType::bf16; }},
    {"flash_full_1", [](auto& c) { c.layout.attention = AttentionKernel::flash, full(c, 1); }},
    {"full_2", [](auto& c) { full(c, 2); }},
    {"block_3_regenerated", [](auto& c) { full(c, 3, RecomputeMethod::block), c.stack.stores_dropout_masks = false; }},
    {"core_attn", [](auto& c) { c.layout.recompute.granularity = RecomputeGranularity::selective; }},
    {"norm_mlp",
     [](auto& c) {
       c.layout.recompute = {.granularity = RecomputeGranularity::selective,
                             .modules = {RecomputeModule::layernorm, RecomputeModule::mlp}};
     }},
    {"micro_batch_2", [](auto& c) { c.layout.micro_batch = 2; }},
    {"pp2_bf16", [](auto& c) { c.layout.pp = 2, c.layout.precision = DType::bf16; }},
    {"pp4_gpipe", [](auto& c) { c.layout.pp = 4, c.layout.schedule = ScheduleKind::gpipe; }},
    {"pp2_v2", [](auto& c) { c.layout.pp = 2, c.layout.vpp = 2, c.layout.schedule = ScheduleKind::interleaved; }},
    {"pp4_overlapped", [](auto& c) { c.layout.pp = 4, c.stack.overlaps_pipeline = true; }},
    {"tp2", [](auto& c) { c.layout.tp = 2; }},
    {"tp4_sp_full_1", [](auto& c) { c.layout.tp = 4, c.layout.sequence_parallel = true, full(c, 1); }},
    {"tp2_sp_pp2_bf16",
     [](auto& c) {
       c.layout.tp = c.layout.pp = 2, c.layout.sequence_parallel = true, c.layout.precision = DType::bf16;
     }},
    {"tp2_sp_mlp",
     [](auto& c) {
       c.layout.tp = 2, c.layout.sequence_parallel = true;
       c.layout.recompute = {.granularity = RecomputeGranularity::selective, .modules = {RecomputeModule::mlp}};
     }},
    {"dp2_overlapped", [](auto& c) { c.layout.dp = 2, c.stack.overlaps_gradient_reduction = true; }},
    {"dp2_zero1_bf16", [](auto& c) { c.layout.dp = 2, c.layout.zero_stage = 1, c.layout.precision = DType::bf16; }},
    {"pp2_dp2_zero2", [](auto& c) { c.layout.pp = c.layout.dp = 2, c.layout.zero_stage = 2; }},
    {"dp2_zero3_full_1", [](auto& c) { c.layout.dp = 2, c.layout.zero_stage = 3, full(c, 1); }},
    {"pp2_dp2_zero3_bf16",
     [](auto& c) { c.layout.pp = c.layout.dp = 2, c.layout.zero_stage = 3, c.layout.precision = DType::bf16; }},
    {"tp2_sp_pp2_dp2",
     [](auto& c) { c.layout.tp = c.layout.pp = c.layout.dp = 2, c.layout.sequence_parallel = true; }},
};

void PrintTo(const Configuration& configuration, std::ostream* out) { *out << configuration.name; }

class SameEngine : public testing::TestWithParam<Configuration> {
 protected:
  static TrainConfig config() {
    TrainConfig config = small();
    GetParam().change(config);
    return config;
  }
  static std::int64_t stage_of(const TrainConfig& config, std::size_t rank) {
    return RankGrid(config.layout).coordinates(static_cast<int>(rank)).pp;
  }
};

TEST_P(SameEngine, EveryOpRunsOnceInStreamOrderAfterItsWaits) {
  const Executed ran = execute(config(), 2, Poison::off);
  for (std::size_t rank = 0; rank < ran.recorded.size(); ++rank) {
    const Program& program = ran.recorded[rank].program;
    const std::vector<Span>& spans = ran.timelines[rank].spans;
    ASSERT_EQ(spans.size(), program.ops.size());
    std::array<Picoseconds, kStreams> tail{};
    int misordered = 0, unmet = 0, unrun = 0;
    for (OpId id = 0; id < program.ops.size(); ++id) {
      const Op& op = program.ops[id];
      const Span& span = spans[id];
      unrun += span.ready < 0 || span.start < span.ready || span.end < span.start ? 1 : 0;
      Picoseconds& before = tail[static_cast<std::size_t>(op.stream)];
      misordered += span.ready < before ? 1 : 0;
      before = span.end;
      for (const OpId wait : program.waits_of(op)) unmet += spans[wait].end > span.ready ? 1 : 0;
    }
    EXPECT_EQ(unrun, 0) << "rank " << rank;
    EXPECT_EQ(misordered, 0) << "rank " << rank;
    EXPECT_EQ(unmet, 0) << "rank " << rank;
    EXPECT_EQ(testing_train::overlaps_in_time(program, ran.timelines[rank]), 0) << "rank " << rank;
  }
}

using Collective = std::tuple<GroupKind, OpKind, bool>;  // group, op, recomputed
struct Total {
  double bytes = 0;
  std::int64_t calls = 0;
};

/// What a rank sends on a ring.
double ring_bytes(OpKind kind, double members, double bytes) {
  switch (kind) {
    case OpKind::all_reduce: return 2 * (members - 1) / members * bytes;
    case OpKind::send: return bytes;
    case OpKind::receive: return 0;
    default: return (members - 1) / members * bytes;
  }
}

TEST_P(SameEngine, CollectivesAreTheProgramsAndTheFormulas) {
  const TrainConfig config = SameEngine::config();
  const Executed ran = execute(config, 1, Poison::off);
  for (std::size_t rank = 0; rank < ran.recorded.size(); ++rank) {
    const Program& program = ran.recorded[rank].program;
    // Every communication op was posted once, with its own numbers.
    std::set<OpId> posted;
    std::map<Collective, Total> sent;
    for (const NotingWorld::Note& note : ran.notes[rank]) {
      ASSERT_LT(note.call.op, program.ops.size());
      const Op& op = program.ops[note.call.op];
      EXPECT_TRUE(posted.insert(note.call.op).second) << "op " << note.call.op << " is posted twice";
      EXPECT_EQ(note.call.kind, op.kind);
      EXPECT_EQ(note.sequence, op.group_sequence);
      EXPECT_EQ(note.group, program.groups[op.group]);
      EXPECT_EQ(note.call.elements, program.shape_of(op).dims[0]);
      EXPECT_EQ(note.call.dtype, program.shape_of(op).dtype);
      if (op.stream == StreamKind::global || op.kind == OpKind::receive) continue;  // scalars; counted where they are sent
      Total& total = sent[{note.group.kind, op.kind, op.phase == Phase::recompute}];
      total.bytes += ring_bytes(op.kind, static_cast<double>(note.group.ranks.size()),
                                static_cast<double>(note.call.elements * size_of(note.call.dtype)));
      ++total.calls;
    }
    EXPECT_EQ(posted.size(), static_cast<std::size_t>(std::count_if(program.ops.begin(), program.ops.end(), [](const Op& op) {
                return is_communication(op.kind);
              })));

    std::map<Collective, Total> wanted;
    std::set<Collective> calls_unknown;
    for (const Volume& volume : communication_volumes(config.model, config.layout, config.stack, stage_of(config, rank))) {
      ASSERT_GE(volume.bytes, 0) << volume.formula;
      Total& total = wanted[{volume.group, volume.op, volume.recomputed}];
      total.bytes += volume.bytes;
      total.calls += volume.calls;
      if (volume.calls < 0) calls_unknown.insert({volume.group, volume.op, volume.recomputed});
    }
    for (const auto& [key, total] : sent) EXPECT_TRUE(wanted.contains(key)) << name_of(std::get<1>(key)) << ": no formula";
    for (const auto& [key, total] : wanted) {
      const std::string what = std::string(name_of(std::get<0>(key))) + " " + std::string(name_of(std::get<1>(key)));
      EXPECT_EQ(sent[key].bytes, total.bytes) << what << ", rank " << rank;
      if (calls_unknown.contains(key)) continue;
      EXPECT_EQ(sent[key].calls, total.calls) << what << ", rank " << rank;
    }
  }
}

/// Saved bytes that the paper leaves out: two fp32 numbers a token for every LayerNorm, one a row of scores for flash.
double statistics_bytes(const TrainConfig& config, std::int64_t stage, const SavedActivations& saved) {
  const Layout& layout = config.layout;
  const auto local_tokens = static_cast<double>(config.model.seq * layout.micro_batch / (layout.sequence_parallel ? layout.tp : 1));
  const auto heads = static_cast<double>(config.model.heads / layout.tp);
  const double norm = 8 * local_tokens;
  const double rows =
      layout.attention == AttentionKernel::flash && !layout.recompute.selects(RecomputeModule::core_attn)
          ? 4 * heads * static_cast<double>(config.model.seq * layout.micro_batch)
          : 0;
  const std::int64_t layers = config.model.layers / (layout.pp * layout.vpp);
  const bool recomputed = layout.recompute.granularity == RecomputeGranularity::full;
  const std::int64_t whole = !recomputed                                             ? layers
                             : layout.recompute.method == RecomputeMethod::block ? layers - layout.recompute.num_layers
                                                                                     : 0;
  double bytes = static_cast<double>(whole * saved.chunks_in_flight) * (2 * norm + rows);
  if (stage == layout.pp - 1) {
    bytes += norm * static_cast<double>(layout.schedule == ScheduleKind::gpipe ? layout.micro_batches() : 1);
  }
  return bytes;
}

TEST_P(SameEngine, SavedActivationsAtTheirHighWaterEqualTheFormula) {
  const TrainConfig config = SameEngine::config();
  const Executed ran = execute(config, 1, Poison::off);
  for (std::size_t rank = 0; rank < ran.recorded.size(); ++rank) {
    const std::int64_t stage = stage_of(config, rank);
    const SavedActivations saved = saved_activations(config.model, config.layout, config.stack, stage);
    EXPECT_EQ(static_cast<double>(recount_saved(ran.recorded[rank].program, execution_order(ran.timelines[rank]))),
              saved.layers_total + saved.outside_bytes + statistics_bytes(config, stage, saved))
        << "rank " << rank;
  }
}

TEST_P(SameEngine, MemoryRecountedFromTouchesIsThePlan) {
  const Executed ran = execute(config(), 1, Poison::off);
  for (std::size_t rank = 0; rank < ran.recorded.size(); ++rank) {
    const Program& program = ran.recorded[rank].program;
    const MemorySummary plan = summarise_memory(program);
    const auto counted = recount(program, execution_order(ran.timelines[rank]));
    std::printf("%s rank %zu plan %lu touched %lu\n", GetParam().name, rank, plan.peak_bytes, counted.total);
    for (std::size_t p = 0; p < kPurposes; ++p) {
      std::printf("  %-14s plan %lu touched %lu\n", std::string(name_of(static_cast<Purpose>(p))).c_str(), plan.peak_by_purpose[p], counted.at_peak[p]);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Configurations, SameEngine, testing::ValuesIn(kConfigurations),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace benchsuite
