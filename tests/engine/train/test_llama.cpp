// Llama-style models and models without dropout: parity of layouts, gradients, recorded Programs.
#include <functional>
#include <set>

#include "engine/model/formulas.h"
#include "engine/program/memory_summary.h"
#include "engine/program/verifier.h"
#include "tests/engine/train/parity.h"

namespace benchsuite {
namespace {

using testing_train::largest_difference;
using testing_train::tiny_gpt;
using testing_train::tiny_llama;
using testing_train::train;

const CpuTrainingResult& baseline(DType precision) {
  static const auto make = [](DType type) {
    TrainConfig config = tiny_llama();
    config.layout.precision = type;
    return train(config);
  };
  static const CpuTrainingResult fp32 = make(DType::fp32), bf16 = make(DType::bf16);
  return precision == DType::bf16 ? bf16 : fp32;
}

struct LayoutChange {
  const char* name;
  std::function<void(TrainConfig&)> change;
  bool bits;  ///< must equal the baseline bit for bit
};

const LayoutChange kLayouts[] = {
    {"full_2", [](auto& c) { c.layout.recompute = {.granularity = RecomputeGranularity::full, .num_layers = 2}; }, true},
    {"block_1",
     [](auto& c) {
       c.layout.recompute = {
           .granularity = RecomputeGranularity::full, .method = RecomputeMethod::block, .num_layers = 1};
     },
     true},
    {"core_attn", [](auto& c) { c.layout.recompute.granularity = RecomputeGranularity::selective; }, true},
    {"layernorm_mlp",
     [](auto& c) {
       c.layout.recompute = {.granularity = RecomputeGranularity::selective,
                             .modules = {RecomputeModule::layernorm, RecomputeModule::mlp}};
     },
     true},
    {"separate_kernels", [](auto& c) { c.stack.fused_bias_gelu = c.stack.fused_bias_dropout_add = false; }, true},
    {"pp2", [](auto& c) { c.layout.pp = 2; }, true},
    {"pp4_overlapped", [](auto& c) { c.layout.pp = 4, c.stack.overlaps_pipeline = true; }, true},
    {"pp2_gpipe", [](auto& c) { c.layout.pp = 2, c.layout.schedule = ScheduleKind::gpipe; }, true},
    {"pp2_v2", [](auto& c) { c.layout.pp = 2, c.layout.vpp = 2, c.layout.schedule = ScheduleKind::interleaved; }, true},
    {"flash", [](auto& c) { c.layout.attention = AttentionKernel::flash; }, false},
    {"micro_batch_2", [](auto& c) { c.layout.micro_batch = 2; }, false},
    {"tp2", [](auto& c) { c.layout.tp = 2; }, false},
    {"tp2_sp", [](auto& c) { c.layout.tp = 2, c.layout.sequence_parallel = true; }, false},
    {"tp4_sp_full",
     [](auto& c) {
       c.layout.tp = 4, c.layout.sequence_parallel = true;
       c.layout.recompute.granularity = RecomputeGranularity::full;
     },
     false},
    {"dp2_overlapped", [](auto& c) { c.layout.dp = 2, c.stack.overlaps_gradient_reduction = true; }, false},
    {"tp2_sp_pp2_dp2_flash",
     [](auto& c) {
       c.layout.tp = c.layout.pp = c.layout.dp = 2, c.layout.sequence_parallel = true;
       c.layout.attention = AttentionKernel::flash;
     },
     false},
};

void PrintTo(const LayoutChange& layout, std::ostream* out) { *out << layout.name; }

class LlamaParity : public testing::TestWithParam<std::tuple<DType, LayoutChange>> {};

TEST_P(LlamaParity, TrainsLikeOneRank) {
  const auto& [precision, layout] = GetParam();
  TrainConfig config = tiny_llama();
  config.layout.precision = precision;
  layout.change(config);
  const CpuTrainingResult result = train(config);
  const CpuTrainingResult& wanted = baseline(precision);
  const double gradients = largest_difference(result.gradients, wanted.gradients);
  if (layout.bits) {
    EXPECT_EQ(result.loss, wanted.loss);
    EXPECT_EQ(result.gradient_norm, wanted.gradient_norm);
    EXPECT_EQ(gradients, 0);
    EXPECT_EQ(largest_difference(result.parameters, wanted.parameters), 0);
    return;
  }
  // The reasons are those of the GPT tests: the order of fp32 sums, and some fifty roundings to bf16 one after another.
  const bool bf16 = precision == DType::bf16;
  for (std::size_t step = 0; step < 2; ++step) {
    EXPECT_NEAR(result.loss[step], wanted.loss[step], bf16 ? 1e-3 : 2e-6);
    EXPECT_NEAR(result.gradient_norm[step], wanted.gradient_norm[step], bf16 ? 0.01 * wanted.gradient_norm[step] : 1e-5);
  }
  EXPECT_LT(gradients, bf16 ? 0.07 : 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Layouts, LlamaParity,
                         testing::Combine(testing::Values(DType::fp32, DType::bf16), testing::ValuesIn(kLayouts)),
                         [](const auto& info) {
                           return std::string(name_of(std::get<0>(info.param))) + "_" + std::get<1>(info.param).name;
                         });

TEST(Llama, ZeroStagesAgreeBitForBit) {
  TrainConfig config = tiny_llama();
  config.layout.dp = config.layout.pp = 2;
  config.layout.global_batch = 2;  // one micro-batch: stages 2 and 3 add the same numbers in the same order
  const CpuTrainingResult plain = train(config);
  for (const std::int64_t stage : {1, 2, 3}) {
    config.layout.zero_stage = stage;
    const CpuTrainingResult sharded = train(config);
    EXPECT_EQ(sharded.loss, plain.loss) << stage;
    EXPECT_EQ(sharded.gradient_norm, plain.gradient_norm) << stage;
    EXPECT_EQ(largest_difference(sharded.parameters, plain.parameters), 0) << stage;
  }
}

TEST(Llama, GradientsMatchFiniteDifferences) {
  TrainConfig config = tiny_llama();
  config.model.layers = 2;
  config.layout.global_batch = 2;
  CpuTrainingOptions options{.steps = 1, .learning_rate = 0, .collect_gradients = true};
  const CpuTrainingResult analytic = train_on_cpu(config, options);
  EXPECT_EQ(analytic.gradients.size(), 2u * 6 + 3) << "two norms and four matrices a layer; words, final norm, head";
  for (const auto& [name, gradient] : analytic.gradients) {
    std::size_t index = 0;  // the entry with the largest gradient: the loss is fp32, small ones drown in its rounding
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      if (std::fabs(gradient[i]) > std::fabs(gradient[index])) index = i;
    }
    const float step = 0.02f;
    double loss[2];
    for (const int side : {0, 1}) {
      options.nudge = {.parameter = name, .index = static_cast<std::int64_t>(index), .by = side == 0 ? step : -step};
      loss[side] = train_on_cpu(config, options).loss[0];
    }
    const double numeric = (loss[0] - loss[1]) / (2.0 * step);
    // Rounding of the two losses (6 * 6e-8 / 0.04 = 1e-5) and the cubic term of the difference quotient.
    EXPECT_NEAR(gradient[index], numeric, 3e-5 + 0.02 * std::fabs(numeric)) << name << "[" << index << "]";
  }
}

TEST(Llama, ProgramsVerify) {
  for (const bool sequence_parallel : {false, true}) {
    for (const auto granularity :
         {RecomputeGranularity::none, RecomputeGranularity::selective, RecomputeGranularity::full}) {
      for (const std::int64_t zero : {0, 1, 3}) {
        TrainConfig config = tiny_llama();
        config.layout.tp = config.layout.pp = config.layout.dp = 2;
        config.layout.sequence_parallel = sequence_parallel;
        config.layout.attention = sequence_parallel ? AttentionKernel::flash : AttentionKernel::unfused;
        config.layout.recompute.granularity = granularity;
        config.layout.zero_stage = zero;
        std::vector<Program> programs;
        for (int rank = 0; rank < config.layout.world(); ++rank) programs.push_back(record_step(config, rank).program);
        std::vector<const Program*> pointers;
        for (const Program& program : programs) pointers.push_back(&program);
        const auto findings = verify(pointers);
        EXPECT_TRUE(findings.empty()) << to_string(findings);
      }
    }
  }
}

TEST(NoDropout, RecordsNeitherOpsNorMasks) {
  const std::set<OpKind> ops{OpKind::dropout, OpKind::dropout_backward};
  for (TrainConfig config : {tiny_gpt(), tiny_llama()}) {
    config.model.dropout = 0;
    for (const bool fused : {false, true}) {
      for (const AttentionKernel kernel : {AttentionKernel::unfused, AttentionKernel::flash}) {
        config.stack.fused_bias_dropout_add = fused;
        config.layout.attention = kernel;
        const Program program = record_step(config, 0).program;
        for (const Op& op : program.ops) {
          EXPECT_FALSE(ops.contains(op.kind));
          EXPECT_FALSE(program.shape_of(op).stores_mask) << name_of(op.kind);
        }
        for (const Buffer& buffer : program.buffers) {
          EXPECT_EQ(program.terms[buffer.term].find("mask"), std::string::npos) << program.terms[buffer.term];
        }
      }
    }
  }
}

// With p below the least number the generator can draw every element is kept and scaled by 1: the ops do nothing, and the
// shorter Program must give the same bits.
TEST(NoDropout, ComputesWhatDropoutOfNothingComputes) {
  for (TrainConfig config : {tiny_gpt(), tiny_llama()}) {
    for (const bool fused : {false, true}) {
      config.stack.fused_bias_dropout_add = fused;
      config.layout.tp = 2;
      config.model.dropout = 1e-30;
      const CpuTrainingResult nothing = train(config);
      config.model.dropout = 0;
      const CpuTrainingResult none = train(config);
      EXPECT_EQ(none.loss, nothing.loss);
      EXPECT_EQ(largest_difference(none.gradients, nothing.gradients), 0);
    }
  }
}

/// Bytes a rank's tensor, pipeline and embedding groups send on a ring, by op.
std::map<std::pair<GroupKind, OpKind>, double> sent(const Program& program) {
  std::map<std::pair<GroupKind, OpKind>, double> bytes;
  for (const Op& op : program.ops) {
    if (!is_communication(op.kind) || op.kind == OpKind::receive || op.stream == StreamKind::global) continue;
    const Group& group = program.groups[op.group];
    const auto n = static_cast<double>(group.ranks.size());
    const auto size = static_cast<double>(program.shape_of(op).dims[0] * size_of(program.shape_of(op).dtype));
    bytes[{group.kind, op.kind}] +=
        op.kind == OpKind::send ? size : (op.kind == OpKind::all_reduce ? 2 : 1) * (n - 1) / n * size;
  }
  return bytes;
}

TEST(NoDropout, SavedActivationsAndCollectivesEqualTheFormulas) {
  for (TrainConfig config : {tiny_gpt(), tiny_llama()}) {
    config.model.dropout = 0;
    config.layout.precision = DType::bf16;
    for (const bool sequence_parallel : {false, true}) {
      for (const AttentionKernel kernel : {AttentionKernel::unfused, AttentionKernel::flash}) {
        for (const auto module : {RecomputeModule::core_attn, RecomputeModule::mlp}) {
          Layout& layout = config.layout;
          layout.tp = layout.pp = layout.dp = 2;
          layout.sequence_parallel = sequence_parallel;
          layout.attention = kernel;
          layout.recompute = {.granularity = RecomputeGranularity::selective, .modules = {module}};
          for (std::int64_t stage = 0; stage < 2; ++stage) {
            const Program program =
                record_step(config, RankGrid(layout).rank_at({.pp = static_cast<int>(stage)})).program;
            const SavedActivations saved = saved_activations(config.model, layout, config.stack, stage);
            // fp32 statistics are outside the formula: two numbers a row for LayerNorm, one for RMSNorm, one a query and head
            // for flash unless recomputed.
            const double tokens = 16.0 / (sequence_parallel ? 2 : 1);
            const double norm = tokens * (config.model.rms_norm() ? 4 : 8);
            const bool keeps_log_sum = kernel == AttentionKernel::flash && module != RecomputeModule::core_attn;
            const double rows = keeps_log_sum ? 4.0 * 16 * static_cast<double>(config.model.heads) / 2 : 0;
            const double statistics =
                2 * static_cast<double>(saved.chunks_in_flight) * (2 * norm + rows) + (stage == 1 ? norm : 0);
            EXPECT_EQ(static_cast<double>(summarise_memory(program).saved_peak_bytes),
                      saved.layers_total + saved.outside_bytes + statistics)
                << name_of(config.model.family) << ", stage " << stage;

            std::map<std::pair<GroupKind, OpKind>, double> wanted;
            for (const Volume& volume : communication_volumes(config.model, layout, config.stack, stage)) {
              wanted[{volume.group, volume.op}] += volume.bytes;
            }
            EXPECT_EQ(sent(program), wanted) << name_of(config.model.family) << ", stage " << stage;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace benchsuite
