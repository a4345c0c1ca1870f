// The same engine everywhere: what device cpu really did in a step is what the Program says and what the closed formulas count:
// ops, their order, collectives and their bytes, memory. Nothing here asks the Recorder's bookkeeping; spans, calls to the
// communicator and touched bytes are what is counted.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "engine/model/formulas.h"
#include "engine/model/stage_layers.h"
#include "engine/program/memory_summary.h"
#include "tests/engine/train/executed.h"
#include "tests/engine/train/recount.h"
#include "tests/engine/train/same_engine.h"

namespace benchsuite {
namespace {

using testing_train::execute;
using testing_train::Executed;
using testing_train::execution_order;
using testing_train::NotingWorld;
using testing_train::recount;
using testing_train::recount_saved;

using testing_train::kBothModels;
using testing_train::SameEngine;

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
    case OpKind::shift:
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

/// Saved bytes that the paper leaves out: two fp32 numbers a token for every LayerNorm, one for every RMSNorm, one a row of scores
/// for flash.
double statistics_bytes(const TrainConfig& config, std::int64_t stage, const SavedActivations& saved) {
  const Layout& layout = config.layout;
  const auto local_tokens = static_cast<double>(config.model.seq * layout.micro_batch / (layout.sequence_parallel ? layout.tp : 1));
  const auto heads = static_cast<double>(config.model.heads / layout.tp);
  const double norm = (config.model.rms_norm() ? 4 : 8) * local_tokens;
  const double rows =
      layout.attention == AttentionKernel::flash && !layout.recompute.selects(RecomputeModule::core_attn)
          ? 4 * heads * static_cast<double>(config.model.seq * layout.micro_batch)
          : 0;
  const StageLayers held = stage_layers(config.model, layout, stage);
  double whole = saved.layers_total / saved.layer_bytes;  // layers in flight that are not recomputed
  if (layout.recompute.granularity == RecomputeGranularity::full) {
    const std::int64_t kept =
        layout.recompute.method == RecomputeMethod::block ? held.chunk - layout.recompute.num_layers : 0;
    whole = static_cast<double>(kept * saved.chunks_in_flight);
  }
  double bytes = whole * (2 * norm + rows);
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
    const auto counted =
        static_cast<double>(recount_saved(ran.recorded[rank].program, execution_order(ran.timelines[rank])));
    const double formula = saved.layers_total + saved.outside_bytes + statistics_bytes(config, stage, saved);
    if (stage_layers(config.model, config.layout, stage).light != StageLayers::Light::none && config.layout.vpp > 1) {
      EXPECT_LE(counted, formula) << "rank " << rank;  // the layers are not at their peak when the ends are
      continue;
    }
    EXPECT_EQ(counted, formula) << "rank " << rank;
  }
}

// The planned peak is what is touched around it, and what communication that may still be under way has touched last. In real
// time what is received or gathered ahead is touched later than planned, so the peak of what is touched can only be lower.
TEST_P(SameEngine, MemoryRecountedFromTouchesExplainsThePlannedPeak) {
  const Executed ran = execute(config(), 1, Poison::off);
  for (std::size_t rank = 0; rank < ran.recorded.size(); ++rank) {
    const Program& program = ran.recorded[rank].program;
    const MemorySummary plan = summarise_memory(program);
    const auto counted = testing_train::recount_at(program, plan.peak_at);
    EXPECT_EQ(counted.unexplained, "") << "rank " << rank;
    for (std::size_t purpose = 0; purpose < kPurposes; ++purpose) {
      EXPECT_EQ(counted.touched[purpose] + counted.held[purpose], plan.peak_by_purpose[purpose])
          << name_of(static_cast<Purpose>(purpose)) << ", rank " << rank;
      if (ran.recorded.size() > 1) continue;
      EXPECT_EQ(counted.held[purpose], 0u) << "one rank has nobody to wait for";
    }
    std::vector<OpId> recorded(program.ops.size());
    std::iota(recorded.begin(), recorded.end(), OpId{0});
    EXPECT_LE(recount(program, recorded).total, plan.peak_bytes) << "rank " << rank;
    EXPECT_LE(recount(program, execution_order(ran.timelines[rank])).total, plan.peak_bytes) << "rank " << rank;
  }
}

TEST_P(SameEngine, PoisonOutsideLifetimesChangesNoBit) {
  EXPECT_EQ(execute(config(), 2, Poison::on).loss, execute(config(), 2, Poison::off).loss);
}

INSTANTIATE_TEST_SUITE_P(Configurations, SameEngine, kBothModels, testing_train::configuration_name);

}  // namespace
}  // namespace benchsuite
