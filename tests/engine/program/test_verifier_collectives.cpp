// What only shows between ranks: each test breaks one thing on one of two ranks and expects just that finding.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/core/error.h"
#include "engine/program/verifier.h"
#include "tests/engine/program/sound_programs.h"

namespace benchsuite {
namespace {

using ::testing::HasSubstr;
using Kind = Finding::Kind;

Finding only(const std::vector<Finding>& findings, Kind kind) {
  EXPECT_EQ(findings.size(), 1u) << to_string(findings);
  if (findings.empty()) return {};
  EXPECT_EQ(name_of(findings[0].kind), name_of(kind)) << findings[0].text;
  return findings[0];
}

OpShape& shape_of(Program& program, OpId op) { return program.shapes[program.ops[op].shape]; }

Operand& operand_of(Program& program, OpId op, int index) {
  return program.operands[program.ops[op].first_operand + static_cast<std::uint32_t>(index)];
}

/// Takes the last op out.
void drop_last_op(Program& program) {
  program.ops.pop_back();
  const auto end = static_cast<OpId>(program.ops.size());
  for (Buffer& buffer : program.buffers) {
    if (buffer.free_at != kNone) buffer.free_at = std::min(buffer.free_at, end);
  }
}

TEST(VerifierCollectives, SoundWorldsHaveNoFindings) {
  EXPECT_EQ(to_string(layer_pair().verify()), "");
  EXPECT_EQ(to_string(pair_of(pipeline_stage).verify()), "");
  EXPECT_EQ(to_string(pair_of(two_groups).verify()), "");
}

TEST(VerifierCollectives, DroppedReceiveIsUnmatched) {
  ProgramBuilder b(1);
  const Group forward{GroupKind::pipeline_forward, {0, 1}};
  const BufferId x = b.buffer(Purpose::communication, 0, 32, "stage input");
  b.communicate(OpKind::receive, StreamKind::pipeline_receive_previous, forward, 32, {b.writes(x)});
  b.free(x);
  const Program receiver = b.finish();

  ProgramBuilder a(0);
  const BufferId y = a.buffer(Purpose::parameters, 0, 32, "output");
  a.communicate(OpKind::send, StreamKind::pipeline_send_next, forward, 32, {a.reads(y)});
  a.communicate(OpKind::send, StreamKind::pipeline_send_next, forward, 32, {a.reads(y)});
  const Program sender = a.finish();

  const Finding finding = only(Pair{sender, receiver}.verify(), Kind::unmatched_collective);
  EXPECT_EQ(finding.rank, 0);
  EXPECT_EQ(finding.other_rank, 1);
  EXPECT_EQ(finding.op, 1u);
  EXPECT_THAT(finding.text, HasSubstr("rank 0 posts 2, rank 1 posts 1"));

  Program silent = receiver;
  drop_last_op(silent);
  silent.groups.clear();
  const Finding never = only(Pair{sender, silent}.verify(), Kind::unmatched_collective);
  EXPECT_EQ(never.rank, 0);
  EXPECT_THAT(never.text, HasSubstr("wait for rank 1, which posts none"));
}

TEST(VerifierCollectives, DroppedSendIsUnmatched) {
  Pair pair = pair_of(pipeline_stage);
  drop_last_op(pair.second);  // the gradient of micro-batch 1
  const Finding finding = only(pair.verify(), Kind::unmatched_collective);
  EXPECT_EQ(finding.rank, 0);
  EXPECT_EQ(finding.op, 6u);
  EXPECT_THAT(finding.text, HasSubstr("op 6 receive"));
  EXPECT_THAT(finding.text, HasSubstr("micro-batch 1) on stream pipeline_receive_next"));
}

TEST(VerifierCollectives, SwappedCollectivesAreMisordered) {
  Pair pair = pair_of(two_groups);
  // The two all-reduces of the tensor group change places on rank 1; each keeps its own buffer and size.
  std::swap(pair.second.ops[1].shape, pair.second.ops[2].shape);
  std::swap(pair.second.ops[1].first_operand, pair.second.ops[2].first_operand);
  const Finding finding = only(pair.verify(), Kind::misordered_collective);
  EXPECT_EQ(finding.rank, 1);
  EXPECT_EQ(finding.op, 1u);
  EXPECT_EQ(finding.other_rank, 0);
  EXPECT_EQ(finding.other_op, 1u);
  EXPECT_THAT(finding.text, HasSubstr("number 0 in tensor group {0, 1}: rank 1's op 1 all_reduce"));
  EXPECT_THAT(finding.text, HasSubstr("of 64 uint8 meets rank 0's op 1"));
}

TEST(VerifierCollectives, DifferentSizesMismatch) {
  Pair pair = pair_of(two_groups);
  shape_of(pair.second, 2).dims[0] = 60;
  operand_of(pair.second, 2, 0).bytes = 60;
  const Finding finding = only(pair.verify(), Kind::size_mismatch);
  EXPECT_EQ(finding.rank, 1);
  EXPECT_EQ(finding.op, 2u);
  EXPECT_THAT(finding.text, HasSubstr("of 60 uint8 meets rank 0's"));
}

TEST(VerifierCollectives, DifferentKindReductionOrDtypeMismatch) {
  {
    Pair pair = pair_of(two_groups);
    shape_of(pair.second, 3).reduction = Reduction::max;
    EXPECT_EQ(only(pair.verify(), Kind::size_mismatch).op, 3u);
  }
  {
    Pair pair = pair_of(two_groups);
    shape_of(pair.second, 3).dtype = DType::fp8;  // one byte too
    EXPECT_EQ(only(pair.verify(), Kind::size_mismatch).op, 3u);
  }
  {
    // 8 float elements received where 32 bytes were sent: equal bytes, different numbers.
    Pair pair = pair_of(pipeline_stage);
    shape_of(pair.second, 3).dtype = DType::fp32;
    shape_of(pair.second, 3).dims[0] = 8;
    EXPECT_EQ(only(pair.verify(), Kind::size_mismatch).op, 3u);
  }
}

TEST(VerifierCollectives, OperandsThatDisagreeWithTheDimensionsMismatch) {
  {
    Program program = two_groups(0);
    operand_of(program, 2, 0).bytes = 60;
    EXPECT_THAT(only(verify_rank(program), Kind::size_mismatch).text,
                HasSubstr("of 64 uint8 elements among 2 ranks touches {60} bytes, where {64} are due"));
  }
  {
    Program program = tensor_layer(0);  // an all-gather whose input is the whole, not the share
    operand_of(program, 1, 0) = operand_of(program, 1, 1);
    operand_of(program, 1, 0).access = Access::read;
    const std::vector<Finding> findings = verify_rank(program);
    ASSERT_FALSE(findings.empty());
    EXPECT_EQ(findings.back().kind, Kind::size_mismatch);
    EXPECT_THAT(findings.back().text, HasSubstr("touches {128, 128} bytes, where {64, 128} are due"));
  }
  {
    Program program = tensor_layer(0);  // elements that two ranks can't share
    shape_of(program, 4).dims[0] = 127;
    EXPECT_EQ(only(verify_rank(program), Kind::size_mismatch).op, 4u);
  }
}

TEST(VerifierCollectives, RankOutsideItsGroup) {
  Program program = two_groups(0);
  program.rank = 2;
  const std::vector<Finding> findings = verify_rank(program);
  ASSERT_EQ(findings.size(), 3u) << to_string(findings);  // each of its collectives
  for (const Finding& finding : findings) {
    EXPECT_EQ(finding.kind, Kind::unmatched_collective);
    EXPECT_THAT(finding.text, HasSubstr("is posted by a rank that is not one of"));
  }
}

TEST(VerifierCollectives, SendAgainstTheChannel) {
  Program program = pipeline_stage(0);
  program.groups[program.ops[1].group].ranks = {1, 0};
  const std::vector<Finding> findings = verify_rank(program);
  ASSERT_EQ(findings.size(), 2u) << to_string(findings);
  EXPECT_EQ(findings[0].kind, Kind::unmatched_collective);
  EXPECT_THAT(findings[0].text, HasSubstr("is not the source of pipeline_forward group {1, 0}"));
}

TEST(VerifierCollectives, NumbersMustBeDense) {
  Pair pair = layer_pair();
  pair.first.ops[4].group_sequence = 2;
  const Finding finding = only(pair.verify(), Kind::misordered_collective);
  EXPECT_EQ(finding.op, 4u);
  EXPECT_THAT(finding.text, HasSubstr("has number 2 in tensor group {0, 1}, though 1 came before it"));
}

TEST(VerifierCollectives, OpsOfOneGroupNeedAnOrder) {
  const Group pair{GroupKind::tensor, {0, 1}};
  const auto program = [&](bool ordered) {
    ProgramBuilder b(0);
    const BufferId x = b.buffer(Purpose::parameters, 0, 16, "x");
    const BufferId y = b.buffer(Purpose::parameters, 16, 16, "y");
    b.communicate(OpKind::all_reduce, StreamKind::tensor, pair, 16, {b.updates(x)});
    if (ordered) {
      b.communicate(OpKind::all_reduce, StreamKind::data, pair, 16, {b.updates(y)}, {0});
    } else {
      b.communicate(OpKind::all_reduce, StreamKind::data, pair, 16, {b.updates(y)});
    }
    return b.finish();
  };
  EXPECT_EQ(to_string(verify_rank(program(true))), "");
  const Finding finding = only(verify_rank(program(false)), Kind::misordered_collective);
  EXPECT_EQ(finding.op, 1u);
  EXPECT_EQ(finding.other_op, 0u);
  EXPECT_THAT(finding.text, HasSubstr("op 1 needs to wait for op 0"));
}

/// Rank 0 reduces over the tensor group and then the data group; rank 1 the other way round when `crossed`.
Program crossing(int rank, bool crossed) {
  const Group tensor{GroupKind::tensor, {0, 1}};
  const Group data{GroupKind::data, {0, 1}};
  ProgramBuilder b(rank);
  const BufferId x = b.buffer(Purpose::parameters, 0, 16, "x");
  const BufferId y = b.buffer(Purpose::parameters, 16, 16, "y");
  const auto reduce_x = [&](std::initializer_list<OpId> waits) {
    b.communicate(OpKind::all_reduce, StreamKind::tensor, tensor, 16, {b.updates(x)}, waits);
  };
  const auto reduce_y = [&](std::initializer_list<OpId> waits) {
    b.communicate(OpKind::all_reduce, StreamKind::data, data, 16, {b.updates(y)}, waits);
  };
  if (crossed) {
    reduce_y({});
    reduce_x({0});
  } else {
    reduce_x({});
    reduce_y({0});
  }
  return b.finish();
}

TEST(VerifierCollectives, RingOfWaitsIsADeadlock) {
  EXPECT_EQ(to_string(Pair{crossing(0, false), crossing(1, false)}.verify()), "");
  const Finding finding = only(Pair{crossing(0, false), crossing(1, true)}.verify(), Kind::deadlock);
  EXPECT_THAT(finding.text,
              HasSubstr("rank 0's op 0 all_reduce (forward, mlp, layer 0, micro-batch 0) on stream tensor "
                        "waits for rank 1 to reach its op 1 all_reduce"));
  EXPECT_THAT(finding.text,
              HasSubstr("rank 1's op 1 all_reduce (forward, mlp, layer 0, micro-batch 0) on stream tensor "
                        "waits for op 0 all_reduce (forward, mlp, layer 0, micro-batch 0) on stream data"));
  EXPECT_THAT(finding.text, HasSubstr("rank 1's op 0 all_reduce (forward, mlp, layer 0, micro-batch 0) on stream data "
                                      "waits for rank 0 to reach its op 1 all_reduce"));
}

TEST(VerifierCollectives, ABadWaitIsNotReportedAgainAsTheDeadlockItCauses) {
  for (const OpId wait : {1u, 2u, 99u}) {
    Pair pair = pair_of(two_groups);
    Op& op = pair.second.ops[1];
    op.first_wait = static_cast<std::uint32_t>(pair.second.waits.size());
    op.wait_count = 2;
    pair.second.waits.insert(pair.second.waits.end(), {0u, wait});
    EXPECT_EQ(only(pair.verify(), Kind::bad_wait).other_op, wait);
  }
}

/// Sends to the other of two ranks and receives from it, both on the stream of the sends.
Program exchange(int rank, bool send_first) {
  ProgramBuilder b(rank);
  const Group out{GroupKind::pipeline_forward, {rank, 1 - rank}};
  const Group in{GroupKind::pipeline_forward, {1 - rank, rank}};
  const BufferId x = b.buffer(Purpose::parameters, 0, 16, "x");
  const BufferId y = b.buffer(Purpose::communication, 0, 16, "y");
  const auto send = [&] { b.communicate(OpKind::send, StreamKind::pipeline_send_next, out, 16, {b.reads(x)}); };
  const auto receive = [&] { b.communicate(OpKind::receive, StreamKind::pipeline_send_next, in, 16, {b.writes(y)}); };
  if (send_first) send();
  receive();
  if (!send_first) send();
  b.free(y);
  return b.finish();
}

TEST(VerifierCollectives, TwoSendsFacingEachOtherAreADeadlock) {
  EXPECT_EQ(to_string(Pair{exchange(0, true), exchange(1, false)}.verify()), "");
  const Finding finding = only(Pair{exchange(0, true), exchange(1, true)}.verify(), Kind::deadlock);
  EXPECT_THAT(finding.text, HasSubstr("rank 0's op 0 send"));
  EXPECT_THAT(finding.text, HasSubstr("rank 1's op 0 send"));
}

/// Four ranks, tensor pairs {0, 1} and {2, 3}, pipelines 0 -> 2 and 1 -> 3; one Program for each stage.
Program stage_of_four(int rank, bool is_first, bool drops_send = false) {
  const int first = is_first ? rank : rank - 2;
  const int base = rank / 2 * 2;
  const Group tensor{GroupKind::tensor, {base, base + 1}};
  const Group forward{GroupKind::pipeline_forward, {first, first + 2}};
  ProgramBuilder b(rank);
  const BufferId x = b.buffer(Purpose::parameters, 0, 16, "x");
  b.communicate(OpKind::all_reduce, StreamKind::tensor, tensor, 16, {b.updates(x)});
  if (is_first) {
    if (!drops_send) {
      b.communicate(OpKind::send, StreamKind::pipeline_send_next, forward, 16, {b.reads(x)}, {0});
    }
    return b.finish();
  }
  const BufferId y = b.buffer(Purpose::communication, 0, 16, "y");
  b.communicate(OpKind::receive, StreamKind::pipeline_receive_previous, forward, 16, {b.writes(y)});
  b.free(y);
  return b.finish();
}

TEST(VerifierCollectives, OneProgramForEachRole) {
  const std::vector<int> role_of_rank{0, 0, 1, 1};
  // Representatives on one pipeline (0 and 2), and on two: then 0 -> 2 and 1 -> 3 are images of each other.
  for (const int second : {2, 3}) {
    const Program a = stage_of_four(0, true), b = stage_of_four(second, false);
    const std::vector<const Program*> programs{&a, &b};
    EXPECT_EQ(to_string(verify(programs, role_of_rank)), "");

    const Program silent = stage_of_four(0, true, true);
    const std::vector<const Program*> broken{&silent, &b};
    const Finding finding = only(verify(broken, role_of_rank), Kind::unmatched_collective);
    EXPECT_EQ(finding.rank, second);
    EXPECT_THAT(finding.text,
                HasSubstr(second == 2 ? "wait for rank 0, which posts none" : "wait for rank 1, which posts none"));
  }
}

TEST(VerifierCollectives, DeadlockBetweenRoles) {
  // Each stage sends only what it has received.
  const std::vector<int> role_of_rank{0, 0, 1, 1};
  const Group forward{GroupKind::pipeline_forward, {0, 2}};
  const Group backward{GroupKind::pipeline_backward, {2, 0}};
  const auto stage = [&](int rank) {
    ProgramBuilder builder(rank);
    const BufferId x = builder.buffer(Purpose::parameters, 0, 16, "x");
    const BufferId y = builder.buffer(Purpose::communication, 0, 16, "y");
    const bool is_first = rank == 0;
    builder.communicate(OpKind::receive, StreamKind::pipeline_receive_next, is_first ? backward : forward, 16,
                        {builder.writes(y)});
    builder.communicate(OpKind::send, StreamKind::pipeline_send_next, is_first ? forward : backward, 16,
                        {builder.reads(x)}, {0});
    builder.free(y);
    return builder.finish();
  };
  const Program first = stage(0), second = stage(2);
  const std::vector<const Program*> programs{&first, &second};
  const Finding finding = only(verify(programs, role_of_rank), Kind::deadlock);
  EXPECT_THAT(finding.text, HasSubstr("rank 0's op 0 receive"));
  EXPECT_THAT(finding.text, HasSubstr("rank 2's op 0 receive"));
}

TEST(VerifierCollectives, RolesMustFitTheirPrograms) {
  const Program a = stage_of_four(0, true), b = stage_of_four(2, false);
  const std::vector<const Program*> programs{&a, &b};
  EXPECT_THROW(verify(programs, std::vector<int>{0, 0, 0, 1}), Error);  // rank 2 is said to run program 0
  EXPECT_THROW(verify(programs, std::vector<int>{0, 0, 2, 1}), Error);  // there is no program 2
}

}  // namespace
}  // namespace benchsuite
