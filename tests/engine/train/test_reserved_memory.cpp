#include "engine/train/reserved_memory.h"

#include <gtest/gtest.h>

#include "engine/model/terms.h"

namespace benchsuite {
namespace {

constexpr std::uint64_t kMiB = 1024 * 1024;
constexpr std::uint64_t kPlenty = 1'000'000 * kMiB;

Op op(Phase phase, Site site, std::int32_t micro_batch) {
  return {.kind = OpKind::gemm, .phase = phase, .site = site, .micro_batch = micro_batch, .chunk = 0};
}

Buffer buffer(Purpose purpose, std::uint64_t mib, OpId alloc_at, OpId free_at, Term term = Term::transient) {
  return {.purpose = purpose, .term = index_of(term), .bytes = mib * kMiB, .alloc_at = alloc_at, .free_at = free_at};
}

/// Ops 0, 1: forward and backward of the first micro-batch, 2, 3: of the second, and so on; last the optimizer.
Program program(std::vector<Buffer> buffers, std::int32_t micro_batches = 2) {
  Program made;
  for (std::int32_t micro_batch = 0; micro_batch < micro_batches; ++micro_batch) {
    made.ops.push_back(op(Phase::forward, Site::mlp, micro_batch));
    made.ops.push_back(op(Phase::backward, Site::mlp, micro_batch));
  }
  made.ops.push_back(op(Phase::optimizer, Site::optimizer, -1));
  made.buffers = std::move(buffers);
  return made;
}

// The first step leaves a cached segment of 100 MiB; the moments cut 40 and 40 out of it, so the second step's activation
// needs another one.
TEST(ReservedMemory, MomentsCutTheFirstStepsSegments) {
  const Program made = program({buffer(Purpose::parameters, 50, 0, kNone), buffer(Purpose::moments, 40, 0, kNone),
                                buffer(Purpose::moments, 40, 0, kNone), buffer(Purpose::activations, 100, 0, 2)});
  const ReservedMemory memory = reserve_memory(made, {}, kPlenty);
  EXPECT_EQ(memory.allocated_bytes, (50 + 80 + 100) * kMiB);
  EXPECT_EQ(memory.reserved_bytes, (50 + 100 + 100) * kMiB);
  EXPECT_TRUE(memory.fits);
  EXPECT_TRUE(reserve_memory(made, {}, 250 * kMiB).fits);
  EXPECT_FALSE(reserve_memory(made, {}, 240 * kMiB).fits) << "230 MiB are in use at most";
}

// What an op is done with is free before the next one's output is allocated.
TEST(ReservedMemory, ABufferTakesTheOneThatEndsBeforeIt) {
  const Program made = program({buffer(Purpose::activations, 100, 0, 1), buffer(Purpose::activations, 100, 1, 2),
                                buffer(Purpose::activations, 100, 2, 2)});
  const ReservedMemory memory = reserve_memory(made, {}, kPlenty);
  EXPECT_EQ(memory.allocated_bytes, 100 * kMiB);
  EXPECT_EQ(memory.reserved_bytes, 100 * kMiB);
}

// The first micro-batch's products become the gradients, the second's are added and dropped: 2 x 30 at most, which the
// stack's own buffer of 30 doesn't come on top of.
TEST(ReservedMemory, AutogradsGradientsAreTheFirstProducts) {
  const Program made = program({buffer(Purpose::gradients, 30, 0, kNone),
                                buffer(Purpose::activations, 30, 1, 2, Term::weight_gradient),
                                buffer(Purpose::activations, 30, 3, 4, Term::weight_gradient)});
  Stack stack;
  EXPECT_EQ(reserve_memory(made, stack, kPlenty).allocated_bytes, 60 * kMiB);
  stack.gradients_of_autograd = true;
  EXPECT_EQ(reserve_memory(made, stack, kPlenty).allocated_bytes, 60 * kMiB);
  const Program first = program({buffer(Purpose::gradients, 30, 0, kNone),
                                 buffer(Purpose::activations, 30, 1, 2, Term::weight_gradient),
                                 buffer(Purpose::activations, 50, 3, 4)});
  EXPECT_EQ(reserve_memory(first, stack, kPlenty).allocated_bytes, 80 * kMiB) << "kept through the second micro-batch";
  const Program three = program({buffer(Purpose::activations, 30, 1, 2, Term::weight_gradient),
                                 buffer(Purpose::activations, 30, 3, 4, Term::weight_gradient),
                                 buffer(Purpose::activations, 30, 5, 6, Term::weight_gradient)}, 3);
  EXPECT_EQ(reserve_memory(three, stack, kPlenty).allocated_bytes, 60 * kMiB) << "the first and one that is added";
}

TEST(ReservedMemory, TheWorkspaceIsTheAllocators) {
  Stack stack;
  stack.workspace_bytes = 32 * kMiB;
  EXPECT_EQ(reserve_memory(program({}), stack, kPlenty).reserved_bytes, 32 * kMiB);
  EXPECT_FALSE(reserve_memory(program({}), stack, 31 * kMiB).fits);
}

}  // namespace
}  // namespace benchsuite
