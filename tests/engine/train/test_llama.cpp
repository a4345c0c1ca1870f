// Llama-style models and models without dropout: ZeRO, gradients, recorded Programs. What layouts must equal: test_parity.
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
  testing_train::expect_gradients_match_differences(config, 2 * 6 + 3);  // two norms and four matrices a layer; words, final norm, head
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
