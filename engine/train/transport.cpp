#include "engine/train/transport.h"

#include "engine/parallel/tensor_region.h"

namespace benchsuite {

Transport::Transport(ModelContext& context, const ScheduleTimes& times)
    : context_(context),
      times_(times),
      overlapped_(context.layout.schedule == ScheduleKind::interleaved ? context.stack.overlaps_pipeline_interleaved
                                                                       : context.stack.overlaps_pipeline),
      sends_block_(!overlapped_ && context.layout.schedule != ScheduleKind::interleaved),
      scatters_(context.stack.scatters_pipeline_activations && context.layout.tp > 1 && !context.sequence_parallel()),
      host_waits_(host_waits_of(context.stack)) {}

bool Transport::needs_input(const Step& step) const {
  if (step.kind == Step::Kind::forward) return !(context_.first_stage() && step.chunk == 0);
  return !(context_.last_stage() && step.chunk == context_.layout.vpp - 1);
}

namespace {

OpContext context_of(const Step& step) {
  return {.phase = step.kind == Step::Kind::forward ? Phase::forward : Phase::backward,
          .site = Site::pipeline,
          .micro_batch = step.micro_batch,
          .layer = -1,
          .chunk = static_cast<std::int16_t>(step.chunk)};
}

OpShape message(OpKind kind, const Tensor& tensor) {
  return {.kind = kind, .dtype = tensor.dtype, .out_dtype = tensor.dtype, .dims = {tensor.elements()}};
}

}  // namespace

void Transport::post_receive(const Step& step) {
  CHECK(!received_) << "a received tensor was not taken";
  received_ = Tensor{};
  if (!needs_input(step)) return;
  const OpContext before = context_.rec.at();
  context_.rec.at() = context_of(step);
  const bool forward = step.kind == Step::Kind::forward;
  const Tensor tensor = context_.rec.allocate(
      Purpose::communication, index_of(forward ? Term::received_activation : Term::received_gradient), context_.dtype,
      scatters_ ? std::array<std::int64_t, 4>{1, 1, 1, div_exact(context_.s * context_.b * context_.h, context_.layout.tp)}
                : whole_shape());
  context_.rec.communicate(forward ? StreamKind::pipeline_receive_previous : StreamKind::pipeline_receive_next,
                           forward ? context_.from_previous : context_.from_next, message(OpKind::receive, tensor),
                           {writes(tensor)});
  context_.rec.at() = before;
  received_ = tensor;
  exchanged_ = true;
}

bool Transport::host_waits_before(const Step& step, const Tensor& received) const {
  const bool forward = step.kind == Step::Kind::forward;
  const bool ends_stages = (context_.first_stage() && step.chunk == 0) ||
                           (context_.last_stage() && step.chunk == context_.layout.vpp - 1);
  if (host_waits_.inputs && forward && ends_stages) return true;
  if (host_waits_.pieces && scatters_ && received.valid()) return true;
  if (host_waits_.objects && forward && received.valid()) return true;
  if (!host_waits_.exchanges || overlapped_ || !exchanged_) return false;
  // An interleaved pair's tensors are exchanged together behind its backward pass.
  const bool inside_pair = context_.layout.schedule == ScheduleKind::interleaved && !forward && index_ > 0 &&
                           times_.steps(context_.at.pp)[index_ - 1].kind == Step::Kind::forward;
  return !inside_pair;
}

Tensor Transport::take(const Step& step) {
  CHECK(received_) << "no receive was posted for this step";
  const Tensor tensor = *received_;
  received_.reset();
  if (host_waits_before(step, tensor)) {
    exchanged_ = false;
    context_.rec.wait_on_host(scatters_ && tensor.valid() ? StreamKind::tensor : StreamKind::compute);
  }
  if (!tensor.valid()) return tensor;
  const bool backward = step.kind == Step::Kind::backward;
  if (!scatters_) {
    if (backward) context_.rec.order(StreamKind::pipeline_receive_next, StreamKind::compute);
    return tensor;
  }
  context_.rec.at() = context_of(step);
  const Tensor whole = gather_pieces(context_, tensor, whole_shape(), index_of(Term::gathered));
  if (backward) context_.rec.order(StreamKind::tensor, StreamKind::compute);
  return whole;
}

/// When the receive of the result of `step` is posted at the latest, in schedule time.
std::int64_t Transport::taken_at(const Step& step) const {
  const ScheduleTimes::Consumer consumer = times_.consumer_of(context_.at.pp, step);
  const std::size_t index = times_.index_of(consumer.rank, consumer.step);
  if (index == 0) return 0;  // posted before the first step
  const StepTime& before = times_.at(consumer.rank, index - 1);
  return overlapped_ ? before.start : before.end;
}

void Transport::send(const Step& step, const Tensor& result) {
  if (step.kind == Step::Kind::backward) {
    if (const auto kept = outputs_.find({step.chunk, step.micro_batch}); kept != outputs_.end()) {
      context_.rec.release(kept->second);
      outputs_.erase(kept);
    }
  }
  if (times_.consumer_of(context_.at.pp, step).rank < 0) {
    CHECK(!result.valid()) << "a result nobody takes";
    return;
  }
  context_.rec.at() = context_of(step);
  const bool forward = step.kind == Step::Kind::forward;
  const Tensor sent = scatters_ ? piece_of(context_, result) : result;
  if (host_waits_.objects && forward) context_.rec.wait_on_host(StreamKind::pipeline_send_next);
  context_.rec.communicate(forward ? StreamKind::pipeline_send_next : StreamKind::pipeline_send_previous,
                           forward ? context_.to_next : context_.to_previous, message(OpKind::send, sent),
                           {reads(sent)});
  exchanged_ = true;
  if (forward && context_.stack.keeps_stage_outputs) {
    outputs_[{step.chunk, step.micro_batch}] = result;
  } else if (sends_block_) {
    context_.rec.release(result);
  } else {
    sent_.push_back({result, taken_at(step), index_ + 2});
  }
}

void Transport::settle() {
  if (overlapped_) return;
  context_.rec.order(StreamKind::pipeline_receive_previous, StreamKind::compute);
  context_.rec.order(StreamKind::pipeline_receive_next, StreamKind::compute);
  if (!sends_block_) return;
  context_.rec.order(StreamKind::pipeline_send_next, StreamKind::compute);
  context_.rec.order(StreamKind::pipeline_send_previous, StreamKind::compute);
}

void Transport::begin(std::size_t index) {
  settle();
  index_ = index;
  const std::int64_t now = times_.at(context_.at.pp, index).start;
  std::erase_if(sent_, [&](const Sent& sent) {
    if (sent.taken_at > now || sent.free_from > index) return false;
    context_.rec.release(sent.tensor);
    return true;
  });
}

void Transport::finish() {
  settle();
  for (const Sent& sent : sent_) context_.rec.release(sent.tensor);
  sent_.clear();
}

}  // namespace benchsuite
