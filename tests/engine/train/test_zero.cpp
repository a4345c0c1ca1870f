// ZeRO changes where parameters, gradients and optimizer state live, and nothing else.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>

#include "engine/model/flops.h"
#include "engine/model/formulas.h"
#include "engine/program/memory_summary.h"
#include "engine/program/verifier.h"
#include "engine/train/cpu_training.h"

namespace benchsuite {
namespace {

TrainConfig tiny() {
  TrainConfig config;
  config.model = {.name = "tiny", .layers = 4, .hidden = 32, .ffn_hidden = 128, .heads = 4, .kv_heads = 4, .seq = 16,
                  .vocab = 512, .dropout = 0.1};
  config.layout.precision = DType::fp32;
  config.layout.dp = 2;
  config.layout.global_batch = 8;
  // Limits scaled down to the model, so that gathers, prefetches and releases happen.
  config.stack.sharded_parameters = {
      .prefetch_elements = 6000, .max_live_elements = 30000, .max_reuse_distance = 5000, .persistence_threshold = 64};
  return config;
}

/// FSDP2 with reshard_after_forward: whole layers, the next unit prefetched, everything released after use.
constexpr ShardedParameterConfig kFsdp2{.unit = ShardedParameterConfig::Unit::layer,
                                        .prefetch_elements = 1,
                                        .max_live_elements = 1'000'000'000'000,
                                        .max_reuse_distance = 0,
                                        .persistence_threshold = 0};

CpuTrainingResult train(TrainConfig config, int stage) {
  config.layout.zero_stage = stage;
  return train_on_cpu(config, {.steps = 2, .poison = true, .collect_gradients = true});
}

void expect_same(const CpuTrainingResult& a, const CpuTrainingResult& b, const std::string& what) {
  EXPECT_EQ(a.loss, b.loss) << what;
  EXPECT_EQ(a.gradient_norm, b.gradient_norm) << what;
  EXPECT_EQ(a.gradients, b.gradients) << what;
  EXPECT_EQ(a.parameters, b.parameters) << what;
}

struct Change {
  const char* name;
  std::function<void(TrainConfig&)> apply;
};

const Change kChanges[] = {
    {"dp2", [](auto&) {}},
    {"dp4", [](auto& c) { c.layout.dp = 4; }},
    {"pp2_dp2", [](auto& c) { c.layout.pp = 2; }},
    {"pp2_v2_dp2",
     [](auto& c) {
       c.layout.pp = 2, c.layout.vpp = 2, c.layout.schedule = ScheduleKind::interleaved;
     }},
    {"tp2_sp_dp2_full",
     [](auto& c) {
       c.layout.tp = 2, c.layout.sequence_parallel = true;
       c.layout.recompute.granularity = RecomputeGranularity::full;
     }},
    {"tp2_pp2_dp2_selective",
     [](auto& c) {
       c.layout.tp = c.layout.pp = 2;
       c.layout.recompute = {.granularity = RecomputeGranularity::selective, .modules = {RecomputeModule::mlp}};
     }},
    {"overlapped", [](auto& c) { c.stack.overlaps_gradient_reduction = true; }},
    {"by_layer", [](auto& c) { c.stack.sharded_parameters.unit = ShardedParameterConfig::Unit::layer; }},
    {"by_parameter_synchronous",
     [](auto& c) {
       c.stack.sharded_parameters.unit = ShardedParameterConfig::Unit::parameter;
       c.stack.sharded_parameters.synchronous = c.stack.sharded_parameters.by_lists = true;
     }},
    {"nothing_kept",
     [](auto& c) {
       c.stack.sharded_parameters = {
           .prefetch_elements = 0, .max_live_elements = 0, .max_reuse_distance = 0, .persistence_threshold = 0};
     }},
    {"defaults", [](auto& c) { c.stack.sharded_parameters = {}; }},
    {"fsdp2", [](auto& c) { c.stack.overlaps_gradient_reduction = true, c.stack.sharded_parameters = kFsdp2; }},
};

class Zero : public testing::TestWithParam<Change> {};
void PrintTo(const Change& change, std::ostream* out) { *out << change.name; }

TEST_P(Zero, StagesTwoAndThreeAgreeBitForBit) {
  TrainConfig config = tiny();
  GetParam().apply(config);
  expect_same(train(config, 3), train(config, 2), "stage 3 against 2");
}

// With several micro-batches stages 2 and 3 sum over replicas first and over micro-batches second; with one, all agree.
TEST_P(Zero, AllStagesAgreeBitForBitWithOneMicroBatch) {
  TrainConfig config = tiny();
  GetParam().apply(config);
  if (config.layout.vpp > 1) return;  // needs as many micro-batches as stages
  config.layout.global_batch = config.layout.dp;
  const CpuTrainingResult plain = train(config, 0);
  for (const int stage : {1, 2, 3}) expect_same(train(config, stage), plain, "stage " + std::to_string(stage));
}

TEST_P(Zero, TheVerifierAcceptsIt) {
  for (const int stage : {2, 3}) {
    TrainConfig config = tiny();
    GetParam().apply(config);
    config.layout.zero_stage = stage;
    std::vector<Program> programs;
    for (int rank = 0; rank < config.layout.world(); ++rank) programs.push_back(record_step(config, rank).program);
    std::vector<const Program*> pointers;
    for (const Program& program : programs) pointers.push_back(&program);
    EXPECT_EQ(to_string(verify(pointers)), "");
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, Zero, testing::ValuesIn(kChanges),
                         [](const auto& info) { return std::string(info.param.name); });

double sent_bytes(const Program& program, OpKind kind, StreamKind stream) {
  double bytes = 0;
  for (const Op& op : program.ops) {
    if (op.kind != kind || op.stream != stream) continue;
    const OpShape& shape = program.shape_of(op);
    const auto d = static_cast<double>(program.groups[op.group].ranks.size());
    bytes += (d - 1) / d * static_cast<double>(shape.dims[0] * size_of(shape.dtype));
  }
  return bytes;
}

/// Dimensions at which no bucket is padded.
TrainConfig unpadded(int stage) {
  TrainConfig config = tiny();
  config.model.hidden = 128, config.model.ffn_hidden = 512;
  config.layout.zero_stage = stage;
  config.stack.sharded_parameters = {
      .prefetch_elements = 0, .max_live_elements = 0, .max_reuse_distance = 0, .persistence_threshold = 0};
  return config;
}

TEST(ZeroVolume, BytesEqualTheClosedFormulas) {
  for (const int stage : {2, 3}) {
    for (const std::int64_t pp : {1, 2}) {
      for (const bool full : {false, true}) {
        TrainConfig config = unpadded(stage);
        config.layout.pp = pp;
        if (full) config.layout.recompute.granularity = RecomputeGranularity::full;
        const Program program = record_step(config, 0).program;
        const auto volumes = communication_volumes(config.model, config.layout, config.stack, 0);
        EXPECT_EQ(sent_bytes(program, OpKind::reduce_scatter, StreamKind::data),
                  sum_bytes(volumes, GroupKind::data, OpKind::reduce_scatter, false));
        const StreamKind stream = stage == 3 ? StreamKind::parameters : StreamKind::data;
        const GroupKind group = stage == 3 ? GroupKind::parameters : GroupKind::data;
        EXPECT_EQ(sent_bytes(program, OpKind::all_gather, stream),
                  sum_bytes(volumes, group, OpKind::all_gather, false))
            << "stage " << stage << " pp " << pp << " full " << full;
      }
    }
  }
}

// DeepSpeed of early 2021 copies every member's part of every parameter by itself, after a gather and before a reduction. Small
// parameters stay whole and come together: per layer two norms' weights and biases and two biases of 32 elements, and the last norm.
TEST(ZeroVolume, ListsAreCopiedPieceByPiece) {
  TrainConfig config = tiny();
  config.layout.zero_stage = 3;
  config.layout.global_batch = config.layout.dp;
  config.stack.sharded_parameters.unit = ShardedParameterConfig::Unit::parameter;
  config.stack.sharded_parameters.by_lists = true;
  const Program program = record_step(config, 0).program;
  std::map<std::int64_t, int> copies;
  for (const Op& op : program.ops) {
    const OpShape& shape = program.shape_of(op);
    if (op.kind == OpKind::cast && shape.dims[1] > 1) ++copies[shape.dims[1]];
  }
  const std::int64_t small = 4 * 6 + 2;
  ASSERT_EQ(copies.size(), 2u);
  EXPECT_EQ(copies[2 * small], 2) << "one gather, one reduction of the small parameters";
  EXPECT_GE(copies[2], 2 * 4 * 6) << "six others a layer are gathered and reduced one by one";
}

TEST(ZeroVolume, KeptParametersAreNotGatheredTwice) {
  TrainConfig config = unpadded(3);
  config.stack.sharded_parameters = {};  // DeepSpeed's defaults: a model of less than 1e9 parameters stays gathered
  config.stack.sharded_parameters.persistence_threshold = 0;
  const double once = 0.5 * 4 * static_cast<double>(rank_parameters(config.model, config.layout, 0).total());
  EXPECT_EQ(sent_bytes(record_step(config, 0).program, OpKind::all_gather, StreamKind::parameters), once);
}

/// A buffer of gathered parameters: when its values come, which ops read them.
struct Gathered {
  OpId gather = kNone, first_use = kNone;
  std::int32_t layer = -1;
  Phase phase{};
  OpId alloc_at = 0, free_at = 0;
  std::int64_t elements = 0;
};

std::vector<Gathered> gathered_parameters(const Program& program) {
  std::map<BufferId, Gathered> found;
  for (OpId id = 0; id < program.ops.size(); ++id) {
    const Op& op = program.ops[id];
    for (const Operand& operand : program.operands_of(op)) {
      const Buffer& buffer = program.buffers[operand.buffer];
      if (program.terms[buffer.term] != "gathered parameters") continue;
      Gathered& values = found[operand.buffer];
      values.alloc_at = buffer.alloc_at, values.free_at = buffer.free_at;
      values.elements = static_cast<std::int64_t>(buffer.bytes) / size_of(buffer.dtype);
      if (is_communication(op.kind)) {
        values.gather = id;
      } else if (values.first_use == kNone) {
        values.first_use = id, values.layer = op.layer, values.phase = op.phase;
      }
    }
  }
  std::vector<Gathered> list;
  for (const auto& [buffer, values] : found) {
    if (values.first_use != kNone) list.push_back(values);  // the embedding's backward reads no values
  }
  std::sort(list.begin(), list.end(), [](const Gathered& a, const Gathered& b) { return a.first_use < b.first_use; });
  return list;
}

// PyTorch, fully_shard: a layer is gathered before its forward and again before its backward, one layer ahead of use.
TEST(ZeroPrefetch, Fsdp2GathersTheNextLayerBehindTheCurrentOne) {
  TrainConfig config = unpadded(3);
  config.stack.sharded_parameters = kFsdp2;
  const std::vector<Gathered> gathers = gathered_parameters(record_step(config, 0).program);
  std::map<std::pair<std::int32_t, Phase>, std::int64_t> times;
  int checked = 0;
  for (std::size_t k = 0; k < gathers.size(); ++k) {
    ++times[{gathers[k].layer, gathers[k].phase}];
    if (k < 2 || gathers[k].layer < 0 || gathers[k - 1].layer < 0) continue;  // the ends are two units that are used at once
    EXPECT_LT(gathers[k].gather, gathers[k - 1].first_use) << "use " << k << " is not gathered while the one before computes";
    if (gathers[k - 2].layer < 0) continue;
    EXPECT_GT(gathers[k].gather, gathers[k - 2].first_use) << "use " << k << " is gathered two uses ahead";
    ++checked;
  }
  EXPECT_EQ(checked, 4 * 2 * 2) << "four micro-batches, forward and backward, the third and the fourth layer of each";
  const std::int64_t m = config.layout.micro_batches();
  for (std::int32_t layer = 0; layer < config.model.layers; ++layer) {
    EXPECT_EQ((times[{layer, Phase::forward}]), m) << layer;
    EXPECT_EQ((times[{layer, Phase::backward}]), m) << layer;
  }
}

// DeepSpeed's stage3_max_live_parameters: no prefetch beyond it; without it everything comes early.
TEST(ZeroPrefetch, StopsAtTheMostLiveParameters) {
  const auto most_live = [](std::int64_t limit) {
    TrainConfig config = tiny();
    config.layout.zero_stage = 3;
    config.stack.sharded_parameters = {.prefetch_elements = 1'000'000, .max_live_elements = limit, .max_reuse_distance = 0,
                                       .persistence_threshold = 0};
    const Program program = record_step(config, 0).program;
    const std::vector<Gathered> gathers = gathered_parameters(program);
    std::int64_t most = 0;
    for (OpId id = 0; id < program.ops.size(); ++id) {
      std::int64_t live = 0;
      for (const Gathered& values : gathers) live += values.alloc_at <= id && id < values.free_at ? values.elements : 0;
      most = std::max(most, live);
    }
    return most;
  };
  // A use of its own is never refused; the largest are 512 x 32 words beside 16 x 32 positions.
  EXPECT_LE(most_live(20'000), 20'000);
  EXPECT_GT(most_live(20'000), 512 * 32);
  EXPECT_GT(most_live(1'000'000'000), 40'000);
}

// Vectors that stay whole are used by every part; that they are used again soon must not keep the matrices beside them.
TEST(ZeroPrefetch, PersistentNeighboursDoNotKeepAPartsMatrices) {
  TrainConfig config = tiny();
  config.layout.zero_stage = 3;
  config.stack.sharded_parameters = {.unit = ShardedParameterConfig::Unit::parameter, .prefetch_elements = 0,
                                     .max_live_elements = 0, .max_reuse_distance = 20'000, .persistence_threshold = 128};
  const Program program = record_step(config, 0).program;
  const std::vector<Gathered> gathers = gathered_parameters(program);
  std::int64_t most = 0;
  for (OpId id = 0; id < program.ops.size(); ++id) {
    std::int64_t live = 0;
    for (const Gathered& values : gathers) live += values.alloc_at <= id && id < values.free_at ? values.elements : 0;
    most = std::max(most, live);
  }
  // Words and positions 512 x 32 + 16 x 32, one layer 12 x 32 x 32: within reach of 20'000 elements lie two of them, not all four.
  EXPECT_LT(most, 512 * 32 + 16 * 32 + 20'000 + 12 * 32 * 32);
}

// DeepSpeed's stage3_param_persistence_threshold: what is that small is gathered once, after its update.
TEST(ZeroPrefetch, PersistentParametersAreGatheredOnceAStep) {
  TrainConfig config = tiny();
  config.layout.zero_stage = 3;
  config.stack.sharded_parameters = {.prefetch_elements = 0, .max_live_elements = 0, .max_reuse_distance = 0,
                                     .persistence_threshold = 128};
  const Program program = record_step(config, 0).program;
  // Norms and biases: h = 32 up to f = 128 elements; 4 layers of (4 h + 3 h + h + f + h) and the final norm.
  const std::int64_t small = 4 * (4 * 32 + 3 * 32 + 32 + 128 + 32) + 2 * 32;
  std::int64_t kept = 0, published = 0;
  for (const Buffer& buffer : program.buffers) {
    if (program.terms[buffer.term] == "parameters") kept += static_cast<std::int64_t>(buffer.bytes) / size_of(buffer.dtype);
  }
  for (const Op& op : program.ops) {
    if (op.kind != OpKind::all_gather || op.phase != Phase::parameter_gather) continue;
    const BufferId into = program.operands_of(op)[1].buffer;
    published += program.terms[program.buffers[into].term] == "parameters" ? program.shape_of(op).dims[0] : 0;
  }
  EXPECT_GE(kept, small);
  EXPECT_LE(kept, small + 25 * 63 + 127) << "25 vectors start at multiples of 64 elements, the bucket ends at one of 128";
  EXPECT_EQ(published, kept);
}

// Rajbhandari et al. 2020, figure 1: what d replicas save, in bytes per parameter (fp32 here: parameters 4, gradients 4,
// moments 8).
TEST(ZeroMemory, StatesShrinkWithTheStage) {
  std::map<int, MemorySummary> by_stage;
  for (const int stage : {0, 1, 2, 3}) by_stage[stage] = summarise_memory(record_step(unpadded(stage), 0).program);
  const auto bytes = [&](int stage, Purpose purpose) {
    return static_cast<double>(by_stage[stage].arena_bytes[static_cast<std::size_t>(purpose)]);
  };
  EXPECT_NEAR(bytes(1, Purpose::moments), bytes(0, Purpose::moments) / 2, 4096);
  EXPECT_LT(bytes(2, Purpose::gradients), 0.85 * bytes(1, Purpose::gradients));
  EXPECT_LT(bytes(3, Purpose::parameters), 0.85 * bytes(2, Purpose::parameters));
}

}  // namespace
}  // namespace benchsuite
