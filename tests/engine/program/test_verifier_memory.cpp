// Sound Programs have no findings; each test here breaks one thing on one rank and expects just that finding.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "engine/program/verifier.h"
#include "tests/engine/program/program_mutations.h"
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

TEST(VerifierMemory, WriteToTheNeighbourOfAReadIsSoundAndOneByteMoreIsARace) {
  Program program = tensor_layer(0);
  const LayerIds ids = [] { LayerIds n; tensor_layer(0, &n); return n; }();
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
  // The reduced tensor moves into the range of nobody else: sound. Then scratch moves onto the gelu output, which is live.
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

TEST(VerifierMemory, OneOpFreedEarlyIsUseAfterFree) {
  LayerIds ids;
  Program program = tensor_layer(0, &ids);
  program.buffers[ids.partial].free_at = 4;  // the reduce-scatter, op 4, still reads it
  const Finding finding = only_finding(program, Kind::use_after_free);
  EXPECT_EQ(finding.op, 4u);
  EXPECT_EQ(finding.buffer, ids.partial);
  EXPECT_THAT(finding.text, HasSubstr("was freed before op 4"));
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
    const bool holds = p == Purpose::inputs || p == Purpose::parameters || p == Purpose::master || p == Purpose::moments;
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

bool has_race(const std::vector<Finding>& findings) {
  return std::any_of(findings.begin(), findings.end(), [](const Finding& f) { return f.kind == Kind::race; });
}

TEST(VerifierMemory, EveryDroppedWaitThatMattersIsFound) {
  int mattered = 0;
  for (const Program& program : {tensor_layer(0), pipeline_stage(0), pipeline_stage(1), two_groups(0)}) {
    ASSERT_TRUE(races_by_brute_force(program).empty());
    for_each_dropped_wait(program, [&](const DroppedWait& dropped) {
      const bool matters = !races_by_brute_force(dropped.program).empty();
      EXPECT_EQ(has_race(verify_rank(dropped.program)), matters)
          << "op " << dropped.op << " without its wait for op " << dropped.waited_for;
      EXPECT_FALSE(dropped.redundant && matters);
      mattered += matters;
    });
  }
  EXPECT_EQ(mattered, 4 + 5 + 4 + 2);  // all the waits of these Programs
}

/// Ops at random on random streams touch random ranges of a few buffers that overlap in time or in place; waits at random.
Program random_program(std::uint32_t seed) {
  std::mt19937 random(seed);
  const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
  ProgramBuilder b(0);
  const Purpose purposes[] = {Purpose::master, Purpose::gradients};
  std::vector<BufferId> buffers;
  const OpId ops = 12;
  for (OpId id = 0; id < ops; ++id) {
    if (buffers.size() < 2 || below(4) == 0) {
      buffers.push_back(b.buffer(purposes[below(2)], 8 * below(6), 8 * (1 + below(4)), "x"));
    }
    const auto operand = [&] {
      const BufferId buffer = buffers[below(static_cast<std::uint32_t>(buffers.size()))];
      Operand whole = b.reads(buffer);
      if (below(2) == 0) {
        whole.offset = below(static_cast<std::uint32_t>(whole.bytes));
        whole.bytes = 1 + below(static_cast<std::uint32_t>(whole.bytes - whole.offset));
      }
      whole.access = static_cast<Access>(below(3));
      return whole;
    };
    const auto stream = static_cast<StreamKind>(below(4));
    if (id > 0 && below(3) > 0) {
      b.op(OpKind::add, stream, {operand(), operand()}, {below(id), below(id)});
    } else {
      b.op(OpKind::add, stream, {operand(), operand()});
    }
  }
  return b.finish();
}

/// (op, buffer) of every read of undefined bytes, byte by byte; bytes once complained about count as defined.
std::vector<std::pair<OpId, BufferId>> unwritten_reads_by_brute_force(const Program& program) {
  std::array<std::array<BufferId, 128>, kPurposes> content;
  for (auto& arena : content) arena.fill(kNone);
  std::vector<std::pair<OpId, BufferId>> found;
  for (OpId id = 0; id < program.ops.size(); ++id) {
    for (const bool writing : {false, true}) {
      for (const Operand& operand : program.operands_of(program.ops[id])) {
        if (operand.access == (writing ? Access::read : Access::write)) continue;
        const Buffer& buffer = program.buffers[operand.buffer];
        bool complained = buffer.purpose == Purpose::master;
        for (std::uint64_t i = 0; i < operand.bytes; ++i) {
          BufferId& byte = content[static_cast<int>(buffer.purpose)][buffer.offset + operand.offset + i];
          if (!writing && byte != operand.buffer && !complained) {
            complained = true;
            found.emplace_back(id, operand.buffer);
          }
          if (writing || buffer.purpose != Purpose::master) byte = operand.buffer;
        }
      }
    }
  }
  return found;
}

TEST(VerifierMemory, AgreesWithBruteForceOnRandomPrograms) {
  int sound = 0, racing = 0, undefined = 0;
  for (std::uint32_t seed = 0; seed < 4000; ++seed) {
    Program program = random_program(seed);
    const std::vector<std::pair<OpId, OpId>> races = races_by_brute_force(program);
    const std::vector<Finding> findings = verify_rank(program);

    std::vector<std::pair<OpId, BufferId>> unwritten;
    for (const Finding& finding : findings) {
      if (finding.kind == Kind::uninitialised_read) unwritten.emplace_back(finding.op, finding.buffer);
    }
    ASSERT_EQ(unwritten, unwritten_reads_by_brute_force(program)) << "seed " << seed;
    undefined += !unwritten.empty();

    ASSERT_EQ(has_race(findings), !races.empty()) << "seed " << seed << '\n' << to_string(findings);
    (races.empty() ? sound : racing)++;
    // Each race named is one, and with the edges named there is none left.
    Program mended = program;
    for (const Finding& finding : findings) {
      if (finding.kind != Kind::race) continue;
      ASSERT_THAT(races, ::testing::Contains(std::pair(finding.other_op, finding.op))) << "seed " << seed;
      Op& op = mended.ops[finding.op];
      const auto first = static_cast<std::uint32_t>(mended.waits.size());
      for (std::uint16_t i = 0; i < op.wait_count; ++i) mended.waits.push_back(mended.waits[op.first_wait + i]);
      mended.waits.push_back(finding.other_op);
      op.first_wait = first;
      ++op.wait_count;
    }
    ASSERT_TRUE(races_by_brute_force(mended).empty()) << "seed " << seed;
    ASSERT_FALSE(has_race(verify_rank(mended))) << "seed " << seed;
  }
  // The draw holds enough of each for the comparison to mean something.
  EXPECT_GT(sound, 20);
  EXPECT_GT(racing, 1000);
  EXPECT_GT(undefined, 1000);
}

}  // namespace
}  // namespace benchsuite
