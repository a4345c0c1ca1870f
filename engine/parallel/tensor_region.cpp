#include "engine/parallel/tensor_region.h"

namespace benchsuite {

namespace {

/// A collective of a recompute pass that the fault injection leaves out keeps its buffers but moves nothing: they hold zeros.
bool dropped(const ParallelContext& context) {
  return context.faults.drop_recomputed_collectives && context.rec.at().phase == Phase::recompute;
}

void collective(ParallelContext& context, OpKind kind, const Tensor& in, const Tensor& out) {
  const std::int64_t whole = std::max(in.elements(), out.elements());
  if (dropped(context)) {
    context.rec.record({.kind = OpKind::fill, .dtype = out.dtype, .out_dtype = out.dtype, .dims = {out.elements()}},
                       {writes(out)});
    return;
  }
  context.rec.communicate(StreamKind::tensor, context.tensor_group,
                          {.kind = kind,
                           .dtype = in.dtype,
                           .out_dtype = out.dtype,
                           .reduction = kind == OpKind::all_gather ? Reduction::none : Reduction::sum,
                           .dims = {whole}},
                          {reads(in), writes(out)});
}

/// [s/t, b, h] -> [s, b, h]
Tensor gather_sequence(ParallelContext& context, const Tensor& x, Purpose purpose, std::uint32_t term) {
  auto shape = x.shape;
  shape[1] *= context.layout.tp;
  const Tensor full = context.rec.allocate(purpose, term, x.dtype, shape);
  collective(context, OpKind::all_gather, x, full);
  return full;
}

}  // namespace

Tensor enter_region(ParallelContext& context, const Tensor& x, std::uint32_t term) {
  return context.sequence_parallel() ? gather_sequence(context, x, Purpose::communication, term) : x;
}

Tensor linear_input(ParallelContext& context, const Tensor& x, std::uint32_t term) {
  if (!context.keeps_gathered()) return x;
  const Tensor full = gather_sequence(context, x, Purpose::activations, term);
  context.rec.release(x);
  return full;
}

Tensor leave_region(ParallelContext& context, const Tensor& x, std::uint32_t term) {
  if (!context.sequence_parallel()) {
    if (!dropped(context)) all_reduce_tensor(context, x, Reduction::sum);
    return x;
  }
  auto shape = x.shape;
  shape[1] = div_exact(shape[1], context.layout.tp);
  const Tensor shard = context.rec.allocate(Purpose::communication, term, x.dtype, shape);
  collective(context, OpKind::reduce_scatter, x, shard);
  context.rec.release(x);
  return shard;
}

void release_entered(ParallelContext& context, const Tensor& entered, const Tensor& x) {
  if (entered.buffer != x.buffer) context.rec.release(entered);
}

void settle_backward(ParallelContext& context) {
  if (!context.stack.overlaps_tensor_backward) context.rec.order(StreamKind::tensor, StreamKind::compute);
}

Tensor piece_of(const ParallelContext& context, const Tensor& x) {
  const std::int64_t count = div_exact(x.elements(), context.layout.tp);
  return x.flat_slice(context.at.tp * count, count);
}

Tensor gather_pieces(ParallelContext& context, const Tensor& piece, const std::array<std::int64_t, 4>& shape,
                     std::uint32_t term) {
  const Tensor whole = context.rec.allocate(Purpose::communication, term, piece.dtype, shape);
  collective(context, OpKind::all_gather, piece, whole);
  context.rec.release(piece);
  return whole;
}

void shift_tensor(ParallelContext& context, const Tensor& x, const Tensor& to, std::int64_t distance) {
  if (dropped(context)) {
    context.rec.record({.kind = OpKind::fill, .dtype = to.dtype, .out_dtype = to.dtype, .dims = {to.elements()}},
                       {writes(to)});
    return;
  }
  context.rec.communicate(
      StreamKind::tensor, context.tensor_group,
      {.kind = OpKind::shift, .dtype = x.dtype, .out_dtype = to.dtype, .dims = {x.elements(), distance}},
      {reads(x), writes(to)});
}

void all_reduce_tensor(ParallelContext& context, const Tensor& x, Reduction reduction) {
  if (context.layout.tp == 1) return;
  context.rec.communicate(StreamKind::tensor, context.tensor_group,
                          {.kind = OpKind::all_reduce,
                           .dtype = x.dtype,
                           .out_dtype = x.dtype,
                           .reduction = reduction,
                           .dims = {x.elements()}},
                          {updates(x)});
}

}  // namespace benchsuite
