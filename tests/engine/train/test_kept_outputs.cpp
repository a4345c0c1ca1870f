// What some software keeps longer than its ops need: outputs of pipeline stages, logits in the last stage's buffers; and the head
// as one of the layers that full recompute runs again.
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/model/terms.h"
#include "engine/train/step.h"

namespace benchsuite {
namespace {

constexpr std::int64_t kMicroBatches = 5;

TrainConfig llama(std::int64_t pp) {
  TrainConfig config;
  config.model = {.name = "tiny", .family = ModelFamily::llama, .layers = 4, .hidden = 64, .ffn_hidden = 128, .heads = 4,
                  .kv_heads = 4, .seq = 32, .vocab = 1024, .dropout = 0};
  config.layout.pp = pp;
  config.layout.micro_batch = 2;
  config.layout.global_batch = 2 * kMicroBatches;
  return config;
}

OpId last_backward_of(const Program& program, std::int32_t micro_batch) {
  OpId last = kNone;
  for (OpId op = 0; op < program.ops.size(); ++op) {
    const Op& at = program.ops[op];
    if (at.micro_batch == micro_batch && at.phase == Phase::backward && at.site != Site::pipeline) last = op;
  }
  return last;
}

TEST(KeptOutputs, AStagesOutputStaysUntilItsMicroBatchHasComeBack) {
  TrainConfig config = llama(2);
  for (const bool keeps : {false, true}) {
    config.stack.keeps_stage_outputs = keeps;
    const Program program = record_step(config, 0).program;
    int sent = 0;
    for (const Op& op : program.ops) {
      if (op.kind != OpKind::send || op.stream != StreamKind::pipeline_send_next) continue;
      const Buffer& output = program.buffers[program.operands_of(op)[0].buffer];
      EXPECT_EQ(output.free_at > last_backward_of(program, op.micro_batch), keeps) << op.micro_batch;
      ++sent;
    }
    EXPECT_EQ(sent, kMicroBatches);
  }
}

TEST(KeptOutputs, LogitsStayUntilTheSecondNextMicroBatchs) {
  TrainConfig config = llama(1);
  config.stack.framework_loss = true;
  const Program program = record_step(config, 0).program;
  std::vector<Buffer> logits;
  for (const Buffer& buffer : program.buffers) {
    if (buffer.term == index_of(Term::logits_16bit) && buffer.saved_at != kNone) logits.push_back(buffer);
  }
  ASSERT_EQ(logits.size(), static_cast<std::size_t>(kMicroBatches));
  for (std::size_t i = 0; i < logits.size(); ++i) {
    EXPECT_EQ(logits[i].bytes, 2u * 32 * 2 * 1024);
    if (i + 2 < logits.size()) {
      EXPECT_GT(logits[i].free_at, logits[i + 1].saved_at);
      EXPECT_LE(logits[i].free_at, logits[i + 2].saved_at + 1);
    } else {
      EXPECT_LE(logits[i].free_at, program.ops.size()) << "gone by the end of the step";
    }
  }
}

// One pass more over the 32-bit rows of both sequences of 32 tokens: what the loss function counts as right.
TEST(KeptOutputs, TheLargestLogitOfEachRowIsFoundForTheAccuracy) {
  TrainConfig config = llama(1);
  config.stack.framework_loss = true;
  const Program program = record_step(config, 0).program;
  int found = 0;
  for (const Op& op : program.ops) {
    const OpShape& shape = program.shapes[op.shape];
    if (op.kind != OpKind::ce_max) continue;
    EXPECT_EQ(op.site, Site::loss);
    EXPECT_EQ(shape.dtype, DType::fp32);
    EXPECT_EQ(shape.dims[0], 2 * 32);
    EXPECT_EQ(shape.dims[1], 1024);
    ++found;
  }
  EXPECT_EQ(found, kMicroBatches);
}

TEST(KeptOutputs, FullRecomputeOfTheHeadRunsItsNormAndItsProductAgain) {
  TrainConfig config = llama(1);
  config.layout.recompute.granularity = RecomputeGranularity::full;
  for (const bool recomputes : {false, true}) {
    config.stack.recomputes_head = recomputes;
    const Program program = record_step(config, 0).program;
    const auto count = [&](OpKind kind, Site site) {
      return std::count_if(program.ops.begin(), program.ops.end(), [&](const Op& op) {
        return op.kind == kind && op.site == site && op.phase == Phase::recompute;
      });
    };
    EXPECT_EQ(count(OpKind::gemm, Site::head), recomputes ? kMicroBatches : 0);
    EXPECT_EQ(count(OpKind::rmsnorm, Site::final_norm), recomputes ? kMicroBatches : 0);
  }
}

}  // namespace
}  // namespace benchsuite
