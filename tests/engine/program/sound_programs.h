// Small sound Programs that the verifier's tests break.
#pragma once

#include <memory>

#include "engine/program/verifier.h"
#include "tests/engine/program/program_builder.h"

namespace benchsuite {

/// A tensor-parallel layer on two streams of one of two ranks, with an all-gather behind compute and a reused range:
///
///   id  stream   op                                     waits
///   0   compute  gemm            x, w -> shard
///   1   tensor   all_gather      shard -> whole         0       needs the shard
///   2   compute  gelu            shard -> side                  runs beside the gather
///   3   compute  gemm            whole, w -> partial    1       needs the gathered tensor
///   4   tensor   reduce_scatter  partial -> reduced     3       needs the product
///   5   compute  fill            -> scratch             4       scratch takes the range of partial
///   6   compute  add             reduced, scratch, side -> gradient
struct LayerIds {
  BufferId x, w, shard, whole, side, partial, reduced, scratch, gradient;
};

inline Program tensor_layer(int rank, LayerIds* ids = nullptr) {
  const Group pair{GroupKind::tensor, {0, 1}};
  ProgramBuilder b(rank);
  b.at(3, 1);
  LayerIds n{};
  n.x = b.buffer(Purpose::inputs, 0, 64, "input");
  n.w = b.buffer(Purpose::parameters, 0, 64, "weight");
  n.gradient = b.buffer(Purpose::gradients, 0, 64, "weight gradient");
  n.shard = b.buffer(Purpose::activations, 0, 64, "shard");
  b.op(OpKind::gemm, StreamKind::compute, {b.reads(n.x), b.reads(n.w), b.writes(n.shard)});
  n.whole = b.buffer(Purpose::communication, 0, 128, "gathered");
  b.communicate(OpKind::all_gather, StreamKind::tensor, pair, 128, {b.reads(n.shard), b.writes(n.whole)}, {0});
  n.side = b.buffer(Purpose::activations, 64, 64, "gelu output");
  b.op(OpKind::gelu, StreamKind::compute, {b.reads(n.shard), b.writes(n.side)});
  n.partial = b.buffer(Purpose::activations, 128, 128, "partial sum");
  b.op(OpKind::gemm, StreamKind::compute, {b.reads(n.whole), b.reads(n.w), b.writes(n.partial)}, {1});
  b.free(n.shard);
  b.free(n.whole);
  n.reduced = b.buffer(Purpose::communication, 128, 64, "reduced");
  b.communicate(OpKind::reduce_scatter, StreamKind::tensor, pair, 128, {b.reads(n.partial), b.writes(n.reduced)}, {3});
  b.free(n.partial);
  n.scratch = b.buffer(Purpose::activations, 160, 64, "scratch");
  b.op(OpKind::fill, StreamKind::compute, {b.writes(n.scratch)}, {4});
  b.op(OpKind::add, StreamKind::compute,
       {b.reads(n.reduced), b.reads(n.scratch), b.reads(n.side), b.writes(n.gradient)});
  b.free(n.reduced);
  b.free(n.scratch);
  b.free(n.side);
  if (ids) *ids = n;
  return b.finish();
}

/// Stage `rank` of a pipeline of two; two micro-batches forward, then their gradients backward.
///
///   first:  gemm -> send (0, 1: micro-batch 0) gemm -> send (2, 3) receive -> add (4, 5) receive -> add (6, 7)
///   last:   receive -> gemm -> send, twice: (0, 1, 2) (3, 4, 5)
inline Program pipeline_stage(int rank) {
  const Group forward{GroupKind::pipeline_forward, {0, 1}};
  const Group backward{GroupKind::pipeline_backward, {1, 0}};
  ProgramBuilder b(rank);
  const BufferId w = b.buffer(Purpose::parameters, 0, 64, "weight");
  const BufferId gradient = b.buffer(Purpose::gradients, 0, 32, "gradient");
  if (rank == 0) {
    for (int i = 0; i < 2; ++i) {
      b.at(0, i);
      const BufferId y = b.buffer(Purpose::activations, 0, 32, "output");
      // The range of the first output is reused as soon as it has been sent.
      const OpId product = i == 0 ? b.op(OpKind::gemm, StreamKind::compute, {b.reads(w), b.writes(y)})
                                  : b.op(OpKind::gemm, StreamKind::compute, {b.reads(w), b.writes(y)}, {1});
      b.communicate(OpKind::send, StreamKind::pipeline_send_next, forward, 32, {b.reads(y)}, {product});
      b.free(y);
    }
    for (int i = 0; i < 2; ++i) {
      b.at(0, i);
      const BufferId dy = b.buffer(Purpose::communication, static_cast<std::uint64_t>(16 * i), 16, "output gradient");
      const OpId got = b.communicate(OpKind::receive, StreamKind::pipeline_receive_next, backward, 16, {b.writes(dy)});
      Operand half = b.writes(gradient);
      half.offset = static_cast<std::uint64_t>(16 * i);
      half.bytes = 16;
      b.op(OpKind::add, StreamKind::compute, {b.reads(dy), half}, {got});
      b.free(dy);
    }
    return b.finish();
  }
  for (int i = 0; i < 2; ++i) {
    b.at(1, i);
    const BufferId x = b.buffer(Purpose::communication, static_cast<std::uint64_t>(32 * i), 32, "stage input");
    const OpId got = b.communicate(OpKind::receive, StreamKind::pipeline_receive_previous, forward, 32, {b.writes(x)});
    const BufferId dx = b.buffer(Purpose::activations, static_cast<std::uint64_t>(16 * i), 16, "input gradient");
    const OpId product = b.op(OpKind::gemm, StreamKind::compute, {b.reads(x), b.reads(w), b.writes(dx)}, {got});
    b.communicate(OpKind::send, StreamKind::pipeline_send_previous, backward, 16, {b.reads(dx)}, {product});
    b.free(x);
    b.free(dx);
  }
  return b.finish();
}

/// Two ranks with collectives of two groups (tensor, data) on streams of their own.
inline Program two_groups(int rank) {
  const Group tensor{GroupKind::tensor, {0, 1}};
  const Group data{GroupKind::data, {0, 1}};
  ProgramBuilder b(rank);
  const BufferId g = b.buffer(Purpose::gradients, 0, 32, "gradient");
  const BufferId h = b.buffer(Purpose::gradients, 32, 64, "other gradient");
  const OpId fill = b.op(OpKind::fill, StreamKind::compute, {b.writes(g), b.writes(h)});
  b.communicate(OpKind::all_reduce, StreamKind::tensor, tensor, 32, {b.updates(g)}, {fill});
  const OpId second = b.communicate(OpKind::all_reduce, StreamKind::tensor, tensor, 64, {b.updates(h)});
  b.communicate(OpKind::all_reduce, StreamKind::data, data, 32, {b.updates(g)}, {second});
  return b.finish();
}

/// Both ranks of a world of two.
struct Pair {
  Program first, second;

  std::vector<Finding> verify() const {
    const std::vector<const Program*> programs{&first, &second};
    return benchsuite::verify(programs);
  }
};

inline Pair pair_of(Program (*make)(int)) { return {make(0), make(1)}; }
inline Pair layer_pair() { return {tensor_layer(0), tensor_layer(1)}; }

}  // namespace benchsuite
