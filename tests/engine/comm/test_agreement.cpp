// Ranks compare what they will send each other before they do.
#include <gtest/gtest.h>

#include "engine/comm/agreement.h"
#include "engine/core/error.h"

namespace benchsuite {
namespace {

/// A Program with one all_reduce in a group of ranks 0 and 1, and a message from 0 to 1.
Program program_of(int rank, std::int64_t elements = 64, DType dtype = DType::fp32) {
  Program program;
  program.rank = rank;
  program.groups = {{GroupKind::tensor, {0, 1}}, {GroupKind::pipeline_forward, {0, 1}}};
  program.shapes.push_back({.kind = OpKind::all_reduce, .dtype = dtype, .reduction = Reduction::sum, .dims = {elements}});
  program.shapes.push_back({.kind = rank == 0 ? OpKind::send : OpKind::receive, .dtype = DType::fp32, .dims = {8}});
  for (std::uint32_t i = 0; i < 2; ++i) {
    program.ops.push_back({.kind = program.shapes[i].kind, .shape = i, .group = i, .group_sequence = 0});
  }
  return program;
}

std::string complaint(const std::vector<std::vector<GroupDigest>>& by_rank) {
  try {
    check_agreement(by_rank);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::run);
    return error.what();
  }
  return "";
}

TEST(Agreement, EqualSequencesAgreeAndBothEndsOfAChannelAreOne) {
  EXPECT_EQ(complaint({digests_of(program_of(0)), digests_of(program_of(1))}), "");
}

TEST(Agreement, ARankMayListAGroupOfOthersThatItNeverUses) {
  Program bystander;
  bystander.rank = 2;
  bystander.groups = {{GroupKind::tensor, {0, 1}}};
  EXPECT_EQ(complaint({digests_of(program_of(0)), digests_of(program_of(1)), digests_of(bystander)}), "");
}

TEST(Agreement, AnotherSizeOrTypeNamesBothRanksAndTheGroup) {
  for (const Program& other : {program_of(1, 65), program_of(1, 64, DType::bf16)}) {
    const std::string message = complaint({digests_of(program_of(0)), digests_of(other)});
    EXPECT_NE(message.find("ranks 0 and 1 disagree on the collectives of tensor group {0, 1}"), std::string::npos) << message;
  }
}

TEST(Agreement, AMissingCollectiveOrGroupIsNoticed) {
  Program shorter = program_of(1);
  shorter.ops.pop_back();
  EXPECT_NE(complaint({digests_of(program_of(0)), digests_of(shorter)}).find("pipeline_forward"), std::string::npos);
  Program stranger = program_of(1);
  stranger.groups[0].ranks = {1, 0};  // the order of a group is part of it
  EXPECT_NE(complaint({digests_of(program_of(0)), digests_of(stranger)}), "");
  EXPECT_NE(complaint({digests_of(program_of(0))}), "") << "rank 1 is not there at all";
}

}  // namespace
}  // namespace benchsuite
