// Sound Programs have no findings; each test here breaks one thing on one rank and expects just that finding.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/program/verifier.h"
#include "tests/engine/program/sound_programs.h"

namespace benchsuite {
namespace {

using ::testing::HasSubstr;
using Kind = Finding::Kind;

/// The one finding of `program`, or a failure that lists what there is.
Finding only_finding(const Program& program, Kind kind) {
  const std::vector<Finding> findings = verify_rank(program);
  EXPECT_EQ(findings.size(), 1u) << to_string(findings);
  if (findings.empty()) return {};
  EXPECT_EQ(name_of(findings[0].kind), name_of(kind)) << findings[0].text;
  EXPECT_EQ(findings[0].rank, program.rank);
  EXPECT_THAT(findings[0].text, HasSubstr(std::string(name_of(kind)) + ": rank " + std::to_string(program.rank)));
  return findings[0];
}

void drop_waits(Program& program, OpId op) { program.ops[op].wait_count = 0; }

Operand& operand_of(Program& program, OpId op, int index) {
  return program.operands[program.ops[op].first_operand + static_cast<std::uint32_t>(index)];
}

TEST(VerifierMemory, SoundProgramsHaveNoFindings) {
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(to_string(verify_rank(tensor_layer(rank))), "");
    EXPECT_EQ(to_string(verify_rank(pipeline_stage(rank))), "");
    EXPECT_EQ(to_string(verify_rank(two_groups(rank))), "");
  }
  EXPECT_TRUE(verify_rank(Program{}).empty());
}

TEST(VerifierMemory, CollectiveThatDoesNotWaitForItsInputIsARace) {
  Program program = tensor_layer(1);
  drop_waits(program, 1);
  const Finding finding = only_finding(program, Kind::race);
  EXPECT_EQ(finding.op, 1u);
  EXPECT_EQ(finding.other_op, 0u);
  EXPECT_THAT(finding.text, HasSubstr("op 1 all_gather (forward, mlp, layer 3, micro-batch 1) on stream tensor reads"));
  EXPECT_THAT(finding.text, HasSubstr("\"shard\""));
  EXPECT_THAT(finding.text, HasSubstr("while op 0 gemm (forward, mlp, layer 3, micro-batch 1) on stream compute"));
  EXPECT_THAT(finding.text, HasSubstr("op 1 needs to wait for op 0"));
}

TEST(VerifierMemory, ReaderThatDoesNotWaitForTheCollectiveIsARace) {
  Program program = tensor_layer(0);
  drop_waits(program, 3);
  const Finding finding = only_finding(program, Kind::race);
  EXPECT_EQ(finding.op, 3u);
  EXPECT_EQ(finding.other_op, 1u);
}

TEST(VerifierMemory, ReuseOfARangeThatDoesNotWaitForItsLastReaderIsARace) {
  Program program = tensor_layer(0);
  drop_waits(program, 5);
  const Finding finding = only_finding(program, Kind::race);  // of the two things this wait orders, the first is enough
  EXPECT_EQ(finding.op, 5u);
  EXPECT_EQ(finding.other_op, 4u);
  EXPECT_THAT(finding.text, HasSubstr("\"scratch\""));
  EXPECT_THAT(finding.text, HasSubstr("in the same range, buffer"));
  EXPECT_THAT(finding.text, HasSubstr("\"partial sum\""));
}

TEST(VerifierMemory, EachMissingEdgeIsNamedOnce) {
  Program program = tensor_layer(0);
  drop_waits(program, 1);
  drop_waits(program, 3);
  const std::vector<Finding> findings = verify_rank(program);
  ASSERT_EQ(findings.size(), 2u) << to_string(findings);
  EXPECT_EQ(findings[0].other_op, 0u);
  EXPECT_EQ(findings[1].other_op, 1u);
}

TEST(VerifierMemory, OfSeveralOpsInARowTheLastIsTheMissingEdge) {
  // Ops 0, 1 and 2 read x one after another on three streams; op 3 overwrites it and needs to wait for op 2 only.
  ProgramBuilder b(0);
  const BufferId x = b.buffer(Purpose::parameters, 0, 16, "x");
  b.op(OpKind::add, StreamKind::tensor, {b.reads(x)});
  b.op(OpKind::add, StreamKind::data, {b.reads(x)}, {0});
  b.op(OpKind::add, StreamKind::global, {b.reads(x)}, {1});
  b.op(OpKind::adamw, StreamKind::compute, {b.updates(x)});
  EXPECT_EQ(only_finding(b.finish(), Kind::race).other_op, 2u);
}

TEST(VerifierMemory, WriteToTheNeighbourOfAReadIsSoundAndOneByteMoreIsARace) {
  Program program = tensor_layer(0);
  const LayerIds ids = [] {
    LayerIds n;
    tensor_layer(0, &n);
    return n;
  }();
  // Op 2 runs beside the gather of [0, 64) and writes [64, 128): shifted by one byte it writes what the gather reads.
  ASSERT_EQ(program.buffers[ids.side].offset, 64u);
  program.buffers[ids.side].offset = 63;
  program.buffers[ids.side].bytes = 65;
  operand_of(program, 2, 1) = {0, 65, ids.side, Access::write};
  operand_of(program, 6, 2) = {0, 65, ids.side, Access::read};
  const std::vector<Finding> findings = verify_rank(program);
  ASSERT_EQ(findings.size(), 2u) << to_string(findings);
  EXPECT_EQ(findings[0].kind, Kind::overlap_of_live_buffers);
  EXPECT_EQ(findings[0].buffer, ids.side);
  EXPECT_THAT(findings[0].text, HasSubstr("\"shard\" (activations [0, 64)), live from op 0 to 4"));
  EXPECT_EQ(findings[1].kind, Kind::race);
  EXPECT_EQ(findings[1].op, 2u);
  EXPECT_EQ(findings[1].other_op, 1u);
}

TEST(VerifierMemory, ShiftedOffsetOverlapsALiveBuffer) {
  LayerIds ids;
  Program program = tensor_layer(0, &ids);
  // The reduced tensor moves into the range of nobody else: sound. Then scratch moves onto the gelu output, which is
  // live.
  program.buffers[ids.reduced].offset = 0;
  EXPECT_EQ(to_string(verify_rank(program)), "");
  program.buffers[ids.scratch].offset = 127;
  const std::vector<Finding> findings = verify_rank(program);
  ASSERT_GE(findings.size(), 1u);
  EXPECT_EQ(findings[0].kind, Kind::overlap_of_live_buffers);
  EXPECT_EQ(findings[0].buffer, ids.scratch);
  // The byte of the gelu output that scratch overwrote is undefined when the addition reads it.
  ASSERT_EQ(findings.size(), 2u) << to_string(findings);
  EXPECT_EQ(findings[1].kind, Kind::uninitialised_read);
  EXPECT_EQ(findings[1].buffer, ids.side);
  EXPECT_THAT(findings[1].text, HasSubstr("within [63, 64) of"));
}

TEST(VerifierMemory, LiveBuffersOverlapFromEitherSide) {
  for (const std::uint64_t offset : {0u, 1u, 15u, 16u, 17u, 31u, 32u}) {
    ProgramBuilder b(0);
    const BufferId x = b.buffer(Purpose::gradients, 16, 16, "x");  // [16, 32)
    const BufferId y = b.buffer(Purpose::gradients, offset, 16, "y");
    b.op(OpKind::fill, StreamKind::compute, {b.writes(x)});
    const std::vector<Finding> findings = verify_rank(b.finish());
    const bool apart = offset == 0 || offset == 32;
    ASSERT_EQ(findings.size(), apart ? 0u : 1u) << "offset " << offset;
    if (apart) continue;
    EXPECT_EQ(findings[0].kind, Kind::overlap_of_live_buffers);
    EXPECT_EQ(findings[0].buffer, y);
  }
}

TEST(VerifierMemory, OneOpFreedEarlyIsUseAfterFree) {
  LayerIds ids;
  Program program = tensor_layer(0, &ids);
  program.buffers[ids.partial].free_at = 4;  // the reduce-scatter, op 4, still reads it
  const Finding finding = only_finding(program, Kind::use_after_free);
  EXPECT_EQ(finding.op, 4u);
  EXPECT_EQ(finding.buffer, ids.partial);
  EXPECT_THAT(finding.text, HasSubstr("was freed before op 4"));
}

TEST(VerifierMemory, UseOfARangeThatIsReusedAlreadyIsOnlyUseAfterFree) {
  ProgramBuilder b(0);
  const BufferId old = b.buffer(Purpose::activations, 0, 16, "old");
  b.op(OpKind::fill, StreamKind::compute, {b.writes(old)});
  b.free(old);
  const BufferId fresh = b.buffer(Purpose::activations, 0, 16, "fresh");
  b.op(OpKind::fill, StreamKind::compute, {b.writes(fresh)});
  b.op(OpKind::add, StreamKind::tensor, {b.updates(old)});
  b.op(OpKind::add, StreamKind::compute, {b.updates(fresh)});
  b.free(fresh);
  const Finding finding = only_finding(b.finish(), Kind::use_after_free);
  EXPECT_EQ(finding.op, 2u);
  EXPECT_EQ(finding.buffer, old);
}

TEST(VerifierMemory, UseBeforeAllocationIsUseAfterFree) {
  LayerIds ids;
  Program program = tensor_layer(0, &ids);
  program.buffers[ids.side].alloc_at = 3;  // op 2 writes it
  const Finding finding = only_finding(program, Kind::use_after_free);
  EXPECT_EQ(finding.op, 2u);
  EXPECT_THAT(finding.text, HasSubstr("is allocated only at op 3"));
}

TEST(VerifierMemory, FreedBeforeAllocatedIsUseAfterFree) {
  ProgramBuilder b(0);
  const BufferId x = b.buffer(Purpose::activations, 0, 16, "x");
  b.op(OpKind::fill, StreamKind::compute, {b.writes(b.buffer(Purpose::gradients, 0, 16, "g"))});
  Program program = b.finish();
  program.buffers[x].alloc_at = 1;
  program.buffers[x].free_at = 0;
  EXPECT_EQ(only_finding(program, Kind::use_after_free).buffer, x);
}

TEST(VerifierMemory, ReadOfBytesNeverWritten) {
  LayerIds ids;
  Program program = tensor_layer(0, &ids);
  operand_of(program, 2, 1).bytes = 60;  // gelu leaves the last 4 bytes of its output
  const Finding finding = only_finding(program, Kind::uninitialised_read);
  EXPECT_EQ(finding.op, 6u);
  EXPECT_EQ(finding.buffer, ids.side);
  EXPECT_THAT(finding.text, HasSubstr("op 6 add"));
  EXPECT_THAT(finding.text, HasSubstr("within [60, 64) of buffer"));
}

TEST(VerifierMemory, ContentOfTheFormerBufferDoesNotCount) {
  LayerIds ids;
  Program program = tensor_layer(0, &ids);
  // Scratch is never filled; its range still holds the partial sum.
  operand_of(program, 5, 0) = {0, 0, ids.scratch, Access::write};
  const Finding finding = only_finding(program, Kind::uninitialised_read);
  EXPECT_EQ(finding.op, 6u);
  EXPECT_EQ(finding.buffer, ids.scratch);
}

TEST(VerifierMemory, OnlyInputsParametersMasterAndMomentsHoldValuesBeforeTheStep) {
  for (int purpose = 0; purpose < kPurposes; ++purpose) {
    ProgramBuilder b(0);
    const BufferId x = b.buffer(static_cast<Purpose>(purpose), 0, 16, "x");
    b.op(OpKind::add, StreamKind::compute, {b.updates(x)});
    b.free(x);
    const std::vector<Finding> findings = verify_rank(b.finish());
    const Purpose p = static_cast<Purpose>(purpose);
    const bool holds =
        p == Purpose::inputs || p == Purpose::parameters || p == Purpose::master || p == Purpose::moments;
    ASSERT_EQ(findings.size(), holds ? 0u : 1u) << name_of(p);
    if (!holds) {
      EXPECT_EQ(findings[0].kind, Kind::uninitialised_read);
    }
  }
}

TEST(VerifierMemory, LeaksOfTransientPurposes) {
  for (int purpose = 0; purpose < kPurposes; ++purpose) {
    ProgramBuilder b(0);
    const Purpose p = static_cast<Purpose>(purpose);
    const BufferId x = b.buffer(p, 0, 16, "x");
    b.op(OpKind::fill, StreamKind::compute, {b.writes(x)});
    const std::vector<Finding> findings = verify_rank(b.finish());
    const bool leaks = p == Purpose::activations || p == Purpose::communication || p == Purpose::workspace;
    ASSERT_EQ(findings.size(), leaks ? 1u : 0u) << name_of(p);
    if (leaks) {
      EXPECT_EQ(findings[0].kind, Kind::leak);
      EXPECT_EQ(findings[0].buffer, x);
    }
  }
}

TEST(VerifierMemory, FreeAfterTheEndIsALeak) {
  LayerIds ids;
  Program program = tensor_layer(0, &ids);
  program.buffers[ids.side].free_at = 8;  // there are 7 ops
  EXPECT_EQ(only_finding(program, Kind::leak).buffer, ids.side);
}

TEST(VerifierMemory, OperandBeyondItsBuffer) {
  LayerIds ids;
  Program program = tensor_layer(0, &ids);
  operand_of(program, 2, 1).bytes = 65;
  const Finding finding = only_finding(program, Kind::out_of_bounds);
  EXPECT_EQ(finding.op, 2u);
  EXPECT_EQ(finding.buffer, ids.side);

  operand_of(program, 2, 1) = {~std::uint64_t{0}, 64, ids.side, Access::write};  // offset + bytes wraps around
  const std::vector<Finding> findings = verify_rank(program);
  ASSERT_EQ(findings.size(), 2u) << to_string(findings);
  EXPECT_EQ(findings[0].kind, Kind::out_of_bounds);
  EXPECT_EQ(findings[1].kind, Kind::uninitialised_read);
}

TEST(VerifierMemory, BufferBeyondItsArena) {
  LayerIds ids;
  Program program = tensor_layer(0, &ids);
  program.arena_bytes[static_cast<int>(Purpose::communication)] = 191;  // reduced is [128, 192)
  EXPECT_EQ(only_finding(program, Kind::out_of_bounds).buffer, ids.reduced);
}

TEST(VerifierMemory, IndicesBeyondTheirTables) {
  const auto expect_one = [](auto&& damage, const char* text) {
    Program program = tensor_layer(0);
    damage(program);
    EXPECT_THAT(only_finding(program, Kind::out_of_bounds).text, HasSubstr(text));
  };
  expect_one([](Program& p) { operand_of(p, 2, 0).buffer = 99; }, "has buffer 99 of 9");
  expect_one([](Program& p) { p.ops[2].shape = 99; }, "has shape 99 of 7");
  expect_one([](Program& p) { p.ops[1].group = 1; }, "has group 1 of 1");
  expect_one([](Program& p) { p.ops[2].group = 0; }, "has group 0 of 1");
  expect_one([](Program& p) { p.ops[6].operand_count = 5; }, "has operands beyond the table");
  expect_one([](Program& p) { p.ops[5].wait_count = 2; }, "has waits beyond the table");
}

TEST(VerifierMemory, WaitsForItselfForLaterOpsAndForNone) {
  for (const OpId wait : {2u, 4u, 99u}) {
    Program program = tensor_layer(0);
    program.ops[2].first_wait = static_cast<std::uint32_t>(program.waits.size());
    program.ops[2].wait_count = 1;
    program.waits.push_back(wait);
    const Finding finding = only_finding(program, Kind::bad_wait);
    EXPECT_EQ(finding.op, 2u);
    EXPECT_EQ(finding.other_op, wait);
  }
}

TEST(VerifierMemory, AnOpMayReadAndWriteTheSameBytes) {
  ProgramBuilder b(0);
  const BufferId x = b.buffer(Purpose::gradients, 0, 16, "x");
  b.op(OpKind::fill, StreamKind::compute, {b.writes(x)});
  b.op(OpKind::add, StreamKind::data, {b.reads(x), b.reads(x), b.updates(x), b.writes(x)}, {0});
  EXPECT_EQ(to_string(verify_rank(b.finish())), "");
}

TEST(VerifierMemory, ManyFindingsOfOneKindAreCutShortAndSaySo) {
  ProgramBuilder b(0);
  for (int i = 0; i < 3 * kFindingsPerKind; ++i) {
    b.buffer(Purpose::activations, static_cast<std::uint64_t>(16 * i), 16, "x");
  }
  const std::vector<Finding> findings = verify_rank(b.finish());
  ASSERT_EQ(findings.size(), static_cast<std::size_t>(kFindingsPerKind + 1));
  EXPECT_THAT(findings.back().text, HasSubstr("there are more of this kind on this rank"));
}

}  // namespace
}  // namespace benchsuite
