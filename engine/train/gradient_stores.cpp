#include "engine/train/stores.h"

#include <algorithm>
#include <deque>

namespace benchsuite {

Slice owned_slice(const ModelContext& context, const Bucket& bucket) {
  if (context.layout.zero_stage == 0) return {0, bucket.elements};
  const std::int64_t count = div_exact(bucket.elements, context.layout.replicas());
  return {context.replica() * count, count};
}

Slice intersection(const Bucket::Entry& entry, const Slice& slice) {
  const std::int64_t first = std::max(entry.first, slice.first);
  const std::int64_t end = std::min(entry.first + entry.parameter->elements(), slice.first + slice.count);
  return {first, std::max<std::int64_t>(end - first, 0)};
}

void copy_by_members(ModelContext& context, const Bucket& bucket, const Tensor& from, const Tensor& to) {
  context.rec.record({.kind = OpKind::cast,
                      .dtype = from.dtype,
                      .out_dtype = to.dtype,
                      .dims = {from.elements(), context.layout.replicas() * static_cast<std::int64_t>(bucket.entries.size())}},
                     {reads(from), writes(to)});
}

namespace {

Tensor new_gradients(ModelContext& context, Term term, std::int64_t elements) {
  return context.rec.allocate(Purpose::gradients, index_of(term), context.stack.gradient_dtype, {1, 1, 1, elements});
}

void zero(ModelContext& context, const Tensor& tensor) {
  context.rec.record(
      {.kind = OpKind::fill, .dtype = tensor.dtype, .out_dtype = tensor.dtype, .dims = {tensor.elements()}},
      {writes(tensor)});
}

OpShape sum_over_replicas(OpKind kind, const Tensor& gradients) {
  return {.kind = kind,
          .dtype = gradients.dtype,
          .out_dtype = gradients.dtype,
          .reduction = Reduction::sum,
          .dims = {gradients.elements()}};
}

/// Stages 0 and 1: whole accumulators, one reduction at the end of the step (or behind the last backward).
class WholeGradients : public GradientStore {
 public:
  WholeGradients(ModelContext& context, std::vector<Bucket>& buckets) : context_(context), buckets_(buckets) {
    for (Bucket& bucket : buckets_) {
      bucket.gradients = new_gradients(context_, Term::gradient_bucket, bucket.elements);
      bind_gradients(bucket, bucket.gradients);
    }
  }

  void clear() override {
    for (const Bucket& bucket : buckets_) zero(context_, bucket.gradients);
  }
  void begin_backward(Bucket&) override {}
  void end_backward(Bucket& bucket, bool last_micro_batch) override {
    if (last_micro_batch && overlaps(bucket)) reduce(bucket);
  }
  void finish(Bucket& bucket) override {
    if (!overlaps(bucket)) reduce(bucket);
  }

  Tensor owned(const Bucket& bucket) const override {
    const Slice mine = owned_slice(context_, bucket);
    return bucket.gradients.flat_slice(mine.first, mine.count);
  }
  std::vector<Tensor> owned_parts(const Bucket&, const Parameter& parameter) const override {
    return {parameter.gradient};
  }

 private:
  bool overlaps(const Bucket& bucket) const {
    return context_.stack.overlaps_gradient_reduction && !bucket.tied_embedding;
  }

  void reduce(const Bucket& bucket) {
    if (context_.layout.replicas() == 1) return;
    const OpContext before = context_.rec.at();
    context_.rec.at() = {.phase = Phase::gradient_sync, .site = Site::gradients};
    if (context_.stack.all_reduces_in_fp32) {
      all_reduce_in_fp32(bucket.gradients);
    } else if (context_.layout.zero_stage == 0) {
      context_.rec.communicate(StreamKind::data, context_.data_group,
                               sum_over_replicas(OpKind::all_reduce, bucket.gradients), {updates(bucket.gradients)});
    } else {
      context_.rec.communicate(StreamKind::data, context_.data_group,
                               sum_over_replicas(OpKind::reduce_scatter, bucket.gradients),
                               {reads(bucket.gradients), writes(owned(bucket))});
    }
    context_.rec.at() = before;
  }

  /// Widened in pieces of bucket_elements, so that no more than one of them is there twice.
  void all_reduce_in_fp32(const Tensor& gradients) {
    const std::int64_t most = gradients.dtype == DType::fp32 ? gradients.elements() : context_.stack.bucket_elements;
    for (std::int64_t first = 0; first < gradients.elements(); first += most) {
      all_reduce_piece_in_fp32(gradients.flat_slice(first, std::min(most, gradients.elements() - first)));
    }
  }

  void all_reduce_piece_in_fp32(const Tensor& gradients) {
    Recorder& rec = context_.rec;
    const auto all_reduce = [&](const Tensor& tensor) {
      rec.communicate(StreamKind::data, context_.data_group, sum_over_replicas(OpKind::all_reduce, tensor),
                      {updates(tensor)});
    };
    if (gradients.dtype == DType::fp32) return all_reduce(gradients);
    const Tensor wide = rec.allocate(Purpose::communication, index_of(Term::packed_gradients), DType::fp32,
                                     {1, 1, 1, gradients.elements()});
    const auto cast = [&](const Tensor& from, const Tensor& to) {
      rec.record({.kind = OpKind::cast, .dtype = from.dtype, .out_dtype = to.dtype, .dims = {from.elements()}},
                 {reads(from), writes(to)});
    };
    cast(gradients, wide);
    all_reduce(wide);
    cast(wide, gradients);
    rec.release(wide);
  }

  ModelContext& context_;
  std::vector<Bucket>& buckets_;
};

/// Stages 2 and 3: the gradients of a unit live while its backward runs; then they are reduce-scattered and added to the owned
/// slice. Overlapped, the addition comes one unit later and both buffers live until then, so that the reduction runs behind the
/// next unit's backward.
class ScatteredGradients : public GradientStore {
 public:
  ScatteredGradients(ModelContext& context, std::vector<Bucket>& buckets) : context_(context), buckets_(buckets) {
    for (Bucket& bucket : buckets_) {
      if (bucket.tied_embedding) {
        bucket.gradients = new_gradients(context_, Term::gradient_bucket, bucket.elements);
        bind_gradients(bucket, bucket.gradients);
        sums_.push_back({});
      } else {
        sums_.push_back(new_gradients(context_, Term::gradient_bucket, owned_slice(context_, bucket).count));
      }
    }
  }

  void clear() override {
    for (std::size_t i = 0; i < buckets_.size(); ++i) zero(context_, sums_[i].valid() ? sums_[i] : buckets_[i].gradients);
  }

  void begin_backward(Bucket& bucket) override {
    if (bucket.tied_embedding) return;
    const OpContext before = context_.rec.at();
    context_.rec.at().phase = Phase::gradient_sync;
    context_.rec.at().site = Site::gradients;
    bucket.gradients = new_gradients(context_, Term::unreduced_gradients, bucket.elements);
    zero(context_, bucket.gradients);
    bind_gradients(bucket, bucket.gradients);
    context_.rec.at() = before;
  }

  void end_backward(Bucket& bucket, bool) override {
    if (bucket.tied_embedding) return;
    const OpContext before = context_.rec.at();
    context_.rec.at().phase = Phase::gradient_sync;
    context_.rec.at().site = Site::gradients;
    Tensor mine = bucket.gradients;  // with one replica they are the sum already
    if (context_.layout.replicas() > 1) {
      if (context_.layout.zero_stage == 3 && context_.stack.sharded_parameters.by_lists) flatten(bucket);
      mine = context_.rec.allocate(Purpose::communication, index_of(Term::reduced_gradients), mine.dtype,
                                   {1, 1, 1, owned_slice(context_, bucket).count});
      context_.rec.communicate(StreamKind::data, context_.data_group,
                               sum_over_replicas(OpKind::reduce_scatter, bucket.gradients),
                               {reads(bucket.gradients), writes(mine)});
    }
    pending_.push_back({index(bucket), bucket.gradients, mine});
    bucket.gradients = {};
    const std::size_t behind = context_.stack.overlaps_gradient_reduction ? 1 : 0;
    while (pending_.size() > behind) add_first();
    context_.rec.at() = before;
  }

  void finish(Bucket& bucket) override {
    while (!pending_.empty()) add_first();
    if (!bucket.tied_embedding || context_.layout.replicas() == 1) return;
    context_.rec.communicate(StreamKind::data, context_.data_group,
                             sum_over_replicas(OpKind::reduce_scatter, bucket.gradients),
                             {reads(bucket.gradients), writes(owned(bucket))});
  }

  Tensor owned(const Bucket& bucket) const override {
    if (!bucket.tied_embedding) return sums_[index(bucket)];
    const Slice mine = owned_slice(context_, bucket);
    return bucket.gradients.flat_slice(mine.first, mine.count);
  }

  std::vector<Tensor> owned_parts(const Bucket& bucket, const Parameter& parameter) const override {
    const Slice mine = owned_slice(context_, bucket);
    for (const Bucket::Entry& entry : bucket.entries) {
      if (entry.parameter != &parameter) continue;
      const Slice part = intersection(entry, mine);
      if (part.count == 0) return {};
      return {owned(bucket).flat_slice(part.first - mine.first, part.count)};
    }
    return {};
  }

 private:
  struct Pending {
    std::size_t bucket;
    Tensor whole;    // [elements]
    Tensor reduced;  // [owned_slice.count]
  };

  std::size_t index(const Bucket& bucket) const { return static_cast<std::size_t>(&bucket - buckets_.data()); }

  /// By lists, the members' parts are copied into one buffer first, which takes the place of the gradients.
  void flatten(Bucket& bucket) {
    const Tensor flat = new_gradients(context_, Term::unreduced_gradients, bucket.elements);
    copy_by_members(context_, bucket, bucket.gradients, flat);
    context_.rec.release(bucket.gradients);
    bucket.gradients = flat;
  }

  void add_first() {
    const auto [bucket, whole, reduced] = pending_.front();
    pending_.pop_front();
    const Tensor& sum = sums_[bucket];
    context_.rec.record({.kind = OpKind::add, .dtype = sum.dtype, .out_dtype = sum.dtype, .dims = {sum.elements()}},
                        {reads(sum), reads(reduced), writes(sum)});
    context_.rec.release(whole);
    if (reduced.buffer != whole.buffer) context_.rec.release(reduced);
  }

  ModelContext& context_;
  std::vector<Bucket>& buckets_;
  std::vector<Tensor> sums_;  // by bucket, [owned_slice.count]; invalid for a tied embedding
  std::deque<Pending> pending_;
};

}  // namespace

std::unique_ptr<GradientStore> make_gradient_store(ModelContext& context, std::vector<Bucket>& buckets) {
  if (context.layout.zero_stage >= 2) return std::make_unique<ScatteredGradients>(context, buckets);
  return std::make_unique<WholeGradients>(context, buckets);
}

}  // namespace benchsuite
