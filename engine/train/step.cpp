#include "engine/train/step.h"

#include <algorithm>

#include "engine/core/parallel.h"
#include "engine/train/bucket_uses.h"
#include "engine/train/transport.h"

namespace benchsuite {

namespace {

ScheduleTimes times_of(const Layout& layout) {
  return ScheduleTimes(schedule_shape(layout), layout.recompute.granularity == RecomputeGranularity::full ? 3 : 2);
}

class StepRecorder {
 public:
  /// With `trace` the parameters stay whole and their use order goes there; without, `order` is what an earlier trace found.
  StepRecorder(const TrainConfig& config, int rank, const ScheduleTimes& times, const OptimizerConfig& optimizer,
               const Faults& faults, RecordedDetail detail, const ProgramSizes& like, const UseOrder& order,
               UseOrder* trace = nullptr)
      : times_(times),
        grid_(config.layout),
        recorder_(rank, term_names(), detail, like),
        context_(config.model, config.layout, config.stack, grid_, recorder_, rank, faults) {
    allocate_inputs();
    for (std::int64_t chunk = 0; chunk < config.layout.vpp; ++chunk) {
      parameters_.push_back(make_chunk_parameters(context_, chunk));
    }
    buckets_ = make_buckets(context_, parameters_);
    gradients_ = make_gradient_store(context_, buckets_);
    values_ = trace ? make_tracing_store(context_, buckets_, *trace) : make_parameter_store(context_, buckets_, order);
    optimizer_ =
        std::make_unique<Optimizer>(context_, buckets_, *gradients_, *values_, optimizer, step_scalars_);
    uses_ = std::make_unique<BucketUses>(context_, buckets_, *gradients_, *values_);
    for (std::size_t chunk = 0; chunk < parameters_.size(); ++chunk) {
      const ChunkParameters& parameters = parameters_[chunk];
      chunks_.emplace_back(context_, static_cast<std::int64_t>(chunk), parameters.first_layer, parameters.layers,
                           parameters.ends, loss_, *uses_);
    }
  }

  RecordedStep record() {
    clear_gradients();
    values_->begin();
    run_schedule();
    values_->finish();
    finish_gradients();
    optimizer_->step();
    RecordedStep result;
    result.bindings = bindings();
    result.program = recorder_.finish();
    return result;
  }

 private:
  void allocate_inputs();
  void clear_gradients();
  void run_schedule();
  void finish_gradients();
  void sum_tied_embedding();
  void sum_sequence_parallel_gradients();
  StepBindings bindings() const;

  const ScheduleTimes& times_;
  RankGrid grid_;
  Recorder recorder_;
  ModelContext context_;
  Tensor step_scalars_, loss_;
  std::vector<ChunkParameters> parameters_;
  std::vector<Bucket> buckets_;
  std::unique_ptr<GradientStore> gradients_;
  std::unique_ptr<ParameterStore> values_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<BucketUses> uses_;
  std::deque<Chunk> chunks_;
};

void StepRecorder::allocate_inputs() {
  Recorder& rec = recorder_;
  const auto integers = [&](Term term, std::int64_t rows, std::int64_t columns) {
    return rec.allocate(Purpose::inputs, index_of(term), DType::int32, {1, 1, rows, columns});
  };
  for (std::int64_t i = 0; i < context_.layout.micro_batches(); ++i) {
    MicroBatchInputs inputs;
    if (context_.first_stage()) inputs.tokens = integers(Term::tokens, context_.s, context_.b);
    if (context_.last_stage()) inputs.labels = integers(Term::labels, context_.s, context_.b);
    inputs.samples = integers(Term::samples, 1, context_.b + 2);
    context_.inputs.push_back(inputs);
  }
  step_scalars_ = rec.allocate(Purpose::inputs, index_of(Term::step_scalars), DType::fp32, {1, 1, 1, 5});
  loss_ = rec.allocate(Purpose::outputs, index_of(Term::loss), DType::fp32, {1, 1, 1, 1});
}

void StepRecorder::clear_gradients() {
  recorder_.at() = {.phase = Phase::optimizer, .site = Site::gradients};
  gradients_->clear();
  if (!context_.last_stage()) return;
  recorder_.record({.kind = OpKind::fill, .dtype = DType::fp32, .out_dtype = DType::fp32, .dims = {1}}, {writes(loss_)});
}

void StepRecorder::run_schedule() {
  const std::vector<Step>& steps = times_.steps(context_.at.pp);
  Transport transport(context_, times_);
  transport.post_receive(steps.front());
  for (std::size_t k = 0; k < steps.size(); ++k) {
    transport.begin(k);
    const Tensor input = transport.take(steps[k]);
    const bool more = k + 1 < steps.size();
    if (transport.overlapped() && more) transport.post_receive(steps[k + 1]);

    const Step& step = steps[k];
    recorder_.at().chunk = static_cast<std::int16_t>(step.chunk);
    Chunk& chunk = chunks_[static_cast<std::size_t>(step.chunk)];
    const Tensor result = step.kind == Step::Kind::forward ? chunk.forward(step.micro_batch, input)
                                                           : chunk.backward(step.micro_batch, input);
    transport.send(step, result);
    if (!transport.overlapped() && more) transport.post_receive(steps[k + 1]);
  }
  transport.finish();
}

/// The two gradients of a tied word embedding become their sum: on one rank by an addition, else by an all-reduce
/// between the first and the last stage.
void StepRecorder::sum_tied_embedding() {
  if (!context_.model.tied_embeddings()) return;
  recorder_.at() = {.phase = Phase::gradient_sync, .site = Site::embedding};
  if (context_.layout.pp == 1) {
    const Tensor& words = parameters_.front().ends.words->gradient;
    const Tensor& head = parameters_.back().ends.head_words->gradient;
    recorder_.record({.kind = OpKind::add, .dtype = words.dtype, .out_dtype = words.dtype, .dims = {words.elements()}},
                     {reads(words), reads(head), writes(words)});
    return;
  }
  if (context_.faults.drop_tied_embedding_reduce) return;
  const Parameter* words = context_.first_stage()  ? parameters_.front().ends.words
                           : context_.last_stage() ? parameters_.back().ends.head_words
                                                   : nullptr;
  if (!words) return;
  recorder_.communicate(StreamKind::embedding, context_.embedding_group,
                        {.kind = OpKind::all_reduce,
                         .dtype = words->gradient.dtype,
                         .out_dtype = words->gradient.dtype,
                         .reduction = Reduction::sum,
                         .dims = {words->elements()}},
                        {updates(words->gradient)});
}

/// LayerNorms and row-parallel biases saw s/t of the sequence: one coalesced all-reduce over t completes their gradients.
void StepRecorder::sum_sequence_parallel_gradients() {
  if (!context_.sequence_parallel()) return;
  recorder_.at() = {.phase = Phase::gradient_sync, .site = Site::gradients};
  std::vector<Operand> gather, scatter;
  std::int64_t elements = 0;
  for (const Bucket& bucket : buckets_) {
    for (const Bucket::Entry& entry : bucket.entries) {
      if (!entry.parameter->partial_gradient) continue;
      for (const Tensor& part : gradients_->owned_parts(bucket, *entry.parameter)) {
        gather.push_back(reads(part));
        scatter.push_back(writes(part));
        elements += part.elements();
      }
    }
  }
  if (elements == 0) return;
  const DType dtype = context_.stack.gradient_dtype;
  const Tensor packed =
      recorder_.allocate(Purpose::communication, index_of(Term::packed_gradients), dtype, {1, 1, 1, elements});
  const auto shape = [&](OpKind kind) { return OpShape{.kind = kind, .dtype = dtype, .out_dtype = dtype, .dims = {elements}}; };
  gather.push_back(writes(packed));
  recorder_.record(shape(OpKind::pack), gather);
  OpShape sum = shape(OpKind::all_reduce);
  sum.reduction = Reduction::sum;
  recorder_.communicate(StreamKind::tensor, context_.tensor_group, sum, {updates(packed)});
  scatter.insert(scatter.begin(), reads(packed));
  recorder_.record(shape(OpKind::unpack), scatter);
  recorder_.release(packed);
}

void StepRecorder::finish_gradients() {
  sum_tied_embedding();
  recorder_.at() = {.phase = Phase::gradient_sync, .site = Site::gradients};
  for (Bucket& bucket : buckets_) {
    if (!bucket.values_in) gradients_->finish(bucket);  // p = 1: the head's gradient is in the embedding's
  }
  sum_sequence_parallel_gradients();
}

StepBindings StepRecorder::bindings() const {
  StepBindings result;
  result.inputs = context_.inputs;
  result.step_scalars = step_scalars_;
  result.loss = loss_;
  result.gradient_norm = optimizer_->norm_and_clip();
  std::vector<const Parameter*> known;
  for (const ChunkParameters& chunk : parameters_) {
    for (const Parameter& parameter : chunk.all) {
      known.push_back(&parameter);
      result.parameters.push_back(parameter);
    }
  }
  // The parts of a bucket's parameters inside the slice that `tensor` holds.
  const auto add_pieces = [&](std::vector<StepBindings::Piece>& pieces, const Bucket& bucket, const Slice& slice,
                              const Tensor& tensor) {
    for (const Bucket::Entry& entry : bucket.entries) {
      const Slice part = intersection(entry, slice);
      if (part.count == 0) continue;
      const auto index = std::find(known.begin(), known.end(), entry.parameter) - known.begin();
      pieces.push_back({static_cast<std::size_t>(index), part.first - entry.first,
                        tensor.flat_slice(part.first - slice.first, part.count)});
    }
  };
  for (const Bucket& bucket : buckets_) {
    const Slice owned = owned_slice(context_, bucket);
    if (bucket.values_in) continue;
    const bool whole = values_->keeps_whole(bucket);
    add_pieces(result.values, bucket, whole ? Slice{0, bucket.elements} : owned,
               whole ? bucket.values : values_->owned(bucket));
    add_pieces(result.gradients, bucket, owned, gradients_->owned(bucket));
    if (const Tensor master = optimizer_->master_of(bucket); master.valid()) {
      add_pieces(result.masters, bucket, owned, master);
    }
  }
  return result;
}

RecordedStep record_rank(const TrainConfig& config, int rank, const ScheduleTimes& times, const OptimizerConfig& optimizer,
                         const Faults& faults, RecordedDetail detail = RecordedDetail::whole, const ProgramSizes& like = {}) {
  UseOrder order;
  if (config.layout.zero_stage == 3) {
    StepRecorder(config, rank, times, optimizer, faults, RecordedDetail::without_operands, like, {}, &order).record();
  }
  return StepRecorder(config, rank, times, optimizer, faults, detail, like, order).record();
}

}  // namespace

RecordedStep record_step(const TrainConfig& config, int rank, const OptimizerConfig& optimizer, const Faults& faults) {
  return record_rank(config, rank, times_of(config.layout), optimizer, faults);
}

std::vector<Program> record_programs(const TrainConfig& config, const std::vector<int>& ranks, int threads,
                                     RecordedDetail detail, const Faults& faults, const SeeProgram& each) {
  const ScheduleTimes times = times_of(config.layout);
  std::vector<Program> programs(ranks.size());
  if (ranks.empty()) return programs;
  ProgramSizes sizes;
  const auto record = [&](std::size_t i) {
    programs[i] = record_rank(config, ranks[i], times, {}, faults, detail, sizes).program;
    if (i == 0) sizes = ProgramSizes::of(programs[0]);
    if (each) each(i, programs[i]);
  };
  record(0);
  for_each_index(ranks.size() - 1, threads, [&](std::size_t i) { record(i + 1); });
  return programs;
}

}  // namespace benchsuite
