#include "engine/model/head.h"

#include "engine/parallel/tensor_region.h"

namespace benchsuite {

namespace {
constexpr LinearTerms kTerms{index_of(Term::gathered), index_of(Term::logits_16bit), index_of(Term::reduced),
                             index_of(Term::operand), index_of(Term::weight_gradient)};
constexpr std::size_t kOutputBuffers = 2;
}

Head::Head(ModelContext& context, Parameter& gamma, Parameter* beta, Parameter& words, const Tensor& loss)
    : context_(context), words_(words), loss_(loss), norm_(context, gamma, beta), projection_(context, words, kTerms, false) {}

/// Stack::framework_loss: the whole rows of logits on every tensor rank, cast, through log_softmax, its output kept; the place of
/// each row's largest is found for the accuracy (scaling, transformer/model/losses/cross_entropy.py); the 16-bit
/// logits are the stage's output and stay in a pipeline buffer until the second next micro-batch's take it: the last stage has
/// two, of which nothing empties one (scaling, core/nn/parallel_module/parallel_module.py, core/nn/pipeline_schedule/train.py).
/// Takes over `logits`.
void Head::whole_loss(Tensor logits, State& state) {
  Recorder& rec = context_.rec;
  if (context_.layout.tp > 1) logits = gather_logits(logits);
  rec.mark_saved(logits, index_of(Term::logits_16bit));
  outputs_.push_back(logits);
  if (outputs_.size() > kOutputBuffers) {
    rec.release(outputs_.front());
    outputs_.pop_front();
  }
  const Tensor wide = widened(logits);
  rec.at().site = Site::loss;
  state.softmax = fp32_logits(logits.shape);
  rec.record(rows_shape(OpKind::softmax, logits), {reads(wide), writes(state.softmax)});
  const Tensor best = row_values();
  rec.record(rows_shape(OpKind::ce_max, logits), {reads(wide), writes(best)});
  rec.release(best);
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
  if (++backwards_ == context_.layout.micro_batches()) {
    for (const Tensor& output : outputs_) rec.release(output);
    outputs_.clear();
  }
  return context_.layout.tp > 1 ? my_columns(dlogits) : dlogits;
}

Tensor Head::fp32_logits(const std::array<std::int64_t, 4>& shape) {
  return context_.rec.allocate(Purpose::activations, index_of(Term::logits), DType::fp32, shape);
}

/// A number for each token.
Tensor Head::row_values() {
  return context_.rec.allocate(Purpose::activations, index_of(Term::cross_entropy_rows), DType::fp32,
                               {1, 1, 1, context_.s * context_.b});
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

/// Every rank's columns of the logits, gathered and set side by side. A gather into a list of tensors goes through one flat
/// tensor, from which they are copied (torch ProcessGroupNCCL.cpp, allgather). Releases `mine`.
Tensor Head::gather_logits(const Tensor& mine) {
  Recorder& rec = context_.rec;
  const auto new_logits = [&](const std::array<std::int64_t, 4>& shape) {
    return rec.allocate(Purpose::activations, index_of(Term::logits_16bit), mine.dtype, shape);
  };
  std::array<std::int64_t, 4> shape = mine.shape;
  shape[3] *= context_.layout.tp;
  std::vector<Tensor> list;
  for (std::int64_t rank = 0; rank < context_.layout.tp; ++rank) list.push_back(new_logits(mine.shape));
  const Tensor flat = gather_pieces(context_, mine, shape, index_of(Term::logits_16bit));
  std::vector<Operand> copies{reads(flat)}, columns;
  for (const Tensor& piece : list) {
    copies.push_back(writes(piece));
    columns.push_back(reads(piece));
  }
  rec.record({.kind = OpKind::unpack, .dtype = mine.dtype, .out_dtype = mine.dtype, .dims = {flat.elements()}}, copies);
  rec.release(flat);
  const Tensor whole = new_logits(shape);
  columns.push_back(writes(whole));
  rec.record({.kind = OpKind::pack, .dtype = mine.dtype, .out_dtype = mine.dtype, .dims = {whole.elements()}}, columns);
  for (const Tensor& piece : list) rec.release(piece);
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
  state.norm = normed;
  rec.mark_saved(x, index_of(Term::final_input));
  if (recomputes()) {
    rec.release(statistics);
  } else {
    state.statistics = statistics;
    rec.mark_saved(statistics, index_of(Term::final_statistics));
  }
  rec.mark_saved(normed, index_of(Term::final_norm));

  rec.at().site = Site::head;
  Tensor logits = projection_.forward(normed);  // [s, b, V/t]
  if (context_.stack.framework_loss) return whole_loss(logits, state);
  if (context_.dtype != DType::fp32) {
    const Tensor wide = widened(logits);
    rec.release(logits);
    logits = wide;
  }

  rec.at().site = Site::loss;
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
  loss.scalars[0] = 1.0f / static_cast<float>(context_.s * context_.b * context_.layout.micro_batches());
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

bool Head::recomputes() const {
  return context_.stack.recomputes_head && context_.layout.recompute.granularity == RecomputeGranularity::full;
}

/// Of the head, a linear, only the input counts; its output is made and dropped.
void Head::recompute_logits(const State& state) {
  Recorder& rec = context_.rec;
  rec.at().phase = Phase::recompute;
  Tensor logits = projection_.forward(state.norm);
  if (context_.stack.framework_loss && context_.layout.tp > 1) logits = gather_logits(logits);
  rec.release(logits);
  rec.at().phase = Phase::backward;
}

void Head::recompute_norm(State& state) {
  Recorder& rec = context_.rec;
  rec.at().phase = Phase::recompute;
  const auto [normed, statistics] = norm_.forward(state.input, Term::final_norm, Term::final_statistics);
  rec.release(normed);
  state.statistics = statistics;
  rec.at().phase = Phase::backward;
}

Tensor Head::backward(State& state) {
  Recorder& rec = context_.rec;
  rec.at().site = Site::loss;
  const Tensor dlogits = context_.stack.framework_loss ? whole_loss_gradient(state) : loss_gradient(state);
  if (recomputes()) recompute_logits(state);
  const Tensor dnormed = projection_.backward(dlogits, state.norm);
  rec.release(dlogits);
  rec.release(state.norm);
  rec.at().site = Site::final_norm;
  if (recomputes()) recompute_norm(state);
  const Tensor dx = norm_.backward(dnormed, state.input, state.statistics);
  rec.release(dnormed);
  rec.release(state.input);
  rec.release(state.statistics);
  state = {};
  return dx;
}

}  // namespace benchsuite
