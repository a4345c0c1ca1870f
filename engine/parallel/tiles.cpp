#include "engine/parallel/tiles.h"

#include "engine/parallel/tensor_region.h"

namespace benchsuite {

Tensor piece_along_sequence(const Tensor& x, std::int64_t count, std::int64_t index) {
  const std::int64_t elements = div_exact(x.elements(), count);
  Tensor piece = x.flat_slice(index * elements, elements);
  piece.shape = {1, div_exact(x.shape[1], count), x.shape[2], x.shape[3]};
  return piece;
}

GatherInTiles::GatherInTiles(ParallelContext& context, const Tensor& x, std::uint32_t term, bool keeps_whole)
    : context_(context), own_(x) {
  const std::int64_t t = context.layout.tp;
  auto shape = x.shape;
  shape[1] *= t;
  whole_ = context.rec.allocate_in_parts(Purpose::communication, term, x.dtype, shape, narrow<std::uint32_t>(t));
  for (std::int64_t step = 1; step < t; ++step) shift_tensor(context, piece(step - 1), slot(owner(step)), 1);
  if (!keeps_whole) return;
  context.rec.record({.kind = OpKind::cast, .dtype = x.dtype, .out_dtype = x.dtype, .dims = {x.elements()}},
                     {reads(x), writes(slot(context.at.tp))});
}

Tensor GatherInTiles::slot(std::int64_t owner) const { return piece_along_sequence(whole_, context_.layout.tp, owner); }

std::int64_t GatherInTiles::owner(std::int64_t step) const {
  return (context_.at.tp - step + context_.layout.tp) % context_.layout.tp;
}

Tensor GatherInTiles::piece(std::int64_t step) const { return step == 0 ? own_ : slot(owner(step)); }

void GatherInTiles::release() { context_.rec.release(whole_); }

ScatterInTiles::ScatterInTiles(ParallelContext& context, const std::array<std::int64_t, 4>& tile, DType dtype,
                               std::uint32_t sent, std::uint32_t received, std::uint32_t result)
    : context_(context), shape_(tile), result_(result) {
  const auto t = narrow<std::uint32_t>(context.layout.tp);
  auto shape = tile;
  shape[1] *= t - 1;
  sent_ = context.rec.allocate_in_parts(Purpose::activations, sent, dtype, shape, t - 1);
  shape[1] += tile[1];
  received_ = context.rec.allocate_in_parts(Purpose::communication, received, dtype, shape, t);
}

std::int64_t ScatterInTiles::destination(std::int64_t step) const {
  return (context_.at.tp + step + 1) % context_.layout.tp;
}

Tensor ScatterInTiles::tile(std::int64_t step) const {
  const std::int64_t t = context_.layout.tp;
  return step == t - 1 ? piece_along_sequence(received_, t, context_.at.tp) : piece_along_sequence(sent_, t - 1, step);
}

void ScatterInTiles::send(std::int64_t step) {
  const std::int64_t t = context_.layout.tp, distance = step + 1;
  if (distance == t) return;
  const std::int64_t source = (context_.at.tp - distance + t) % t;
  shift_tensor(context_, tile(step), piece_along_sequence(received_, t, source), distance);
}

Tensor ScatterInTiles::finish() {
  Recorder& rec = context_.rec;
  const Tensor sum = rec.allocate(Purpose::communication, result_, received_.dtype, shape_);
  rec.record({.kind = OpKind::sum_pieces,
              .dtype = sum.dtype,
              .out_dtype = sum.dtype,
              .dims = {sum.elements(), context_.layout.tp}},
             {reads(received_), writes(sum)});
  rec.release(sent_);
  rec.release(received_);
  return sum;
}

}  // namespace benchsuite
