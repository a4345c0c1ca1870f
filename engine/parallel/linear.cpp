#include "engine/parallel/linear.h"

#include "engine/parallel/tensor_region.h"
#include "engine/parallel/tiles.h"

namespace benchsuite {

namespace {

Tensor new_activation(ParallelContext& context, const Tensor& like, std::int64_t width, std::uint32_t term) {
  return context.rec.allocate(Purpose::activations, term, like.dtype, {1, like.shape[1], like.shape[2], width});
}

std::int64_t rows_of(const Tensor& x) { return x.shape[1] * x.shape[2]; }

/// Type of a product's operands. Transformer Engine's fp8 covers the layers' linears, not the head.
DType product_dtype(const ParallelContext& context, DType stored) {
  return context.layout.precision == DType::fp8 && context.rec.at().site != Site::head ? DType::fp8 : stored;
}

/// y[rows, out] = x[rows, in] W[out, in]^T
void product_forward(ParallelContext& context, const Tensor& x, const Parameter& weight, const Tensor& y) {
  context.rec.record({.kind = OpKind::gemm,
                      .dtype = product_dtype(context, x.dtype),
                      .out_dtype = y.dtype,
                      .transpose_b = true,
                      .dims = {rows_of(x), weight.rows, weight.columns, 1}},
                     {reads(x), reads(weight.value), writes(y)});
}

/// dx[rows, in] = dy[rows, out] W[out, in]; of `parts` linears side by side, the one of out / parts.
void product_dgrad(ParallelContext& context, const Tensor& dy, const Parameter& weight, const Tensor& dx,
                   std::int64_t parts = 1) {
  context.rec.record({.kind = OpKind::gemm,
                      .dtype = product_dtype(context, dy.dtype),
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
                .dtype = product_dtype(context, dy.dtype),
                .out_dtype = weight.gradient.dtype,
                .transpose_a = true,
                .accumulate = true,
                .dims = {weight.rows, weight.columns, rows_of(dy), 1}};
  if (context.stack.fused_gradient_accumulation) {
    rec.record(shape, {reads(dy), reads(x), updates(weight.gradient)});
    return;
  }
  const Tensor own = rec.allocate(Purpose::activations, term, dy.dtype, {1, 1, weight.rows, weight.columns});
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
    const Tensor y = context_.rec.allocate(Purpose::activations, terms_.output, x.dtype,
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
  const Tensor full = context_.keeps_gathered() ? x : enter_region(context_, x, terms_.gathered);
  settle_backward(context_);
  const Tensor dx = parts_ == 1 ? whole_dgrad(dy) : dgrad_of_parts(dy);
  settle_backward(context_);
  product_wgrad(context_, dy, full, weight_, terms_.weight_gradient);
  release_entered(context_, full, x);
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

Tensor RowParallelLinear::forward(const Tensor& x) {
  if (tiles_) {
    const auto launch = context_.rec.launch_together();
    const std::int64_t t = context_.layout.tp;
    ScatterInTiles scatter(context_, {1, div_exact(x.shape[1], t), x.shape[2], weight_.rows}, x.dtype, terms_.output,
                           terms_.gathered, terms_.reduced);
    for (std::int64_t step = 0; step < t; ++step) {
      product_forward(context_, piece_along_sequence(x, t, scatter.destination(step)), weight_, scatter.tile(step));
      scatter.send(step);
    }
    return scatter.finish();
  }
  const Tensor partial = new_activation(context_, x, weight_.rows, terms_.output);
  product_forward(context_, x, weight_, partial);
  return leave_region(context_, partial, terms_.reduced);
}

Tensor RowParallelLinear::backward(const Tensor& dy, const Tensor& x) {
  if (tiles_) {
    auto launch = context_.rec.launch_together();
    const std::int64_t t = context_.layout.tp;
    GatherInTiles gather(context_, dy, terms_.gathered, true);
    const Tensor dx = new_activation(context_, x, weight_.columns, terms_.output);
    for (std::int64_t step = 0; step < t; ++step) {
      product_dgrad(context_, gather.piece(step), weight_, piece_along_sequence(dx, t, gather.owner(step)));
    }
    launch.end();
    product_wgrad(context_, gather.whole(), x, weight_, terms_.weight_gradient);
    gather.release();
    return dx;
  }
  const Tensor full = enter_region(context_, dy, terms_.gathered);
  const Tensor dx = new_activation(context_, full, weight_.columns, terms_.output);
  product_dgrad(context_, full, weight_, dx);
  product_wgrad(context_, full, x, weight_, terms_.weight_gradient);
  release_entered(context_, full, dy);
  return dx;
}

}  // namespace benchsuite
