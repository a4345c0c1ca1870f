#include "engine/train/optimizer.h"

#include <algorithm>

#include "engine/core/exact_sum.h"

namespace benchsuite {

Optimizer::Optimizer(ModelContext& context, std::vector<Bucket>& buckets, const GradientStore& gradients,
                     ParameterStore& parameters, const OptimizerConfig& config, const Tensor& step_scalars)
    : context_(context), gradients_(gradients), parameters_(parameters), config_(config), step_scalars_(step_scalars) {
  const auto allocate = [&](Purpose purpose, Term term, std::int64_t elements) {
    return context_.rec.allocate(purpose, index_of(term), DType::fp32, {1, 1, 1, elements});
  };
  sum_ = allocate(Purpose::outputs, Term::gradient_norm, kExactSumDigits);
  clip_ = allocate(Purpose::outputs, Term::gradient_norm, 2);
  for (Bucket& bucket : buckets) {
    if (bucket.values_in) continue;  // updated where its values live
    State state{.bucket = &bucket, .owned = owned_slice(context_, bucket), .values = parameters_.owned(bucket)};
    state.master = context_.dtype == DType::fp32
                       ? state.values
                       : allocate(Purpose::master, Term::master_bucket, state.owned.count);
    state.first_moment = allocate(Purpose::moments, Term::first_moment, state.owned.count);
    state.second_moment = allocate(Purpose::moments, Term::second_moment, state.owned.count);
    states_.push_back(state);
  }
}

/// Adds the squares of the owned gradients of `state` that are replicated over the tensor group, or of those that are split.
/// A replicated one counts on the first tensor rank only; the others do the same work with weight 0, so that all ranks of a
/// stage take the same time.
void Optimizer::add_squares(const State& state, bool replicated) {
  std::vector<Operand> operands;
  std::int64_t elements = 0;
  for (const Bucket::Entry& entry : state.bucket->entries) {
    const Parameter& parameter = *entry.parameter;
    if (parameter.shared_copy || parameter.replicated != replicated) continue;
    const Slice part = intersection(entry, state.owned);
    if (part.count == 0) continue;
    operands.push_back(reads(gradients_.owned(*state.bucket).flat_slice(part.first - state.owned.first, part.count)));
    elements += part.count;
  }
  if (operands.empty()) return;
  operands.push_back(updates(sum_));
  context_.rec.record({.kind = OpKind::sum_squares,
                       .dtype = context_.stack.gradient_dtype,
                       .out_dtype = DType::fp32,
                       .dims = {elements},
                       .scalars = {replicated && context_.at.tp != 0 ? 0.0f : 1.0f}},
                      operands);
}

void Optimizer::sum_squares() {
  Recorder& rec = context_.rec;
  rec.record({.kind = OpKind::fill, .dtype = DType::fp32, .out_dtype = DType::fp32, .dims = {kExactSumDigits}},
             {writes(sum_)});
  for (const State& state : states_) {
    for (const bool replicated : {false, true}) add_squares(state, replicated);
  }
  // Sharded, all ranks hold disjoint parts; whole, the replicas hold the same.
  const bool sharded = context_.layout.zero_stage >= 1;
  if (sharded ? context_.grid.world() > 1 : context_.layout.tp * context_.layout.pp > 1) {
    rec.communicate(StreamKind::global, sharded ? context_.world_group : context_.model_parallel_group,
                    {.kind = OpKind::all_reduce,
                     .dtype = DType::fp32,
                     .out_dtype = DType::fp32,
                     .reduction = Reduction::sum,
                     .dims = {kExactSumDigits}},
                    {updates(sum_)});
  }
  rec.record({.kind = OpKind::clip_coefficient,
              .dtype = DType::fp32,
              .out_dtype = DType::fp32,
              .dims = {1},
              .scalars = {config_.clip}},
             {reads(sum_), writes(clip_)});
}

std::vector<Optimizer::Run> Optimizer::runs_of(const State& state) {
  std::vector<Run> runs;
  for (const Bucket::Entry& entry : state.bucket->entries) {
    const Slice part = intersection(entry, state.owned);
    if (part.count == 0) continue;
    const bool decays = entry.parameter->decays;
    if (!runs.empty() && runs.back().decays == decays &&
        runs.back().slice.first + runs.back().slice.count == part.first) {
      runs.back().slice.count += part.count;
    } else {
      runs.push_back({part, decays});
    }
  }
  return runs;
}

void Optimizer::update(const State& state) {
  for (const Run& run : runs_of(state)) {
    const std::int64_t first = run.slice.first, count = run.slice.count;
    const auto own = [&](const Tensor& tensor) { return tensor.flat_slice(first - state.owned.first, count); };
    const OpShape shape{.kind = OpKind::adamw,
                        .dtype = context_.stack.gradient_dtype,
                        .out_dtype = context_.dtype,
                        .dims = {count},
                        .scalars = {run.decays ? config_.weight_decay : 0.0f}};
    const Tensor gradient = own(gradients_.owned(*state.bucket));
    const Tensor master = own(state.master), m = own(state.first_moment), v = own(state.second_moment);
    if (context_.dtype == DType::fp32) {
      context_.rec.record(shape, {reads(gradient), reads(step_scalars_), reads(clip_), updates(master), updates(m),
                                  updates(v)});
    } else {
      context_.rec.record(shape, {reads(gradient), reads(step_scalars_), reads(clip_), updates(master), updates(m),
                                  updates(v), writes(own(state.values))});
    }
  }
}

Tensor Optimizer::master_of(const Bucket& bucket) const {
  for (const State& state : states_) {
    if (state.bucket == &bucket && context_.dtype != DType::fp32) return state.master;
  }
  return {};
}

void Optimizer::step() {
  context_.rec.at() = {.phase = Phase::optimizer, .site = Site::optimizer};
  sum_squares();
  for (const State& state : states_) update(state);
  context_.rec.at() = {.phase = Phase::parameter_gather, .site = Site::optimizer};
  for (const State& state : states_) parameters_.publish(*state.bucket);
}

}  // namespace benchsuite
