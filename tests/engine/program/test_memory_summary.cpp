#include "engine/program/memory_summary.h"

#include <gtest/gtest.h>

#include "engine/core/error.h"
#include "tests/engine/program/program_builder.h"

namespace benchsuite {
namespace {

void run(ProgramBuilder& b) { b.op(OpKind::add, StreamKind::compute, {}); }

std::uint64_t of(const std::array<std::uint64_t, kPurposes>& bytes, Purpose purpose) {
  return bytes[static_cast<int>(purpose)];
}

//  op        0    1    2    3    4
//  weight    1000 everywhere
//  x         10   10   10s  10s             saved from op 2
//  y              20   20s  20s  20s        saved from op 2
//  z                   5s   5s   5s         saved at once, term of x
//  g                   300                  communication
//  scratch                       40         activations
//  live      1010 1030 1335 1035 1065
//  saved     0    0    35   35   25
//  transient 10   30   300  0    40
Program small_step() {
  ProgramBuilder b(0);
  b.buffer(Purpose::parameters, 0, 1000, "weight");
  const BufferId x = b.buffer(Purpose::activations, 0, 10, "input");
  run(b);
  const BufferId y = b.buffer(Purpose::activations, 10, 20, "output");
  run(b);
  const BufferId z = b.buffer(Purpose::activations, 30, 5, "input");
  b.save(x);
  b.save(y);
  b.save(z);
  const BufferId g = b.buffer(Purpose::communication, 0, 300, "gathered");
  run(b);
  b.free(g);
  run(b);
  b.free(x);
  const BufferId scratch = b.buffer(Purpose::activations, 35, 40, "scratch");
  run(b);
  b.free(scratch);
  b.free(y);
  b.free(z);
  return b.finish();
}

TEST(MemorySummary, SweepsByHand) {
  const MemorySummary summary = summarise_memory(small_step());
  EXPECT_EQ(summary.peak_bytes, 1335u);
  EXPECT_EQ(summary.peak_at, 2u);
  EXPECT_EQ(of(summary.peak_by_purpose, Purpose::parameters), 1000u);
  EXPECT_EQ(of(summary.peak_by_purpose, Purpose::activations), 35u);
  EXPECT_EQ(of(summary.peak_by_purpose, Purpose::communication), 300u);
  EXPECT_EQ(of(summary.peak_by_purpose, Purpose::gradients), 0u);
  EXPECT_EQ(summary.transient_peak_bytes, 300u);
  EXPECT_EQ(summary.transient_peak_at, 2u);

  EXPECT_EQ(of(summary.arena_bytes, Purpose::activations), 75u);
  EXPECT_EQ(summary.reserved_bytes, 1000u + 75u + 300u);
}

TEST(MemorySummary, SavedBytesByTermAtTheirHighWaterMark) {
  const Program program = small_step();
  const MemorySummary summary = summarise_memory(program);
  EXPECT_EQ(summary.saved_peak_bytes, 35u);
  EXPECT_EQ(summary.saved_peak_at, 2u);
  ASSERT_EQ(summary.saved_terms.size(), 2u);
  EXPECT_EQ(program.terms[summary.saved_terms[0].term], "input");
  EXPECT_EQ(summary.saved_terms[0].bytes, 15u);
  EXPECT_EQ(summary.saved_terms[0].buffers, 2u);
  EXPECT_EQ(program.terms[summary.saved_terms[1].term], "output");
  EXPECT_EQ(summary.saved_terms[1].bytes, 20u);
  EXPECT_EQ(summary.saved_terms[1].buffers, 1u);
}

// The peaks of live, saved and transient bytes fall on different ops: 1F1B with two sets in flight, then a large
// scratch.
TEST(MemorySummary, PeaksAreIndependent) {
  ProgramBuilder b(0);
  std::vector<BufferId> sets;
  for (int i = 0; i < 3; ++i) {
    if (i >= 2) b.free(sets[static_cast<std::size_t>(i - 2)]);
    sets.push_back(b.buffer(Purpose::activations, static_cast<std::uint64_t>(100 * (i % 2)), 100, "saved"));
    b.save(sets.back());
    run(b);
  }
  b.free(sets[1]);
  const BufferId scratch = b.buffer(Purpose::workspace, 0, 150, "scratch");
  run(b);
  b.free(scratch);
  b.free(sets[2]);
  const MemorySummary summary = summarise_memory(b.finish());
  EXPECT_EQ(summary.saved_peak_bytes, 200u);
  EXPECT_EQ(summary.saved_peak_at, 1u);
  EXPECT_EQ(summary.saved_terms[0].buffers, 2u);
  EXPECT_EQ(summary.peak_bytes, 250u);
  EXPECT_EQ(summary.peak_at, 3u);
  EXPECT_EQ(summary.transient_peak_bytes, 150u);
  EXPECT_EQ(summary.transient_peak_at, 3u);
}

TEST(MemorySummary, WhatWasFreedBeforeTheHighWaterMarkIsNotInIt) {
  ProgramBuilder b(0);
  const BufferId early = b.buffer(Purpose::activations, 0, 10, "early");
  b.save(early);
  run(b);
  b.free(early);
  const BufferId late = b.buffer(Purpose::activations, 0, 20, "late");
  b.save(late);
  run(b);
  b.free(late);
  const Program program = b.finish();
  const MemorySummary summary = summarise_memory(program);
  EXPECT_EQ(summary.saved_peak_bytes, 20u);
  ASSERT_EQ(summary.saved_terms.size(), 1u);
  EXPECT_EQ(program.terms[summary.saved_terms[0].term], "late");
}

TEST(MemorySummary, AFreeAndAnAllocationBetweenTwoOpsDoNotMeet) {
  ProgramBuilder b(0);
  const BufferId x = b.buffer(Purpose::activations, 0, 10, "x");
  run(b);
  b.free(x);
  const BufferId y = b.buffer(Purpose::activations, 0, 12, "y");
  run(b);
  b.free(y);
  EXPECT_EQ(summarise_memory(b.finish()).peak_bytes, 12u);
}

TEST(MemorySummary, EmptyAndPermanent) {
  EXPECT_EQ(summarise_memory(Program{}).peak_bytes, 0u);
  ProgramBuilder b(0);
  b.buffer(Purpose::moments, 0, 64, "moments");
  EXPECT_EQ(summarise_memory(b.finish()).peak_bytes, 64u);  // even without an op
}

TEST(MemorySummary, ImpossibleLivesThrow) {
  Program program = small_step();
  program.buffers[1].free_at = 0;
  program.buffers[1].alloc_at = 1;
  EXPECT_THROW(summarise_memory(program), Error);
  program = small_step();
  program.buffers[2].saved_at = 0;
  EXPECT_THROW(summarise_memory(program), Error);
}

}  // namespace
}  // namespace benchsuite
