#include "engine/program/recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace benchsuite {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::uint32_t kTerm = 0;

class RecorderTest : public testing::Test {
 protected:
  RecorderTest() : group(rec.add_group({GroupKind::tensor, {0, 1}})) {}

  Tensor make(Purpose purpose = Purpose::activations) {
    return rec.allocate(purpose, kTerm, DType::fp32, {1, 1, 1, 64});
  }
  static OpShape compute(OpKind kind = OpKind::cast) {
    return {.kind = kind, .dtype = DType::fp32, .out_dtype = DType::fp32, .dims = {64}};
  }
  OpId write(const Tensor& y) { return rec.record(compute(OpKind::fill), {writes(y)}); }
  OpId copy(const Tensor& x, const Tensor& y) { return rec.record(compute(), {reads(x), writes(y)}); }
  OpId all_reduce(const Tensor& x) {
    return rec.communicate(StreamKind::tensor, group, compute(OpKind::all_reduce), {updates(x)});
  }
  OpId send(const Tensor& x) {
    return rec.communicate(StreamKind::pipeline_send_next, group, compute(OpKind::send), {reads(x)});
  }
  std::vector<OpId> waits(const Program& program, OpId id) {
    const auto span = program.waits_of(program.ops[id]);
    return {span.begin(), span.end()};
  }

  Recorder rec{0, {"term"}};
  std::uint32_t group;
};

TEST_F(RecorderTest, AConsumerOnAnotherStreamWaitsForTheWriterAndOnlyOnce) {
  const Tensor x = make(), y = make(), z = make();
  const OpId produced = write(x);
  const OpId reduced = all_reduce(x);
  const OpId first = copy(x, y), second = copy(x, z);
  for (const Tensor& t : {x, y, z}) rec.release(t);
  const Program program = rec.finish();
  EXPECT_THAT(waits(program, produced), IsEmpty());
  EXPECT_THAT(waits(program, reduced), ElementsAre(produced));
  EXPECT_THAT(waits(program, first), ElementsAre(reduced));
  EXPECT_THAT(waits(program, second), IsEmpty()) << "the stream is already ordered after the all-reduce";
}

TEST_F(RecorderTest, AWriterWaitsForReadersOnOtherStreams) {
  const Tensor x = make();
  write(x);
  const OpId sent = send(x);
  const OpId overwritten = write(x);
  rec.release(x);
  EXPECT_THAT(waits(rec.finish(), overwritten), ElementsAre(sent));
}

TEST_F(RecorderTest, AReusedRangeIsOrderedAfterItsLastUses) {
  const Tensor x = make();
  write(x);
  const OpId sent = send(x);
  rec.release(x);
  const Tensor y = make();
  const OpId reused = write(y);
  rec.release(y);
  const Program program = rec.finish();
  ASSERT_EQ(program.buffers[x.buffer].offset, program.buffers[y.buffer].offset);
  EXPECT_THAT(waits(program, reused), ElementsAre(sent));
}

TEST_F(RecorderTest, CommunicationIsIssuedAfterTheComputeRecordedBeforeIt) {
  const Tensor x = make(), y = make();
  write(x);
  const OpId unrelated = write(y);
  const OpId reduced = all_reduce(x);
  rec.release(x);
  rec.release(y);
  EXPECT_THAT(waits(rec.finish(), reduced), ElementsAre(unrelated));
}

TEST_F(RecorderTest, OrderMakesTheNextOpWaitForAStream) {
  const Tensor x = make(), y = make();
  write(x);
  const OpId sent = send(x);
  rec.order(StreamKind::pipeline_send_next, StreamKind::compute);
  const OpId after = write(y);
  rec.release(x);
  rec.release(y);
  EXPECT_THAT(waits(rec.finish(), after), ElementsAre(sent));
}

// Waits are derived for each part: who uses one does not wait for the other, who uses the whole waits for both.
TEST_F(RecorderTest, PartsOfABufferAreWaitedForByThemselves) {
  const Tensor x = make(), z = make();
  const Tensor pair = rec.allocate_in_parts(Purpose::activations, kTerm, DType::fp32, {1, 1, 1, 128}, 2);
  const Tensor first = pair.flat_slice(0, 64), second = pair.flat_slice(64, 64);
  const OpId a = write(first), b = write(second);
  const OpId reduced = all_reduce(second);
  const OpId of_first = copy(first, x);
  const OpId of_second = copy(second, z);
  const OpId rewritten = rec.record(compute(OpKind::fill), {writes(pair)});
  const OpId sent = send(first);
  rec.release(pair);
  const Tensor reused = rec.allocate(Purpose::activations, kTerm, DType::fp32, {1, 1, 1, 128});
  const OpId after = write(reused);
  for (const Tensor& t : {x, z, reused}) rec.release(t);
  const Program program = rec.finish();
  EXPECT_THAT(waits(program, b), IsEmpty());
  EXPECT_THAT(waits(program, reduced), ElementsAre(b)) << "not only the last op of compute before it";
  EXPECT_THAT(waits(program, of_first), IsEmpty()) << "the all-reduce is of the other part";
  EXPECT_THAT(waits(program, of_second), ElementsAre(reduced));
  EXPECT_THAT(waits(program, sent), ElementsAre(rewritten));
  EXPECT_EQ(program.buffers.back().offset, program.buffers[pair.buffer].offset);
  EXPECT_THAT(waits(program, after), ElementsAre(sent)) << "a use of one part is a use of the range";
  EXPECT_LT(a, b);
}

TEST_F(RecorderTest, OpsOfOneLaunchJoinItsFirst) {
  const Tensor x = make();
  std::vector<OpId> joined;
  write(x);
  {
    const auto outer = rec.launch_together();
    write(x);
    {
      const auto inner = rec.launch_together();
      joined.push_back(write(x));
    }
    joined.push_back(all_reduce(x));
  }
  {
    const auto none = rec.launch_together(false);
    write(x);
  }
  auto next = rec.launch_together();
  write(x);
  joined.push_back(write(x));
  next.end();
  write(x);
  rec.release(x);
  const Program program = rec.finish();
  std::vector<OpId> found;
  for (OpId id = 0; id < program.ops.size(); ++id) {
    if (program.ops[id].joins_launch) found.push_back(id);
  }
  EXPECT_EQ(found, joined);
}

TEST_F(RecorderTest, EqualShapesAreOneAndSequencesCountPerGroup) {
  const Tensor x = make();
  write(x);
  const OpId a = all_reduce(x), b = all_reduce(x);
  rec.release(x);
  const Program program = rec.finish();
  EXPECT_EQ(program.ops[a].shape, program.ops[b].shape);
  EXPECT_EQ(program.shapes.size(), 2u);
  EXPECT_EQ(program.ops[a].group_sequence, 0u);
  EXPECT_EQ(program.ops[b].group_sequence, 1u);
}

TEST_F(RecorderTest, ManyShapesStayDistinct) {
  const Tensor x = make();
  for (std::int64_t n = 0; n < 5000; ++n) {
    OpShape shape = compute(OpKind::fill);
    shape.dims[0] = n;
    rec.record(shape, {writes(x)});
  }
  rec.release(x);
  const Program program = rec.finish();
  ASSERT_EQ(program.shapes.size(), 5000u);
  for (OpId id = 0; id < 5000; ++id) ASSERT_EQ(program.shape_of(program.ops[id]).dims[0], id);
}

TEST_F(RecorderTest, RefusesLeaksAndDoubleReleases) {
  const Tensor x = make();
  write(x);
  rec.release(x);
  EXPECT_THROW(rec.release(x), Error);
  make();
  EXPECT_THROW(rec.finish(), Error);
}

TEST_F(RecorderTest, PermanentBuffersNeedNoRelease) {
  make(Purpose::parameters);
  const Program program = rec.finish();
  EXPECT_EQ(program.buffers[0].free_at, kNone);
  EXPECT_EQ(program.arena_bytes[static_cast<int>(Purpose::parameters)], 256u);
}

TEST_F(RecorderTest, SavedBuffersTakeTheNameTheyAreKeptUnder) {
  Recorder named{0, {"output", "kept"}};
  const Tensor x = named.allocate(Purpose::activations, 0, DType::fp32, {1, 1, 1, 8});
  named.record(compute(OpKind::fill), {writes(x)});
  named.mark_saved(x, 1);
  EXPECT_THROW(named.mark_saved(x, 1), Error);
  named.release(x);
  const Program program = named.finish();
  EXPECT_EQ(program.buffers[0].term, 1u);
  EXPECT_EQ(program.buffers[0].saved_at, 1u);
}

}  // namespace
}  // namespace benchsuite
