#include "engine/train/transport.h"

namespace benchsuite {

Transport::Transport(ModelContext& context)
    : context_(context),
      overlapped_(context.layout.schedule == ScheduleKind::interleaved ? context.stack.overlaps_pipeline_interleaved
                                                                       : context.stack.overlaps_pipeline) {}

bool Transport::needs_input(const Step& step) const {
  if (step.kind == Step::Kind::forward) return !(context_.first_stage() && step.chunk == 0);
  return !(context_.last_stage() && step.chunk == context_.layout.vpp - 1);
}

bool Transport::has_successor(const Step& step) const {
  if (step.kind == Step::Kind::forward) return !(context_.last_stage() && step.chunk == context_.layout.vpp - 1);
  return !(context_.first_stage() && step.chunk == 0);
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
      {1, context_.s_local, context_.b, context_.h});
  context_.rec.communicate(forward ? StreamKind::pipeline_receive_previous : StreamKind::pipeline_receive_next,
                           forward ? context_.from_previous : context_.from_next, message(OpKind::receive, tensor),
                           {writes(tensor)});
  context_.rec.at() = before;
  received_ = tensor;
}

Tensor Transport::take() {
  CHECK(received_) << "no receive was posted for this step";
  const Tensor tensor = *received_;
  received_.reset();
  return tensor;
}

void Transport::send(const Step& step, const Tensor& result) {
  if (!has_successor(step)) {
    CHECK(!result.valid()) << "a result nobody takes";
    return;
  }
  context_.rec.at() = context_of(step);
  const bool forward = step.kind == Step::Kind::forward;
  context_.rec.communicate(forward ? StreamKind::pipeline_send_next : StreamKind::pipeline_send_previous,
                           forward ? context_.to_next : context_.to_previous, message(OpKind::send, result),
                           {reads(result)});
  context_.rec.release(result);
}

void Transport::settle() {
  if (overlapped_) return;
  for (const StreamKind stream : {StreamKind::pipeline_send_next, StreamKind::pipeline_receive_previous,
                                  StreamKind::pipeline_send_previous, StreamKind::pipeline_receive_next}) {
    context_.rec.order(stream, StreamKind::compute);
  }
}

}  // namespace benchsuite
