#include "engine/parallel/linear.h"

#include "engine/parallel/operand_cast.h"
#include "engine/parallel/tensor_region.h"
#include "engine/parallel/tiles.h"

namespace benchsuite {

namespace {

Tensor new_activation(ParallelContext& context, const Tensor& like, std::int64_t width, std::uint32_t term) {
  return context.rec.allocate(Purpose::activations, term, context.dtype, {1, like.shape[1], like.shape[2], width});
}

std::int64_t rows_of(const Tensor& x) { return x.shape[1] * x.shape[2]; }

/// y[rows, out] = x[rows, in] W[out, in]^T
void product_forward(ParallelContext& context, const Tensor& x, const Parameter& weight, const Tensor& y) {
  context.rec.record({.kind = OpKind::gemm,
                      .dtype = x.dtype,
                      .out_dtype = y.dtype,
                      .transpose_b = true,
                      .dims = {rows_of(x), weight.rows, weight.columns, 1}},
                     {reads(x), reads(weight.value), writes(y)});
}

/// dx[rows, in] = dy[rows, out] W[out, in]; of `parts` linears side by side, the one of out / parts.
void product_dgrad(ParallelContext& context, const Tensor& dy, const Parameter& weight, const Tensor& dx,
                   std::int64_t parts = 1) {
  context.rec.record({.kind = OpKind::gemm,
                      .dtype = dy.dtype,
                      .out_dtype = dx.dtype,
                      .dims = {rows_of(dy), weight.columns, div_exact(weight.rows, parts), 1}},
                     {reads(dy), reads(weight.value), writes(dx)});
}

/// dW[out, in] += dy[rows, out]^T x[rows, in]. Not fused, the product comes in the precision of dy and is added by a kernel of its
/// own, as the framework's accumulation hook does.
void product_wgrad(ParallelContext& context, const Tensor& dy, const Tensor& x, const Parameter& weight,
                   std::uint32_t term) {
  Recorder& rec = context.rec;
  OpShape shape{.kind = OpKind::gemm,
                .dtype = dy.dtype,
                .out_dtype = weight.gradient.dtype,
                .transpose_a = true,
                .accumulate = true,
                .dims = {weight.rows, weight.columns, rows_of(dy), 1}};
  if (context.stack.fused_gradient_accumulation) {
    rec.record(shape, {reads(dy), reads(x), updates(weight.gradient)});
    return;
  }
  const Tensor own = rec.allocate(Purpose::activations, term, context.dtype, {1, 1, weight.rows, weight.columns});
  shape.out_dtype = own.dtype;
  shape.accumulate = false;
  rec.record(shape, {reads(dy), reads(x), writes(own)});
  rec.record({.kind = OpKind::accumulate,
              .dtype = own.dtype,
              .out_dtype = weight.gradient.dtype,
              .eager = context.stack.casts_added_gradients,
              .dims = {own.elements()}},
             {reads(own), updates(weight.gradient)});
  rec.release(own);
}

}  // namespace

bool runs_in_tiles(const ParallelContext& context) {
  return context.stack.overlaps_tensor_gemms && context.sequence_parallel();
}

Tensor ColumnParallelLinear::forward(const Tensor& x) {
  if (tiles_) {
    const auto launch = context_.rec.launch_together();
    const std::int64_t t = context_.layout.tp;
    GatherInTiles gather(context_, x, terms_.gathered, false);
    const Tensor y = context_.rec.allocate(Purpose::activations, terms_.output, context_.dtype,
                                           {1, x.shape[1] * t, x.shape[2], weight_.rows});
    for (std::int64_t step = 0; step < t; ++step) {
      product_forward(context_, gather.piece(step), weight_, piece_along_sequence(y, t, gather.owner(step)));
    }
    gather.release();
    return y;
  }
  const Tensor full = context_.keeps_gathered() ? x : enter_region(context_, x, terms_.gathered);
  const Tensor y = new_activation(context_, full, weight_.rows, terms_.output);
  product_forward(context_, full, weight_, y);
  release_entered(context_, full, x);
  return y;
}

Tensor ColumnParallelLinear::backward(const Tensor& dy, const Tensor& x) {
  auto launch = context_.rec.launch_together(operand_type(context_) != dy.dtype);
  const Operand8 gradient = cast_both_ways(context_, dy, terms_.operand);
  const Tensor full = context_.keeps_gathered() ? x : enter_region(context_, x, terms_.gathered);
  settle_backward(context_);
  if (context_.sequence_parallel()) launch.end();
  const Tensor dx = parts_ == 1 ? whole_dgrad(gradient.rows) : dgrad_of_parts(gradient.rows);
  settle_backward(context_);
  launch.end();
  const auto together = context_.rec.launch_together(operand_type(context_) != dy.dtype);
  const Tensor input = transposed_operand(context_, full, terms_.operand);
  product_wgrad(context_, gradient.transposed, input, weight_, terms_.weight_gradient);
  release_entered(context_, input, full);
  release_entered(context_, full, x);
  release_operand(context_, gradient, dy);
  return dx;
}

Tensor ColumnParallelLinear::whole_dgrad(const Tensor& dy) {
  const Tensor dx = new_activation(context_, dy, weight_.columns, terms_.output);
  product_dgrad(context_, dy, weight_, dx);
  return leave_region(context_, dx, terms_.reduced);
}

/// Without sequence parallelism every part's linear reduces the gradient of its input itself; with it they share the
/// input's gather, so their sum is scattered.
Tensor ColumnParallelLinear::dgrad_of_parts(const Tensor& dy) {
  Tensor sum;
  for (std::int64_t part = 0; part < parts_; ++part) {
    Tensor dx = new_activation(context_, dy, weight_.columns, terms_.output);
    product_dgrad(context_, dy, weight_, dx, parts_);
    if (!context_.sequence_parallel()) {
      dx = leave_region(context_, dx, terms_.reduced);
      settle_backward(context_);
    }
    if (part == 0) {
      sum = dx;
      continue;
    }
    context_.rec.record({.kind = OpKind::accumulate, .dtype = dx.dtype, .out_dtype = sum.dtype, .dims = {dx.elements()}},
                        {reads(dx), updates(sum)});
    context_.rec.release(dx);
  }
  return context_.sequence_parallel() ? leave_region(context_, sum, terms_.reduced) : sum;
}

RowParallelLinear::Forward RowParallelLinear::forward(const Tensor& x) {
  const auto launch = context_.rec.launch_together(tiles_ || operand_type(context_) != x.dtype);
  // Under sequence parallelism the transposed copy is made in the backward pass.
  const bool now = !context_.sequence_parallel();
  const Operand8 both = now ? cast_both_ways(context_, x, terms_.operand) : Operand8{};
  const Tensor operand = now ? both.rows : cast_operand(context_, x, terms_.operand);
  Forward result{{}, now ? both.transposed : operand};
  if (tiles_) {
    const std::int64_t t = context_.layout.tp;
    ScatterInTiles scatter(context_, {1, div_exact(x.shape[1], t), x.shape[2], weight_.rows}, context_.dtype, terms_.output,
                           terms_.gathered, terms_.reduced);
    for (std::int64_t step = 0; step < t; ++step) {
      product_forward(context_, piece_along_sequence(operand, t, scatter.destination(step)), weight_, scatter.tile(step));
      scatter.send(step);
    }
    result.output = scatter.finish();
    return result;
  }
  const Tensor partial = new_activation(context_, x, weight_.rows, terms_.output);
  product_forward(context_, operand, weight_, partial);
  if (operand.buffer != result.kept.buffer) context_.rec.release(operand);
  result.output = leave_region(context_, partial, terms_.reduced);
  return result;
}

Tensor RowParallelLinear::backward(const Tensor& dy, const Tensor& kept) {
  return context_.sequence_parallel() ? gathered_backward(dy, kept) : local_backward(dy, kept);
}

Tensor RowParallelLinear::local_backward(const Tensor& dy, const Tensor& kept) {
  auto launch = context_.rec.launch_together(operand_type(context_) != dy.dtype);
  const Operand8 gradient = cast_both_ways(context_, dy, terms_.operand);
  const Tensor dx = new_activation(context_, dy, weight_.columns, terms_.output);
  product_dgrad(context_, gradient.rows, weight_, dx);
  launch.end();
  product_wgrad(context_, gradient.transposed, kept, weight_, terms_.weight_gradient);
  release_operand(context_, gradient, dy);
  return dx;
}

Tensor RowParallelLinear::gathered_backward(const Tensor& dy, const Tensor& kept) {
  auto launch = context_.rec.launch_together(tiles_ || operand_type(context_) != dy.dtype);
  const Tensor mine = cast_operand(context_, dy, terms_.operand);
  Tensor dx, full;
  if (tiles_) {
    const std::int64_t t = context_.layout.tp;
    const GatherInTiles gather(context_, mine, terms_.gathered, true);
    dx = new_activation(context_, kept, weight_.columns, terms_.output);
    for (std::int64_t step = 0; step < t; ++step) {
      product_dgrad(context_, gather.piece(step), weight_, piece_along_sequence(dx, t, gather.owner(step)));
    }
    full = gather.whole();
  } else {
    full = enter_region(context_, mine, terms_.gathered);
    launch.end();
    dx = new_activation(context_, full, weight_.columns, terms_.output);
    product_dgrad(context_, full, weight_, dx);
  }
  launch.end();
  const auto together = context_.rec.launch_together(operand_type(context_) != dy.dtype);
  const Tensor gradient = transposed_operand(context_, full, terms_.operand);
  const Tensor input = transposed_operand(context_, kept, terms_.operand);
  product_wgrad(context_, gradient, input, weight_, terms_.weight_gradient);
  release_entered(context_, input, kept);
  release_entered(context_, gradient, full);
  context_.rec.release(full);
  release_entered(context_, mine, dy);
  return dx;
}

}  // namespace benchsuite
