// The verifier against brute force: every wait dropped in turn, and thousands of random Programs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "engine/program/verifier.h"
#include "tests/engine/program/program_mutations.h"
#include "tests/engine/program/sound_programs.h"

namespace benchsuite {
namespace {

using Kind = Finding::Kind;

bool has_race(const std::vector<Finding>& findings) {
  return std::any_of(findings.begin(), findings.end(), [](const Finding& f) { return f.kind == Kind::race; });
}

TEST(VerifierBruteForce, EveryDroppedWaitThatMattersIsFound) {
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

/// Ops at random on random streams touch random ranges of a few buffers that overlap in time or in place; waits at
/// random.
Program random_program(std::uint32_t seed) {
  std::mt19937 random(seed);
  const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
  ProgramBuilder b(0);
  const Purpose purposes[] = {Purpose::master, Purpose::gradients};
  std::vector<BufferId> buffers;
  const OpId ops = 2 + seed % 11;
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

TEST(VerifierBruteForce, AgreesWithBruteForceOnRandomPrograms) {
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
  EXPECT_GT(sound, 500);
  EXPECT_GT(racing, 1000);
  EXPECT_GT(undefined, 1000);
}

}  // namespace
}  // namespace benchsuite
