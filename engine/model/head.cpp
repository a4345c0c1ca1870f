#include "engine/model/head.h"

#include "engine/parallel/tensor_region.h"

namespace benchsuite {

namespace {
constexpr LinearTerms kTerms{index_of(Term::gathered), index_of(Term::logits_16bit), index_of(Term::reduced),
                             index_of(Term::weight_gradient)};
}

Head::Head(ModelContext& context, Parameter& gamma, Parameter* beta, Parameter& words, const Tensor& loss)
    : context_(context), words_(words), loss_(loss), norm_(context, gamma, beta), projection_(context, words, kTerms, false) {}

bool Head::gathers_logits() const { return context_.stack.gathers_logits && context_.layout.tp > 1; }

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
  if (gathers_logits()) logits = gather_logits(logits);
  const std::int64_t tokens = context_.s * context_.b, columns = logits.shape[3];
  if (context_.dtype != DType::fp32) {
    const Tensor wide =
        rec.allocate(Purpose::activations, index_of(Term::logits), DType::fp32, {1, context_.s, context_.b, columns});
    rec.record({.kind = OpKind::cast, .dtype = logits.dtype, .out_dtype = DType::fp32, .dims = {logits.elements()}},
               {reads(logits), writes(wide)});
    rec.release(logits);
    logits = wide;
  }

  rec.at().site = Site::loss;
  const auto row_values = [&] {
    return rec.allocate(Purpose::activations, index_of(Term::cross_entropy_rows), DType::fp32, {1, 1, 1, tokens});
  };
  const auto shape = [&](OpKind kind) {
    return OpShape{.kind = kind, .dtype = DType::fp32, .out_dtype = DType::fp32, .dims = {tokens, columns}};
  };
  const Tensor row_max = row_values();
  const auto complete = [&](const Tensor& rows, Reduction reduction) {
    if (!gathers_logits()) all_reduce_tensor(context_, rows, reduction);
  };
  rec.record(shape(OpKind::ce_max), {reads(logits), writes(row_max)});
  complete(row_max, Reduction::max);
  const Tensor predicted = row_values(), sum_exp = row_values();
  OpShape sum = shape(OpKind::ce_sum);
  sum.dims[2] = gathers_logits() ? 0 : words_.first_row;
  sum.eager = !context_.stack.fused_cross_entropy;
  rec.record(sum, {updates(logits), reads(row_max), reads(context_.current_inputs().labels), writes(predicted),
                   writes(sum_exp)});
  rec.release(row_max);
  complete(predicted, Reduction::sum);
  complete(sum_exp, Reduction::sum);
  OpShape loss = shape(OpKind::ce_loss);
  loss.scalars[0] = 1.0f / static_cast<float>(tokens * context_.layout.micro_batches());
  rec.record(loss, {updates(logits), reads(predicted), reads(sum_exp), updates(loss_)});
  rec.release(predicted);
  rec.release(sum_exp);
  state.softmax = logits;
  rec.mark_saved(logits, index_of(Term::logits));
}

Tensor Head::backward(State& state) {
  Recorder& rec = context_.rec;
  rec.at().site = Site::loss;
  const std::int64_t tokens = context_.s * context_.b;
  // Mean over tokens, micro-batches and replicas at once: gradients are summed from here on.
  const auto samples = static_cast<float>(tokens * context_.layout.micro_batches() * context_.layout.dp);
  rec.record({.kind = OpKind::ce_backward,
              .dtype = DType::fp32,
              .out_dtype = DType::fp32,
              .dims = {tokens, state.softmax.shape[3], gathers_logits() ? 0 : words_.first_row},
              .scalars = {1.0f / samples}},
             {updates(state.softmax), reads(context_.current_inputs().labels)});
  rec.at().site = Site::head;
  Tensor dlogits = state.softmax;
  if (context_.dtype != DType::fp32) {
    dlogits = rec.allocate(Purpose::activations, index_of(Term::logits_16bit), context_.dtype, state.softmax.shape);
    rec.record({.kind = OpKind::cast,
                .dtype = DType::fp32,
                .out_dtype = context_.dtype,
                .dims = {dlogits.elements()}},
               {reads(state.softmax), writes(dlogits)});
    rec.release(state.softmax);
  }
  if (gathers_logits()) dlogits = my_columns(dlogits);
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
