// The recorder's waits are what the verifier asks for: no more findings on what it records, and one for each wait taken
// away.
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/program/memory_summary.h"
#include "engine/program/recorder.h"
#include "engine/program/verifier.h"
#include "tests/engine/program/program_mutations.h"

namespace benchsuite {
namespace {

/// `micro_batches` passes of: product, gather on the tensor stream beside a gelu, product, reduction, sum into the
/// gradient.
Program record_passes(int rank, int micro_batches) {
  Recorder rec(rank, {"weight", "gradient", "activation", "gathered", "saved gelu output"});
  const std::uint32_t group = rec.add_group({GroupKind::tensor, {0, 1}});
  const auto local = [&](Purpose purpose, std::uint32_t term, std::int64_t n) {
    return rec.allocate(purpose, term, DType::fp32, {1, 1, 1, n});
  };
  const Tensor w = local(Purpose::parameters, 0, 64);
  const Tensor g = local(Purpose::gradients, 1, 64);
  const auto shape = [](OpKind kind, std::int64_t n) { return OpShape{.kind = kind, .dims = {n}}; };
  rec.record(shape(OpKind::fill, 64), {writes(g)});
  for (int i = 0; i < micro_batches; ++i) {
    rec.at() = {.phase = Phase::forward, .site = Site::mlp, .micro_batch = i, .layer = 0};
    const Tensor x = local(Purpose::activations, 2, 64);
    rec.record(shape(OpKind::gemm, 64), {reads(w), writes(x)});
    const Tensor all = local(Purpose::communication, 3, 128);
    rec.communicate(StreamKind::tensor, group, shape(OpKind::all_gather, 128), {reads(x), writes(all)});
    const Tensor side = local(Purpose::activations, 2, 64);
    rec.record(shape(OpKind::gelu, 64), {reads(x), writes(side)});
    rec.mark_saved(side, 4);
    rec.release(x);
    const Tensor partial = local(Purpose::activations, 2, 128);
    rec.record(shape(OpKind::gemm, 128), {reads(all), reads(w), writes(partial)});
    rec.release(all);
    const Tensor reduced = local(Purpose::communication, 3, 64);
    OpShape scatter = shape(OpKind::reduce_scatter, 128);
    scatter.reduction = Reduction::sum;
    rec.communicate(StreamKind::tensor, group, scatter, {reads(partial), writes(reduced)});
    rec.release(partial);
    rec.record(shape(OpKind::add, 64), {reads(side), reads(reduced), updates(g)});
    rec.release(side);
    rec.release(reduced);
  }
  return rec.finish();
}

TEST(VerifierRecorded, RecordedProgramsAreSound) {
  const Program a = record_passes(0, 4), b = record_passes(1, 4);
  const std::vector<const Program*> programs{&a, &b};
  EXPECT_EQ(to_string(verify(programs)), "");
  EXPECT_TRUE(races_by_brute_force(a).empty());
}

TEST(VerifierRecorded, EveryWaitThatMattersIsMissed) {
  int waits = 0, mattered = 0;
  for_each_dropped_wait(record_passes(0, 4), [&](const DroppedWait& dropped) {
    const std::vector<Finding> findings = verify_rank(dropped.program);
    const bool found =
        std::any_of(findings.begin(), findings.end(), [](const Finding& f) { return f.kind == Finding::Kind::race; });
    const bool matters = !races_by_brute_force(dropped.program).empty();
    EXPECT_EQ(found, matters) << "op " << dropped.op << " without its wait for op " << dropped.waited_for;
    ++waits;
    mattered += matters;
  });
  // Each pass has two collectives that need compute and two products or sums that need a collective.
  EXPECT_GE(mattered, 4 * 4);
  EXPECT_GE(waits, mattered);
}

TEST(VerifierRecorded, SavedBytes) {
  // The gelu output is what a pass saves: 64 floats, one pass at a time.
  EXPECT_EQ(summarise_memory(record_passes(0, 4)).saved_peak_bytes, 256u);
}

}  // namespace
}  // namespace benchsuite
