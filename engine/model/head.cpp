#include "engine/model/head.h"

#include "engine/parallel/tensor_region.h"

namespace benchsuite {

namespace {
constexpr LinearTerms kTerms{index_of(Term::gathered), index_of(Term::logits_16bit), index_of(Term::reduced),
                             index_of(Term::weight_gradient)};
}

Head::Head(ModelContext& context, Parameter& gamma, Parameter* beta, Parameter& words, const Tensor& loss)
    : context_(context), words_(words), loss_(loss), norm_(context, gamma, beta), projection_(context, words, kTerms, false) {}

/// Stack::framework_loss: the whole rows of logits on every tensor rank, cast, through log_softmax, its output kept; the 16-bit
/// logits are the stage's output and stay until the backward pass, in one of two pipeline buffers, of which the other holds
/// the micro-batch's before (scaling, core/nn/pipeline_schedule/train.py). Takes over `logits`.
void Head::whole_loss(Tensor logits, State& state) {
  Recorder& rec = context_.rec;
  if (context_.layout.tp > 1) logits = gather_logits(logits);
  state.output = logits;
  rec.mark_saved(logits, index_of(Term::logits_16bit));
  if (context_.layout.micro_batches() > 1) {
    state.other_output = rec.allocate(Purpose::activations, index_of(Term::logits_16bit), logits.dtype, logits.shape);
    rec.mark_saved(state.other_output, index_of(Term::logits_16bit));
  }
  const Tensor wide = widened(logits);
  rec.at().site = Site::loss;
  state.softmax = fp32_logits(logits.shape);
  rec.record(rows_shape(OpKind::softmax, logits), {reads(wide), writes(state.softmax)});
  rec.release(wide);
  rec.mark_saved(state.softmax, index_of(Term::logits));
}

/// The loss's own gradient is one number a row among zeros; log_softmax has another. Releases what the forward kept.
Tensor Head::whole_loss_gradient(State& state) {
  Recorder& rec = context_.rec;
  const Tensor zeros = fp32_logits(state.softmax.shape), wide = fp32_logits(state.softmax.shape);
  rec.record({.kind = OpKind::fill, .dtype = DType::fp32, .out_dtype = DType::fp32, .dims = {zeros.elements()}},
             {writes(zeros)});
  rec.record(rows_shape(OpKind::softmax_backward, state.softmax), {reads(zeros), reads(state.softmax), writes(wide)});
  rec.release(zeros);
  rec.release(state.softmax);
  rec.at().site = Site::head;
  const Tensor dlogits = narrowed(wide);
  rec.release(state.output);
  if (state.other_output.valid()) rec.release(state.other_output);
  return context_.layout.tp > 1 ? my_columns(dlogits) : dlogits;
}

Tensor Head::fp32_logits(const std::array<std::int64_t, 4>& shape) {
  return context_.rec.allocate(Purpose::activations, index_of(Term::logits), DType::fp32, shape);
}

OpShape Head::rows_shape(OpKind kind, const Tensor& logits) const {
  return {.kind = kind,
          .dtype = DType::fp32,
          .out_dtype = DType::fp32,
          .dims = {context_.s * context_.b, logits.shape[3]}};
}

/// A copy in fp32.
Tensor Head::widened(const Tensor& logits) {
  const Tensor wide = fp32_logits(logits.shape);
  context_.rec.record({.kind = OpKind::cast, .dtype = logits.dtype, .out_dtype = DType::fp32, .dims = {logits.elements()}},
                      {reads(logits), writes(wide)});
  return wide;
}

/// In the type of the activations. Releases `wide`.
Tensor Head::narrowed(const Tensor& wide) {
  Recorder& rec = context_.rec;
  const Tensor narrow = rec.allocate(Purpose::activations, index_of(Term::logits_16bit), context_.dtype, wide.shape);
  rec.record({.kind = OpKind::cast, .dtype = DType::fp32, .out_dtype = context_.dtype, .dims = {narrow.elements()}},
             {reads(wide), writes(narrow)});
  rec.release(wide);
  return narrow;
}

/// Every rank's columns of the logits, gathered and set side by side. Releases `mine`.
Tensor Head::gather_logits(const Tensor& mine) {
  Recorder& rec = context_.rec;
  std::array<std::int64_t, 4> shape = mine.shape;
  shape[3] *= context_.layout.tp;
  const Tensor pieces = gather_pieces(context_, mine, shape, index_of(Term::logits_16bit));
  const Tensor whole = rec.allocate(Purpose::activations, index_of(Term::logits_16bit), mine.dtype, shape);
  rec.record({.kind = OpKind::pack, .dtype = mine.dtype, .out_dtype = mine.dtype, .dims = {whole.elements()}},
             {reads(pieces), writes(whole)});
  rec.release(pieces);
  return whole;
}

/// A copy of this rank's columns. Releases `whole`.
Tensor Head::my_columns(const Tensor& whole) {
  Recorder& rec = context_.rec;
  std::array<std::int64_t, 4> shape = whole.shape;
  shape[3] = div_exact(shape[3], context_.layout.tp);
  const Tensor mine = rec.allocate(Purpose::activations, index_of(Term::logits_16bit), whole.dtype, shape);
  rec.record({.kind = OpKind::pack, .dtype = whole.dtype, .out_dtype = whole.dtype, .dims = {mine.elements()}},
             {reads(whole), writes(mine)});
  rec.release(whole);
  return mine;
}

void Head::forward(const Tensor& x, State& state) {
  Recorder& rec = context_.rec;
  rec.at().site = Site::final_norm;
  const auto [normed, statistics] = norm_.forward(x, Term::final_norm, Term::final_statistics);
  state.input = x;
  state.statistics = statistics;
  state.norm = normed;
  rec.mark_saved(x, index_of(Term::final_input));
  rec.mark_saved(statistics, index_of(Term::final_statistics));
  rec.mark_saved(normed, index_of(Term::final_norm));

  rec.at().site = Site::head;
  Tensor logits = projection_.forward(normed);  // [s, b, V/t]
  if (context_.stack.framework_loss) return whole_loss(logits, state);
  const std::int64_t tokens = context_.s * context_.b;
  if (context_.dtype != DType::fp32) {
    const Tensor wide = widened(logits);
    rec.release(logits);
    logits = wide;
  }

  rec.at().site = Site::loss;
  const auto row_values = [&] {
    return rec.allocate(Purpose::activations, index_of(Term::cross_entropy_rows), DType::fp32, {1, 1, 1, tokens});
  };
  const Tensor row_max = row_values();
  rec.record(rows_shape(OpKind::ce_max, logits), {reads(logits), writes(row_max)});
  all_reduce_tensor(context_, row_max, Reduction::max);
  const Tensor predicted = row_values(), sum_exp = row_values();
  OpShape sum = rows_shape(OpKind::ce_sum, logits);
  sum.dims[2] = words_.first_row;
  sum.eager = !context_.stack.fused_cross_entropy;
  rec.record(sum, {updates(logits), reads(row_max), reads(context_.current_inputs().labels), writes(predicted),
                   writes(sum_exp)});
  rec.release(row_max);
  all_reduce_tensor(context_, predicted, Reduction::sum);
  all_reduce_tensor(context_, sum_exp, Reduction::sum);
  OpShape loss = rows_shape(OpKind::ce_loss, logits);
  loss.scalars[0] = 1.0f / static_cast<float>(tokens * context_.layout.micro_batches());
  rec.record(loss, {updates(logits), reads(predicted), reads(sum_exp), updates(loss_)});
  rec.release(predicted);
  rec.release(sum_exp);
  state.softmax = logits;
  rec.mark_saved(logits, index_of(Term::logits));
}

Tensor Head::loss_gradient(State& state) {
  Recorder& rec = context_.rec;
  const std::int64_t tokens = context_.s * context_.b;
  // Mean over tokens, micro-batches and replicas at once: gradients are summed from here on.
  const auto samples = static_cast<float>(tokens * context_.layout.micro_batches() * context_.layout.replicas());
  rec.record({.kind = OpKind::ce_backward,
              .dtype = DType::fp32,
              .out_dtype = DType::fp32,
              .dims = {tokens, context_.v_local, words_.first_row},
              .scalars = {1.0f / samples}},
             {updates(state.softmax), reads(context_.current_inputs().labels)});
  rec.at().site = Site::head;
  return context_.dtype == DType::fp32 ? state.softmax : narrowed(state.softmax);
}

Tensor Head::backward(State& state) {
  Recorder& rec = context_.rec;
  rec.at().site = Site::loss;
  const Tensor dlogits = context_.stack.framework_loss ? whole_loss_gradient(state) : loss_gradient(state);
  const Tensor dnormed = projection_.backward(dlogits, state.norm);
  rec.release(dlogits);
  rec.release(state.norm);
  rec.at().site = Site::final_norm;
  const Tensor dx = norm_.backward(dnormed, state.input, state.statistics);
  rec.release(dnormed);
  rec.release(state.input);
  rec.release(state.statistics);
  state = {};
  return dx;
}

}  // namespace benchsuite
