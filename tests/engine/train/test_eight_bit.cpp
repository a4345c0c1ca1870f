// Steps whose layers' products are in 8 bit, against Transformer Engine's modules (pytorch/module/base.py, linear.py,
// layernorm_linear.py): what is cast, transposed, gathered and kept, op by op. No device computes them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/model/formulas.h"
#include "engine/model/terms.h"
#include "engine/program/verifier.h"
#include "engine/train/step.h"

namespace benchsuite {
namespace {

constexpr std::int64_t kSeq = 32, kHidden = 64, kFfn = 256, kTp = 2;
constexpr std::int64_t kWhole = kSeq * kHidden, kMine = kWhole / kTp, kWide = kSeq * kFfn / kTp, kPacked = 3 * kWhole / kTp;

TrainConfig tiny(std::int64_t tp) {
  TrainConfig config;
  config.model = {.name = "tiny", .layers = 1, .hidden = kHidden, .ffn_hidden = kFfn, .heads = 4, .kv_heads = 4, .seq = kSeq,
                  .vocab = 512};
  config.layout.attention = AttentionKernel::flash;
  config.layout.precision = DType::fp8;
  config.layout.tp = tp;
  config.layout.sequence_parallel = tp > 1;
  config.layout.global_batch = 1;
  return config;
}

/// What one kernel makes: elements it reads, copies it writes, from which type; measured: it reads them twice.
struct Cast {
  std::int64_t elements = 0, copies = 1;
  DType from = DType::bf16;
  bool measured = false;
  friend bool operator==(const Cast&, const Cast&) = default;
};
std::ostream& operator<<(std::ostream& out, const Cast& cast) {
  return out << cast.copies << " of " << cast.elements << " " << name_of(cast.from) << (cast.measured ? ", measured" : "");
}

/// Kernels that write 8 bit in the layer, in order.
std::vector<Cast> casts(const Program& program, Phase phase) {
  std::vector<Cast> found;
  for (const Op& op : program.ops) {
    const OpShape& shape = program.shape_of(op);
    if (op.kind != OpKind::cast || op.layer < 0 || op.phase != phase || shape.out_dtype != DType::fp8) continue;
    found.push_back({shape.dims[0], std::max<std::int64_t>(1, shape.dims[2]), shape.dtype, shape.dims[3] == 1});
  }
  return found;
}

Cast transposed(std::int64_t elements) { return {.elements = elements, .from = DType::fp8}; }

TEST(EightBit, GathersMoveOneByteAnElementAndScattersTwo) {
  const Program program = record_step(tiny(kTp), 0).program;
  int gathers = 0, scatters = 0;
  for (const Op& op : program.ops) {
    if (op.layer < 0 || op.stream != StreamKind::tensor) continue;
    gathers += op.kind == OpKind::all_gather && program.shape_of(op).dtype == DType::fp8;
    scatters += op.kind == OpKind::reduce_scatter && program.shape_of(op).dtype == DType::bf16;
  }
  EXPECT_EQ(gathers, 6);   // two inputs, both again in the backward pass, two gradients of outputs
  EXPECT_EQ(scatters, 4);  // two outputs, two gradients of inputs
}

TEST(EightBit, SequenceParallelLinearsTransposeWhatTheyGathered) {
  const Program program = record_step(tiny(kTp), 0).program;
  // Norms write 8 bit themselves; the inputs of the projection and of FC2 are cast.
  EXPECT_THAT(casts(program, Phase::forward), testing::ElementsAre(Cast{kMine}, Cast{kWide}));
  EXPECT_THAT(casts(program, Phase::backward),
              testing::ElementsAre(Cast{kMine}, transposed(kWhole), transposed(kWide),  // FC2: dy, gathered; its input
                                   Cast{kWide, 2}, transposed(kWhole),                  // FC1: dy both ways; its input
                                   Cast{kMine}, transposed(kWhole), transposed(kMine),  // projection
                                   Cast{kPacked, 2}, transposed(kWhole)));              // QKV
}

TEST(EightBit, WithoutSequenceParallelismOneKernelCastsBothWays) {
  const Program program = record_step(tiny(1), 0).program;
  EXPECT_THAT(casts(program, Phase::forward), testing::ElementsAre(Cast{kWhole, 2}, Cast{kSeq * kFfn, 2}));
  EXPECT_THAT(casts(program, Phase::backward),
              testing::ElementsAre(Cast{kWhole, 2}, Cast{kSeq * kFfn, 2}, transposed(kWhole), Cast{kWhole, 2},
                                   Cast{3 * kWhole, 2}, transposed(kWhole)));
}

TEST(EightBit, ProductsThatTakeAnyLayoutNeedNoTransposes) {
  TrainConfig config = tiny(kTp);
  config.stack.transposes_fp8 = false;
  const Program program = record_step(config, 0).program;
  EXPECT_THAT(casts(program, Phase::backward), testing::ElementsAre(Cast{kMine}, Cast{kWide}, Cast{kMine}, Cast{kPacked}));
}

TEST(EightBit, CurrentScalingMeasuresEveryTensorAndCastsAfterTheNorm) {
  TrainConfig config = tiny(kTp);
  config.stack.fp8_scaling = Fp8Scaling::current;
  const Program program = record_step(config, 0).program;
  const auto measured = [](std::int64_t elements) { return Cast{.elements = elements, .measured = true}; };
  EXPECT_THAT(casts(program, Phase::forward),
              testing::ElementsAre(measured(kMine), measured(kMine), measured(kMine), measured(kWide)));
  int wide_norms = 0;
  for (const Op& op : program.ops) {
    if (op.kind == OpKind::cast && program.shape_of(op).out_dtype == DType::fp8) {
      EXPECT_EQ(program.shape_of(op).extra_kernels, program.shape_of(op).dims[3]) << "the pass is a kernel";
    }
    wide_norms += op.kind == OpKind::layernorm && op.layer >= 0 && program.shape_of(op).out_dtype == DType::bf16;
  }
  EXPECT_EQ(wide_norms, 2);
}

TEST(EightBit, ProductsOfTheLayersAloneAreInEightBit) {
  const Program program = record_step(tiny(kTp), 0).program;
  int narrow = 0, wide = 0;
  for (const Op& op : program.ops) {
    if (op.kind != OpKind::gemm) continue;
    (program.shape_of(op).dtype == DType::fp8 ? narrow : wide) += 1;
    EXPECT_EQ(program.shape_of(op).dtype == DType::fp8, op.site == Site::attention || op.site == Site::mlp);
  }
  EXPECT_EQ(narrow, 12);
  EXPECT_EQ(wide, 3);  // the head
}

/// Bytes kept for the backward pass of the only layer and micro-batch, but statistics and log-sums.
double saved_bytes(const Program& program) {
  double bytes = 0;
  for (const Buffer& buffer : program.buffers) {
    const Term term = static_cast<Term>(buffer.term);
    const bool counted = term >= Term::attention_input && term < Term::layer_group_input &&
                         term != Term::attention_statistics && term != Term::mlp_statistics && term != Term::attention_log_sum;
    if (buffer.saved_at != kNone && counted) bytes += static_cast<double>(buffer.bytes);
  }
  return bytes;
}

double sent_bytes(const Program& program, OpKind kind, std::int64_t tp) {
  double bytes = 0;
  for (const Op& op : program.ops) {
    if (op.stream != StreamKind::tensor || op.kind != kind) continue;
    const OpShape& shape = program.shape_of(op);
    const double all = static_cast<double>(shape.dims[0] * size_of(shape.dtype));
    bytes += kind == OpKind::shift ? all : all * static_cast<double>(tp - 1) / static_cast<double>(tp);
  }
  return bytes;
}

TEST(EightBit, KeptAndSentBytesAreThoseOfTheFormulas) {
  for (const bool tiles : {false, true}) {
    for (const std::int64_t tp : {std::int64_t{1}, kTp}) {
      TrainConfig config = tiny(tp);
      config.stack.overlaps_tensor_gemms = tiles;
      const Program program = record_step(config, 0).program;
      EXPECT_EQ(saved_bytes(program), saved_activations(config.model, config.layout, config.stack, 0).layer_bytes);
      const auto volumes = communication_volumes(config.model, config.layout, config.stack, 0);
      for (const OpKind kind : {OpKind::all_gather, OpKind::reduce_scatter, OpKind::shift}) {
        EXPECT_EQ(sent_bytes(program, kind, tp), sum_bytes(volumes, GroupKind::tensor, kind, false)) << name_of(kind);
      }
    }
  }
}

// A layer keeps 1 byte of each of the four inputs of linears; the paper's 2-byte ones are 2 + 2 + 2 + 8 of 34 s b h, of which
// the projection's stays beside its copy.
TEST(EightBit, KeepsHalfOfTheInputsOfLinears) {
  TrainConfig config = tiny(1);
  const auto layer = [&] { return saved_activations(config.model, config.layout, config.stack, 0).layer_bytes; };
  const double narrow = layer();
  config.layout.precision = DType::bf16;
  EXPECT_EQ(layer() - narrow, (1 + 1 - 1 + 4) * kWhole);
}

TEST(EightBit, TheVerifierAcceptsEveryForm) {
  const RecomputeConfig none, full{.granularity = RecomputeGranularity::full},
      modules{.granularity = RecomputeGranularity::selective,
              .modules = {RecomputeModule::core_attn, RecomputeModule::layernorm, RecomputeModule::mlp}};
  for (const RecomputeConfig& recompute : {none, full, modules}) {
    for (const int form : {0, 1, 2, 3, 4, 5, 6, 7}) {
      TrainConfig config = tiny(form % 2 ? kTp : 1);
      config.layout.recompute = recompute;
      config.layout.global_batch = 2;
      config.stack.overlaps_tensor_gemms = form & 2;
      config.stack.fp8_scaling = form & 4 ? Fp8Scaling::current : Fp8Scaling::delayed;
      config.stack.transposes_fp8 = !(form & 4);
      std::vector<Program> programs;
      for (int rank = 0; rank < config.layout.world(); ++rank) programs.push_back(record_step(config, rank).program);
      std::vector<const Program*> pointers;
      for (const Program& program : programs) pointers.push_back(&program);
      const auto findings = verify(pointers);
      EXPECT_TRUE(findings.empty()) << form << ":\n" << to_string(findings);
    }
  }
}

}  // namespace
}  // namespace benchsuite
