// The executor: order, memory, poison and timelines.
#include "tests/engine/device/cpu/tiny_program.h"

namespace benchsuite::testing_cpu {
namespace {

OpShape filled(float value, std::int64_t n = 2) { return shape_of(OpKind::fill, {n}, value); }

TEST(CpuRank, WaitsOrderStreamsAndStepsRepeat) {
  // `global` runs ahead of `compute` unless it waits; recorded order alone must not matter.
  TinyProgram tiny;
  const Tensor x = tiny.tensor(2), y = tiny.tensor(2), z = tiny.tensor(2);
  const OpId first = tiny.op(filled(1), {writes(x)});
  const OpId second = tiny.op(shape_of(OpKind::add, {2}), {reads(x), reads(x), writes(y)},
                              {.stream = StreamKind::global, .waits = {first}});
  tiny.op(shape_of(OpKind::add, {2}), {reads(y), reads(x), writes(z)}, {.waits = {second}});
  HostWork host;
  host.before_step = [&](CpuRank& rank, int) { rank.data(x)[0] = rank.data(y)[0] = rank.data(z)[0] = 50; };
  host.after_step = [&](CpuRank& rank, int) {
    EXPECT_EQ(rank.data(z)[0], 3);
    const std::vector<Span>& spans = rank.timeline().spans;
    ASSERT_EQ(spans.size(), 3u);
    for (const Span& span : spans) {
      EXPECT_GE(span.ready, 0);
      EXPECT_GE(span.start, span.ready);
      EXPECT_GE(span.end, span.start);
      EXPECT_LE(span.end, rank.timeline().end);
    }
    EXPECT_GE(spans[1].start, spans[0].end);
    EXPECT_GE(spans[2].start, spans[1].end);
  };
  run_ranks({&tiny.program}, host, 3);
}

TEST(CpuRank, CollectiveSpansStartWhenTheLastMemberArrives) {
  std::vector<TinyProgram> programs;
  for (int rank = 0; rank < 2; ++rank) {
    programs.emplace_back(rank);
    TinyProgram& tiny = programs.back();
    const Tensor x = tiny.tensor(2);
    OpShape reduce = shape_of(OpKind::all_reduce, {2});
    reduce.reduction = Reduction::sum;
    tiny.op(reduce, {updates(x)}, {.stream = StreamKind::tensor, .group = tiny.group(GroupKind::tensor, {0, 1})});
  }
  const auto ranks = run_ranks({&programs[0].program, &programs[1].program}, {}, 1);
  const Span a = ranks[0]->timeline().spans[0], b = ranks[1]->timeline().spans[0];
  EXPECT_EQ(a.start, b.start);  // one origin for all ranks
  EXPECT_EQ(a.end, b.end);
  EXPECT_GE(a.start, std::max(a.ready, b.ready));
}

TEST(CpuRank, CycleOfWaitsIsADeadlockThatNamesBoth) {
  TinyProgram tiny;
  const Tensor x = tiny.tensor(2), y = tiny.tensor(2);
  tiny.op(filled(1), {writes(x)}, {.waits = {1}});
  tiny.op(filled(2), {writes(y)}, {.stream = StreamKind::data, .waits = {0}});
  try {
    run_ranks({&tiny.program}, {}, 1);
    FAIL() << "ran";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::run);
    const std::string message = error.what();
    EXPECT_NE(message.find("stream compute: op 0 fill (forward, embedding) waits for op 1 fill"), std::string::npos)
        << message;
    EXPECT_NE(message.find("stream data: op 1 fill (forward, embedding) waits for op 0 fill"), std::string::npos)
        << message;
  }
}

TEST(CpuRank, RefusesBytesOutsideBuffersAndArenas) {
  TinyProgram past_buffer;
  const Tensor x = past_buffer.tensor(2);
  past_buffer.op(filled(1), {{4, 8, x.buffer, Access::write}});
  EXPECT_THROW(CpuRank{past_buffer.program}, Error);
  TinyProgram past_arena;
  past_arena.tensor(2);
  past_arena.program.arena_bytes[static_cast<std::size_t>(Purpose::activations)] = 4;
  EXPECT_THROW(CpuRank{past_arena.program}, Error);
}

TEST(CpuRank, PurposesHaveTheirOwnMemory) {
  TinyProgram tiny;
  const Tensor parameter = tiny.tensor(2, DType::fp32, Purpose::parameters);
  const Tensor activation = tiny.tensor(2, DType::fp32, Purpose::activations);
  tiny.op(filled(1), {writes(parameter)});
  tiny.op(filled(2), {writes(activation)});
  const auto ranks = run_ranks({&tiny.program}, {}, 1);
  EXPECT_EQ(ranks[0]->data(parameter)[0], 1);
  EXPECT_EQ(ranks[0]->data(activation)[0], 2);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(ranks[0]->data(parameter)) % 64, 0u);
  EXPECT_THROW(ranks[0]->view<std::uint8_t>(parameter), Error);
}

/// x = 1; y = x + x; x freed; z = y + `late`; in the parameters arena, where nothing is poisoned.
float sum_reading(bool after_free, Poison poison, int steps) {
  TinyProgram tiny;
  const Tensor z = tiny.tensor(2, DType::fp32, Purpose::parameters);
  const Tensor x = tiny.tensor(2), y = tiny.tensor(2);
  tiny.op(filled(1), {writes(x)});
  tiny.op(shape_of(OpKind::add, {2}), {reads(x), reads(x), writes(y)});
  tiny.free(x);
  tiny.op(shape_of(OpKind::add, {2}), {reads(y), reads(after_free ? x : y), writes(z)});
  tiny.free(y);
  return run_ranks({&tiny.program}, {}, steps, poison)[0]->data(z)[0];
}

TEST(Poison, ShowsReadsAfterFree) {
  EXPECT_EQ(sum_reading(true, Poison::off, 1), 3) << "without poison the defect is silent";
  EXPECT_TRUE(std::isnan(sum_reading(true, Poison::on, 1)));
  EXPECT_EQ(sum_reading(false, Poison::on, 3), 4) << "a sound Program doesn't notice";
}

TEST(Poison, ShowsReadsOfUnwrittenBytes) {
  for (const Purpose purpose : {Purpose::activations, Purpose::communication}) {
    TinyProgram tiny;
    const Tensor z = tiny.tensor(2, DType::fp32, Purpose::parameters);
    const Tensor x = tiny.tensor(2, DType::fp32, purpose);
    tiny.op(filled(1, 1), {writes(x.flat_slice(0, 1))});
    tiny.op(shape_of(OpKind::add, {2}), {reads(x), reads(x), writes(z)});
    tiny.free(x);
    HostWork host;  // what lay in the range before the allocation doesn't count as written
    host.before_step = [&](CpuRank& rank, int) { std::fill_n(rank.data(x), 2, 9.0f); };
    const auto ranks = run_ranks({&tiny.program}, host, 2, Poison::on);
    EXPECT_EQ(ranks[0]->data(z)[0], 2);
    EXPECT_TRUE(std::isnan(ranks[0]->data(z)[1]));
  }
}

TEST(Poison, BuffersThatLiveForEverStartUnwrittenAndKeepTheirValues) {
  TinyProgram tiny;
  const Tensor z = tiny.tensor(2, DType::fp32, Purpose::parameters);
  const Tensor x = tiny.tensor(2);
  tiny.op(shape_of(OpKind::add, {2}), {reads(x), reads(x), writes(z)});
  tiny.op(filled(3, 2), {writes(x)});
  HostWork host;
  host.after_step = [&](CpuRank& rank, int step) {
    EXPECT_TRUE(step == 0 ? std::isnan(rank.data(z)[0]) : rank.data(z)[0] == 6) << "step " << step;
  };
  run_ranks({&tiny.program}, host, 2, Poison::on);
}

TEST(Poison, ReusedRangeIsUnwrittenAgain) {
  TinyProgram tiny;
  const Tensor z = tiny.tensor(2, DType::fp32, Purpose::parameters);
  const Tensor old = tiny.tensor(2);
  tiny.op(filled(5), {writes(old)});
  tiny.free(old);
  const Tensor fresh = tiny.tensor(2, DType::fp32, Purpose::activations, old.buffer);
  tiny.op(filled(1, 1), {writes(fresh.flat_slice(0, 1))});
  tiny.op(shape_of(OpKind::add, {2}), {reads(fresh), reads(fresh), writes(z)});
  tiny.free(fresh);
  EXPECT_EQ(run_ranks({&tiny.program}, {}, 1, Poison::off)[0]->data(z)[1], 10);
  EXPECT_TRUE(std::isnan(run_ranks({&tiny.program}, {}, 1, Poison::on)[0]->data(z)[1]));
}

}  // namespace
}  // namespace benchsuite::testing_cpu
