// Timelines written by hand; every part is counted in the comment above it.
#include "suite/measure/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>

namespace benchsuite {
namespace {

/// Whose operations run on a stream.
GroupKind group_on(StreamKind stream) {
  switch (stream) {
    case StreamKind::compute:
    case StreamKind::tensor: return GroupKind::tensor;
    case StreamKind::data: return GroupKind::data;
    case StreamKind::parameters: return GroupKind::parameters;
    case StreamKind::embedding: return GroupKind::embedding;
    case StreamKind::global: return GroupKind::world;
    case StreamKind::pipeline_send_next:
    case StreamKind::pipeline_receive_previous: return GroupKind::pipeline_forward;
    case StreamKind::pipeline_send_previous:
    case StreamKind::pipeline_receive_next: return GroupKind::pipeline_backward;
  }
  return GroupKind::world;
}

struct Recording {
  Program program;
  Timeline timeline;

  Op& op(OpKind kind, StreamKind stream, Phase phase, Span span, std::int32_t micro_batch = -1,
         std::int16_t chunk = -1) {
    Op op;
    op.kind = kind;
    op.stream = stream;
    op.phase = phase;
    op.micro_batch = micro_batch;
    op.chunk = chunk;
    program.ops.push_back(op);
    timeline.spans.push_back(span);
    timeline.end = std::max(timeline.end, span.end);
    return program.ops.back();
  }
  void compute(Phase phase, Picoseconds start, Picoseconds end, std::int32_t micro_batch = -1, std::int16_t chunk = -1,
               OpKind kind = OpKind::gemm) {
    op(kind, StreamKind::compute, phase, {start, start, end}, micro_batch, chunk).shape = shape(kind, 0);
  }
  void transfer(OpKind kind, StreamKind stream, Phase phase, Span span, std::int64_t elements = 0, int members = 2,
                std::int32_t micro_batch = -1) {
    Op& added = op(kind, stream, phase, span, micro_batch);
    added.shape = shape(kind, elements);
    Group group{group_on(stream), std::vector<int>(static_cast<std::size_t>(members))};
    std::iota(group.ranks.begin(), group.ranks.end(), 0);
    added.group = static_cast<std::uint32_t>(program.groups.size());
    program.groups.push_back(group);
  }
  std::uint32_t shape(OpKind kind, std::int64_t elements) {
    OpShape shape;
    shape.kind = kind;
    shape.dtype = DType::bf16;
    shape.dims[0] = elements;
    program.shapes.push_back(shape);
    return static_cast<std::uint32_t>(program.shapes.size() - 1);
  }
};

Picoseconds part(const Breakdown& breakdown, Category category) {
  return breakdown.time[static_cast<std::size_t>(category)];
}

Picoseconds total(const Breakdown& breakdown) {
  return std::accumulate(breakdown.time.begin(), breakdown.time.end(), Picoseconds{0});
}

const KindTotal* kind(const RankMetrics& metrics, const std::string& name) {
  for (const KindTotal& total : metrics.communication) {
    if (total.kind == name) return &total;
  }
  return nullptr;
}

TEST(Metrics, ComputePhasesAndFills) {
  Recording r;
  r.compute(Phase::forward, 0, 3, -1, -1, OpKind::fill);  // zeroing gradients is optimizer work wherever it stands
  r.compute(Phase::forward, 3, 10);
  r.compute(Phase::recompute, 10, 15);
  r.compute(Phase::backward, 15, 30);
  r.compute(Phase::gradient_sync, 30, 32);
  r.compute(Phase::optimizer, 32, 40);
  const RankMetrics m = measure_rank(r.program, r.timeline, 50);
  EXPECT_EQ(part(m.breakdown, Category::forward), 7);
  EXPECT_EQ(part(m.breakdown, Category::recompute), 5);
  EXPECT_EQ(part(m.breakdown, Category::backward), 15);
  EXPECT_EQ(part(m.breakdown, Category::data), 2);  // copies around the replicas' collectives belong to them
  EXPECT_EQ(part(m.breakdown, Category::optimizer), 3 + 8);
  EXPECT_EQ(part(m.breakdown, Category::bubble), 10);  // up to the end of the step
  EXPECT_EQ(m.busy, 40);
}

TEST(Metrics, WaitingForTheHostsLaunchAlone) {
  // compute 0..10. Its successor could run at 10 but is launched at 14. The next waits for a gather: launched at 30, though
  // it could have gone at 24; its peers come at 33, it ends at 40; the op itself is launched at 45.
  Recording r;
  const auto wait_for = [&](OpId id) {
    Op& op = r.program.ops.back();
    op.first_wait = static_cast<std::uint32_t>(r.program.waits.size());
    op.wait_count = 1;
    r.program.waits.push_back(id);
  };
  r.compute(Phase::forward, 0, 10, 0, 0);
  r.op(OpKind::gemm, StreamKind::compute, Phase::forward, {14, 14, 24}, 0, 0).shape = r.shape(OpKind::gemm, 0);
  wait_for(0);
  r.transfer(OpKind::all_gather, StreamKind::tensor, Phase::forward, {30, 33, 40}, 1000);
  wait_for(1);
  r.op(OpKind::gemm, StreamKind::compute, Phase::forward, {45, 45, 50}, 0, 0).shape = r.shape(OpKind::gemm, 0);
  wait_for(2);
  const RankMetrics m = measure_rank(r.program, r.timeline, 60);
  EXPECT_EQ(m.passes.launches, (14 - 10) + (30 - 24) + (45 - 40)) << "not the peers' 30..33, nor what follows the passes";
  EXPECT_EQ(part(m.breakdown, Category::bubble), 4 + 9 + 5 + 10);
}

TEST(Metrics, ExposedHiddenAndWaiting) {
  // compute 0..10, 30..40. All-gather: arrives at 5, members complete at 12, ends at 34.
  // 10..12 waits (bubble, yet resident), 12..30 exposed, 30..34 hidden.
  Recording r;
  r.compute(Phase::forward, 0, 10);
  r.transfer(OpKind::all_gather, StreamKind::tensor, Phase::forward, {5, 12, 34}, 1000, 4);
  r.compute(Phase::forward, 30, 40);
  const RankMetrics m = measure_rank(r.program, r.timeline, 45);
  EXPECT_EQ(part(m.breakdown, Category::forward), 20);
  EXPECT_EQ(part(m.breakdown, Category::tensor), 18);
  EXPECT_EQ(part(m.breakdown, Category::bubble), 2 + 5);
  EXPECT_EQ(m.busy, 40);
  ASSERT_NE(kind(m, "tensor all_gather"), nullptr);
  EXPECT_EQ(kind(m, "tensor all_gather")->exposed, 18);
  EXPECT_EQ(kind(m, "tensor all_gather")->hidden, 4);
  EXPECT_EQ(kind(m, "tensor all_gather")->calls, 1);
  EXPECT_DOUBLE_EQ(kind(m, "tensor all_gather")->bytes, 1000 * 2 * 3.0 / 4);
}

TEST(Metrics, CategoriesTakeInstantsInOrder) {
  // No compute at all. data 0..100, pipeline 10..60, recomputed tensor 20..30, embedding 50..110, global 105..120.
  Recording r;
  r.transfer(OpKind::all_reduce, StreamKind::data, Phase::gradient_sync, {0, 0, 100});
  r.transfer(OpKind::send, StreamKind::pipeline_send_next, Phase::forward, {10, 10, 60});
  r.transfer(OpKind::all_gather, StreamKind::tensor, Phase::recompute, {20, 20, 30});
  r.transfer(OpKind::all_reduce, StreamKind::embedding, Phase::gradient_sync, {50, 50, 110});
  r.transfer(OpKind::all_reduce, StreamKind::global, Phase::optimizer, {105, 105, 120});
  const RankMetrics m = measure_rank(r.program, r.timeline, 120);
  EXPECT_EQ(part(m.breakdown, Category::tensor_recompute), 10);
  EXPECT_EQ(part(m.breakdown, Category::tensor), 0);
  EXPECT_EQ(part(m.breakdown, Category::pipeline), 40);   // 10..20, 30..60
  EXPECT_EQ(part(m.breakdown, Category::data), 50);       // 0..10, 60..100
  EXPECT_EQ(part(m.breakdown, Category::embedding), 10);  // 100..110
  EXPECT_EQ(part(m.breakdown, Category::global), 10);     // 110..120
  EXPECT_EQ(part(m.breakdown, Category::bubble), 0);
  EXPECT_EQ(kind(m, "tensor all_gather (recomputed)")->exposed, 10);
  EXPECT_EQ(kind(m, "pipeline send")->exposed, 40);
  EXPECT_EQ(kind(m, "pipeline send")->hidden, 10);  // behind the collective that comes first
  EXPECT_EQ(kind(m, "data all_reduce")->hidden, 50);
}

TEST(Metrics, ReceiveThatWaitsIsBubbleThatLooksBusy) {
  Recording r;
  r.transfer(OpKind::receive, StreamKind::pipeline_receive_previous, Phase::forward, {0, 70, 80}, 64);
  r.compute(Phase::forward, 80, 100);
  const RankMetrics m = measure_rank(r.program, r.timeline, 100);
  EXPECT_EQ(part(m.breakdown, Category::bubble), 70);
  EXPECT_EQ(part(m.breakdown, Category::pipeline), 10);
  EXPECT_EQ(m.busy, 100);
  EXPECT_EQ(kind(m, "pipeline receive")->bytes, 0);
}

TEST(Metrics, GroupsOfOneDontCommunicate) {
  Recording r;
  r.transfer(OpKind::all_reduce, StreamKind::tensor, Phase::forward, {0, 0, 0}, 8, 1);
  const RankMetrics m = measure_rank(r.program, r.timeline, 10);
  EXPECT_TRUE(m.communication.empty());
  EXPECT_EQ(m.busy, 0);
}

TEST(Metrics, RingBytes) {
  const auto bytes = [](OpKind kind) {
    OpShape shape;
    shape.kind = kind;
    shape.dtype = DType::fp32;
    shape.dims[0] = 800;
    return wire_bytes(shape, 8);
  };
  EXPECT_DOUBLE_EQ(bytes(OpKind::all_gather), 2800);  // 7/8 of 3200 bytes
  EXPECT_DOUBLE_EQ(bytes(OpKind::reduce_scatter), 2800);
  EXPECT_DOUBLE_EQ(bytes(OpKind::all_reduce), 5600);
  EXPECT_DOUBLE_EQ(bytes(OpKind::send), 3200);
  EXPECT_DOUBLE_EQ(bytes(OpKind::receive), 0);
}

TEST(Metrics, PeakInFlight) {
  // F0 F1 B0 F2 B1 B2: two at most, since B0 ends as F2 starts. Each pass is two ops.
  Recording r;
  Picoseconds now = 0;
  const auto pass = [&](Phase phase, int micro_batch, std::int16_t chunk) {
    r.compute(phase, now, now + 1, micro_batch, chunk);
    r.compute(phase, now + 1, now + 2, micro_batch, chunk);
    now += 2;
  };
  for (auto [phase, micro_batch] : {std::pair{Phase::forward, 0},
                                    {Phase::forward, 1},
                                    {Phase::backward, 0},
                                    {Phase::forward, 2},
                                    {Phase::backward, 1},
                                    {Phase::backward, 2}}) {
    pass(phase, micro_batch, 0);
  }
  EXPECT_EQ(measure_rank(r.program, r.timeline, now).peak_in_flight, 2);
  // Chunks of one micro-batch count each; recompute is part of neither.
  Recording chunks;
  std::swap(r, chunks);
  r = {};
  now = 0;
  pass(Phase::forward, 0, 0);
  pass(Phase::forward, 0, 1);
  pass(Phase::forward, 1, 0);
  pass(Phase::recompute, 0, 1);
  pass(Phase::backward, 0, 1);
  pass(Phase::backward, 0, 0);
  pass(Phase::backward, 1, 0);
  EXPECT_EQ(measure_rank(r.program, r.timeline, now).peak_in_flight, 3);
}

/// Any streams, any spans: parts must still add up.
Recording random_recording(unsigned seed, int ops) {
  std::mt19937 random(seed);
  Recording r;
  std::array<Picoseconds, kStreams> free{};
  for (int i = 0; i < ops; ++i) {
    const auto stream = static_cast<StreamKind>(random() % 3 == 0 ? 1 + random() % (kStreams - 1) : 0);
    Picoseconds& at = free[static_cast<std::size_t>(stream)];
    const Picoseconds ready = at + static_cast<Picoseconds>(random() % 5);
    const Picoseconds start = ready + static_cast<Picoseconds>(stream == StreamKind::compute ? 0 : random() % 20);
    at = start + static_cast<Picoseconds>(random() % 30);
    if (stream == StreamKind::compute) {
      r.compute(static_cast<Phase>(random() % 3), start, at, static_cast<int>(random() % 4));
    } else {
      r.transfer(OpKind::all_reduce, stream, static_cast<Phase>(random() % 3), {ready, start, at});
    }
  }
  return r;
}

TEST(Metrics, PartsAddUpAndAgreeWithARecountByInstant) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    const Recording r = random_recording(seed, 60);
    const Picoseconds step = r.timeline.end + seed;
    const RankMetrics m = measure_rank(r.program, r.timeline, step);
    ASSERT_EQ(total(m.breakdown), step);
    Breakdown recount;
    Picoseconds busy = 0;
    for (Picoseconds t = 0; t < step; ++t) {  // the rule, instant by instant
      int best = static_cast<int>(Category::bubble);
      bool resident = false;
      for (std::size_t i = 0; i < r.program.ops.size(); ++i) {
        const Op& op = r.program.ops[i];
        const Span& span = r.timeline.spans[i];
        resident = resident || (span.ready <= t && t < span.end);
        if (t < span.start || t >= span.end) continue;
        Category category{};
        switch (op.stream) {
          case StreamKind::compute:
            category = static_cast<Category>(op.phase);
            break;
          case StreamKind::tensor:
            category = op.phase == Phase::recompute ? Category::tensor_recompute : Category::tensor;
            break;
          case StreamKind::data:
          case StreamKind::parameters:
            category = Category::data;
            break;
          case StreamKind::embedding:
            category = Category::embedding;
            break;
          case StreamKind::global:
            category = Category::global;
            break;
          default:
            category = Category::pipeline;
        }
        best = std::min(best, static_cast<int>(category));
      }
      ++recount.time[static_cast<std::size_t>(best)];
      busy += resident;
    }
    ASSERT_EQ(m.breakdown.time, recount.time) << "seed " << seed;
    ASSERT_EQ(m.busy, busy) << "seed " << seed;
    Picoseconds exposed = 0, communication = 0;
    for (const KindTotal& kind : m.communication) exposed += kind.exposed;
    for (int c = static_cast<int>(Category::tensor); c <= static_cast<int>(Category::global); ++c) {
      communication += m.breakdown.time[static_cast<std::size_t>(c)];
    }
    ASSERT_EQ(exposed, communication);
    std::array<Picoseconds, kCategories> drawn{};
    Picoseconds at = 0;
    for (const GanttSpan& span : m.spans) {
      ASSERT_EQ(span.start, at);
      at = span.end;
      drawn[static_cast<std::size_t>(span.category)] += span.end - span.start;
    }
    ASSERT_EQ(at, step);
    ASSERT_EQ(drawn, m.breakdown.time);
  }
}

TEST(Metrics, MeansWeighRanksAlike) {
  // Role 0 has three ranks, role 1 one: forward 40 and 80 of a step of 100.
  Recording a, b;
  a.compute(Phase::forward, 0, 40);
  a.transfer(OpKind::send, StreamKind::pipeline_send_next, Phase::forward, {40, 40, 60}, 100);
  b.compute(Phase::recompute, 0, 80);
  b.program.rank = 3;
  a.program.ops.front().micro_batch = b.program.ops.front().micro_batch = 0;
  const World world{{&a.program, &b.program}, {0, 0, 0, 1}};
  const ReplayResult replayed{{a.timeline, b.timeline}, 100};
  VariantResult result;
  result.stages.resize(2);
  result.stages[1].memory.peak_bytes = 7;
  result.communication = {{"tensor all_gather (recomputed)", 0, 0, 0, 55, 0}, {"pipeline send", 0, 0, 0, 150, 0}};
  apply_metrics(world, replayed, result);
  EXPECT_EQ(result.step, 100);
  EXPECT_DOUBLE_EQ(result.iteration_s, 100e-12);
  EXPECT_EQ(result.ranks_in_breakdown, 4);
  EXPECT_EQ(part(result.mean_breakdown, Category::forward), 120);
  EXPECT_EQ(part(result.mean_breakdown, Category::pipeline), 60);
  EXPECT_EQ(part(result.mean_breakdown, Category::bubble), 3 * 40 + 20);
  EXPECT_DOUBLE_EQ(result.bubble_share, 0.35);
  EXPECT_DOUBLE_EQ(result.bubble_over_ideal, 140.0 / (3 * 40 + 80)) << "of the passes";
  EXPECT_DOUBLE_EQ(result.recompute_s, 20e-12);
  EXPECT_DOUBLE_EQ(result.gpu_busy, (3 * 0.6 + 0.8) / 4);
  EXPECT_EQ(result.ops, 3);
  EXPECT_EQ(result.stages[1].representative_rank, 3);
  EXPECT_DOUBLE_EQ(result.stages[1].gpu_busy, 0.8);
  EXPECT_EQ(result.stages[1].memory.peak_bytes, 7);
  // A kind that never ran keeps its place with nothing sent.
  ASSERT_EQ(result.communication.size(), 2u);
  EXPECT_EQ(result.communication[0].bytes, 0);
  EXPECT_EQ(result.communication[0].expected_bytes, 55);
  EXPECT_DOUBLE_EQ(result.communication[1].bytes, 150);
  EXPECT_EQ(result.communication[1].expected_bytes, 150);
  EXPECT_DOUBLE_EQ(result.communication[1].exposed_s, 15e-12);
  EXPECT_EQ(result.communication[1].calls, 1);  // three of four ranks send once
}

}  // namespace
}  // namespace benchsuite
