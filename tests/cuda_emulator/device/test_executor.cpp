// How a step runs: one allocation, no wait of the host inside, one graph from the second step on, spans and ranges by op.
#include <gmock/gmock.h>

#include <map>
#include <set>

#include "engine/core/error.h"
#include "tests/cuda_emulator/device/one_rank.h"

namespace benchsuite::testing_cuda {
namespace {

using cuda_emulator::Counts;
using cuda_emulator::Pace;
using ::testing::HasSubstr;

TEST(Executor, MemoryIsOneAllocationWithTheArenasAtThePlannedSizes) {
  OneRank one(small_gpt(DType::bf16));
  // The pool, and the scratch of connecting, which is gone again.
  EXPECT_EQ(cuda_emulator::counts().allocations, 2);
  std::size_t planned = 0;
  const std::byte* end = nullptr;
  for (int i = 0; i < kPurposes; ++i) {
    const auto arena = one.rank().arena(static_cast<Purpose>(i));
    EXPECT_EQ(arena.size(), one.program().arena_bytes[static_cast<std::size_t>(i)]);
    EXPECT_GE(arena.data(), end);
    end = arena.data() + arena.size();
    planned += arena.size();
  }
  EXPECT_GE(cuda_emulator::allocated_bytes(), planned);
}

TEST(Executor, TheHostWaitsForNothingInsideAStep) {
  OneRank one(small_gpt(DType::fp32), {.pace = Pace::late});
  for (int step = 0; step < 4; ++step) {
    const Counts before = cuda_emulator::counts();
    // From the second step on inputs are all that the host sends, from pinned memory.
    one.start(step);
    const Counts queued = cuda_emulator::counts();
    EXPECT_EQ(queued.waits, before.waits) << "step " << step;
    EXPECT_EQ(queued.kernels, before.kernels) << "step " << step;
    one.finish();
    EXPECT_EQ(cuda_emulator::counts().waits, queued.waits + 1);
  }
}

TEST(Executor, ASteadyStepIsOneGraph) {
  OneRank one(small_gpt(DType::fp32));
  Counts before = cuda_emulator::counts();
  std::int64_t kernels = 0;
  for (int step = 0; step < 4; ++step) {
    one.start(step);
    one.finish();
    const Counts after = cuda_emulator::counts();
    EXPECT_EQ(after.graph_launches - before.graph_launches, step == 0 ? 0 : 1) << step;
    if (step == 0) kernels = after.kernels - before.kernels;
    EXPECT_EQ(after.kernels - before.kernels, kernels) << "the same kernels, launched or replayed";
    if (step >= 2) {
      EXPECT_EQ(after.launches, before.launches) << "nothing but the graph is launched";
    }
    before = after;
  }
}

TEST(Executor, WithoutGraphsTheBitsAreTheSame) {
  for (const DType precision : {DType::fp32, DType::bf16}) {
    const CpuTrainingResult launched = train_emulated(small_gpt(precision), {}, 3, {.graph = false});
    EXPECT_EQ(cuda_emulator::counts().graph_launches, 0);
    const CpuTrainingResult replayed = train_emulated(small_gpt(precision));
    EXPECT_EQ(cuda_emulator::counts().graph_launches, 2);
    expect_same_bits(launched, replayed);
  }
}

TEST(Executor, EveryProductIsSearchedOncePerShape) {
  const TrainConfig config = small_gpt(DType::bf16);
  OneRank one(config);
  const int searches = one.algorithms().searches;
  EXPECT_EQ(static_cast<std::size_t>(searches), one.algorithms().algorithms.size());
  const cuda::CudaRank again(one.program(), one.algorithms(), {.gemm_workspace = kGemmWorkspace});
  EXPECT_EQ(one.algorithms().searches, searches);
}

class Spans : public ::testing::TestWithParam<bool> {};

TEST_P(Spans, FollowTheOrderOfTheProgram) {
  OneRank one(small_gpt(DType::fp32), {}, {.graph = GetParam(), .spans = true});
  for (int step = 0; step < 3; ++step) {
    one.start(step);
    one.finish();
    const Timeline& timeline = one.rank().timeline();
    const Program& program = one.program();
    ASSERT_EQ(timeline.spans.size(), program.ops.size());
    std::map<StreamKind, Picoseconds> stream_end;
    for (OpId id = 0; id < program.ops.size(); ++id) {
      const Op& op = program.ops[id];
      const Span& span = timeline.spans[id];
      EXPECT_LE(0, span.start);
      EXPECT_LE(span.start, span.end);
      EXPECT_LE(span.end, timeline.end);
      // A millisecond in fp32 has steps of 60 ps: of times of a second, 60 ns.
      EXPECT_GE(span.start + 200'000, stream_end[op.stream]);
      for (const OpId wait : program.waits_of(op)) EXPECT_GE(span.start + 200'000, timeline.spans[wait].end);
      stream_end[op.stream] = span.end;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(GraphOrNot, Spans, ::testing::Bool());

TEST(Executor, RangesAreNamedAsSpansInATrace) {
  OneRank one(small_gpt(DType::fp32));
  std::map<std::uint64_t, std::string> seen;
  cuda_emulator::observe([&](const cuda_emulator::Operation& operation, bool begins) {
    if (begins && !operation.range.empty()) seen[operation.payload] = operation.range;
  });
  one.start(0);
  one.finish();
  cuda_emulator::observe(nullptr);
  ASSERT_EQ(seen.size(), one.program().ops.size());
  for (const auto& [id, name] : seen) EXPECT_EQ(name, name_of(one.program().ops[id].kind));
}

TEST(Executor, HostWritesReachTheDeviceAndResultsTheHost) {
  OneRank one(small_gpt(DType::fp32));
  one.start(0);
  one.finish();
  const float first = one.loss();
  const float uniform = std::log(128.0f);  // over the vocabulary of 64, padded to 128
  EXPECT_NEAR(first, uniform, 0.1f) << "small parameters at the start";
  EXPECT_NE(first, uniform);
  // Parameters come back changed by the step, and can be set to something else.
  const Program& program = one.program();
  for (BufferId id = 0; id < program.buffers.size(); ++id) {
    if (program.buffers[id].purpose != Purpose::parameters) continue;
    const auto values = one.rank().bytes(Operand{0, program.buffers[id].bytes, id, Access::write});
    std::fill(values.begin(), values.end(), std::byte{0});
  }
  one.start(1);
  one.finish();
  EXPECT_FLOAT_EQ(one.loss(), uniform) << "all logits are 0";
}

/// Messages of what `body` throws.
template <class Body>
std::string thrown_by(Body body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing";
}

TEST(Executor, OperandsOutsideTheirBuffersAreRefused) {
  cuda_emulator::reset();
  const RecordedStep recorded = record_step(small_gpt(DType::fp32), 0);
  cuda::GemmAlgorithms algorithms;
  const auto build = [&](const Program& program) {
    return thrown_by([&] { const cuda::CudaRank rank(program, algorithms, {.gemm_workspace = kGemmWorkspace}); });
  };
  Program broken = recorded.program;
  broken.operands[5].bytes = broken.buffers[broken.operands[5].buffer].bytes + 4;
  EXPECT_THAT(build(broken), HasSubstr("of buffer"));
  broken = recorded.program;
  broken.operands[5].buffer = kNone;
  EXPECT_THAT(build(broken), HasSubstr("has no buffer"));
  broken = recorded.program;
  broken.buffers[broken.operands[5].buffer].offset = std::uint64_t{1} << 40;
  EXPECT_THAT(build(broken), HasSubstr("arena of"));
  EXPECT_EQ(cuda_emulator::allocated_bytes(), 0u);
}

TEST(Executor, OperandsOfAnotherSizeThanTheShapeSaysAreRefused) {
  TrainConfig config = small_gpt(DType::fp32);
  config.layout.tp = 2, config.layout.sequence_parallel = true;
  cuda_emulator::reset({.devices = 2});
  const RecordedStep recorded[] = {record_step(config, 0), record_step(config, 1)};
  for (const OpKind kind : {OpKind::gemm, OpKind::attention_scores, OpKind::attention_context, OpKind::all_gather}) {
    const auto run = [&] {
      Program broken[] = {recorded[0].program, recorded[1].program};
      for (Program& program : broken) {
        const auto op = std::find_if(program.ops.begin(), program.ops.end(), [&](const Op& each) { return each.kind == kind; });
        program.operands[op->first_operand].bytes -= 4;
      }
      cuda::run_ranks({&broken[0], &broken[1]}, {}, 1, {.gemm_workspace = kGemmWorkspace});
    };
    EXPECT_THAT(thrown_by(run), HasSubstr(std::string(name_of(kind)) + " operand 0 has"));
  }
}

TEST(Executor, ViewsOutsideTheirBuffersAreRefused) {
  OneRank one(small_gpt(DType::fp32));
  EXPECT_THROW(one.rank().bytes(Operand{0, 4, kNone, Access::read}), Error);
  EXPECT_THROW(one.rank().bytes(Operand{0, std::uint64_t{1} << 40, 0, Access::read}), Error);
}

/// Drops one wait of one op.
Program without_wait(const Program& program, std::size_t which) {
  Program out = program;
  std::vector<OpId> waits;
  std::size_t at = 0;
  for (Op& op : out.ops) {
    const auto old = program.waits_of(op);
    const auto first = static_cast<std::uint32_t>(waits.size());
    for (const OpId wait : old) {
      if (at++ != which) waits.push_back(wait);
    }
    op.first_wait = first;
    op.wait_count = static_cast<std::uint16_t>(waits.size() - first);
  }
  out.waits = waits;
  return out;
}

TEST(Executor, AMissingWaitShowsInSomeInterleaving) {
  // Of two tensor-parallel ranks, drop waits between streams one at a time: the gradient norms of two steps under a few seeds must
  // tell most of them; the rest are waits that others imply.
  TrainConfig config = small_gpt(DType::fp32);
  config.layout.tp = 2, config.layout.sequence_parallel = true, config.layout.global_batch = 1, config.model.layers = 1;
  std::vector<RecordedStep> recorded;
  for (int rank = 0; rank < 2; ++rank) recorded.push_back(record_step(config, rank));
  const auto outcome = [&](std::size_t dropped, std::uint64_t seed) {
    std::vector<Program> programs;
    for (const RecordedStep& step : recorded) programs.push_back(without_wait(step.program, dropped));
    cuda_emulator::reset({.devices = 2, .seed = seed, .pace = Pace::late});
    std::vector<float> losses;
    HostWorkOn<RankMemory> host;
    host.init = [&](RankMemory& rank) {
      initialise_parameters(rank, recorded[static_cast<std::size_t>(rank.rank())].bindings, config.model.layers, 1234);
    };
    const RankGrid grid(config.layout);
    host.before_step = [&](RankMemory& rank, int step) {
      fill_inputs(rank, recorded[static_cast<std::size_t>(rank.rank())].bindings, config, grid.coordinates(rank.rank()), step, 1234,
                  [&](std::int64_t sample, std::span<std::int32_t> tokens) {
                    for (std::size_t i = 0; i < tokens.size(); ++i) {
                      tokens[i] = synthetic_token(1234, sample, static_cast<std::int64_t>(i), config.model.vocab);
                    }
                  },
                  {});
    };
    host.after_step = [&](RankMemory& rank, int) {
      if (rank.rank() == 0) losses.push_back(rank.view<float>(recorded[0].bindings.gradient_norm)[0]);
    };
    cuda::run_ranks({&programs[0], &programs[1]}, host, 2, {.gemm_workspace = kGemmWorkspace});
    return losses;
  };
  const std::vector<float> sound = outcome(~std::size_t{0}, 1);
  EXPECT_EQ(outcome(~std::size_t{0}, 5), sound);
  std::size_t waits = 0, seen = 0;
  for (std::size_t wait = 0; wait < recorded[0].program.waits.size(); ++wait) {
    ++waits;
    bool differs = false;
    for (std::uint64_t seed = 1; seed <= 3 && !differs; ++seed) differs = outcome(wait, seed) != sound;
    seen += differs;
  }
  EXPECT_GT(waits, 4u);
  EXPECT_GE(2 * seen, waits) << seen << " of " << waits << " dropped waits showed";
}

}  // namespace
}  // namespace benchsuite::testing_cuda
