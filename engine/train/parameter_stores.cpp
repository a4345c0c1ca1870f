#include "engine/train/stores.h"

#include <algorithm>

namespace benchsuite {

namespace {

Tensor new_values(ModelContext& context, Term term, std::int64_t elements) {
  return context.rec.allocate(Purpose::parameters, index_of(term), context.dtype, {1, 1, 1, elements});
}

void gather(ModelContext& context, const Tensor& mine, const Tensor& whole, StreamKind stream, std::uint32_t group) {
  context.rec.communicate(stream, group,
                          {.kind = OpKind::all_gather,
                           .dtype = whole.dtype,
                           .out_dtype = whole.dtype,
                           .dims = {whole.elements()}},
                          {reads(mine), writes(whole)});
}

/// Stages 0 to 2: every replica holds the whole parameters.
class WholeParameters : public ParameterStore {
 public:
  WholeParameters(ModelContext& context, std::vector<Bucket>& buckets) : context_(context), buckets_(buckets) {
    for (Bucket& bucket : buckets_) {
      if (bucket.values_in) continue;
      bucket.values = new_values(context_, Term::parameter_bucket, bucket.elements);
      bind_values(bucket, bucket.values, buckets_);
    }
  }

  void acquire(Bucket&) override {}
  void release(Bucket&) override {}
  void publish(Bucket& bucket) override {
    if (context_.layout.zero_stage == 0 || context_.layout.replicas() == 1) return;
    gather(context_, owned(bucket), bucket.values, StreamKind::data, context_.data_group);
  }
  void finish() override {}
  Tensor owned(const Bucket& bucket) const override {
    const Slice mine = owned_slice(context_, bucket);
    return bucket.values.flat_slice(mine.first, mine.count);
  }
  bool keeps_whole(const Bucket&) const override { return true; }

 protected:
  ModelContext& context_;
  std::vector<Bucket>& buckets_;
};

/// Stages 1 and 2 with overlap: whole buffers, of which only the own slice is current until the bucket is first used. Forward
/// passes walk a chunk's buckets from the last to the first, and each first use sets off the gather of the next bucket.
class LateParameters : public WholeParameters {
 public:
  LateParameters(ModelContext& context, std::vector<Bucket>& buckets) : WholeParameters(context, buckets) {
    for (std::int64_t chunk = 0; chunk < context.layout.vpp; ++chunk) {
      for (std::size_t i = buckets.size(); i-- > 0;) {
        if (buckets[i].chunk == chunk && !buckets[i].values_in) order_.push_back(i);
      }
    }
  }

  void begin() override { gather_until(1); }
  void acquire(Bucket& bucket) override {
    const auto place = std::find(order_.begin(), order_.end(), static_cast<std::size_t>(&bucket - buckets_.data()));
    gather_until(static_cast<std::size_t>(place - order_.begin()) + 2);
  }
  void publish(Bucket&) override {}
  bool keeps_whole(const Bucket&) const override { return false; }

 private:
  /// Sees to it that the gathers of the first `count` buckets are recorded.
  void gather_until(std::size_t count) {
    const OpContext before = context_.rec.at();
    context_.rec.at() = {.phase = Phase::parameter_gather, .site = Site::optimizer};
    for (; gathered_ < std::min(count, order_.size()); ++gathered_) {
      Bucket& bucket = buckets_[order_[gathered_]];
      gather(context_, owned(bucket), bucket.values, StreamKind::data, context_.data_group);
    }
    context_.rec.at() = before;
  }

  std::vector<std::size_t> order_;  // of first uses
  std::size_t gathered_ = 0;        // of them
};

class TracingParameters : public WholeParameters {
 public:
  TracingParameters(ModelContext& context, std::vector<Bucket>& buckets, UseOrder& order)
      : WholeParameters(context, buckets), order_(order) {}

  void acquire(Bucket& bucket) override { order_.push_back(static_cast<std::size_t>(&bucket - buckets_.data())); }

 private:
  UseOrder& order_;
};

/// Stage 3: a bucket's values exist from their gathering to the release after a use that is not followed by another soon.
/// What comes next is known from the recorded use order, recompute and every chunk included.
class ShardedParameters : public ParameterStore {
 public:
  ShardedParameters(ModelContext& context, std::vector<Bucket>& buckets, const UseOrder& order)
      : context_(context), buckets_(buckets), order_(order), config_(context.stack.sharded_parameters) {
    shards_.resize(buckets_.size());
    ahead_.resize(buckets_.size());
    used_at_.resize(buckets_.size());
    next_use_.resize(order_.size());
    for (Bucket& bucket : buckets_) {
      if (bucket.values_in) continue;
      if (bucket.persistent) {
        bucket.values = new_values(context_, Term::parameter_bucket, bucket.elements);
        bind_values(bucket, bucket.values, buckets_);
      } else {
        shards_[index(bucket)] = new_values(context_, Term::parameter_shard, owned_slice(context_, bucket).count);
      }
    }
    std::vector<std::size_t> seen(buckets_.size(), kNever);
    for (std::size_t k = order_.size(); k-- > 0;) next_use_[k] = std::exchange(seen[order_[k]], k);
    traversed_.assign(1, 0);
    for (const std::size_t used : order_) traversed_.push_back(traversed_.back() + buckets_[used].elements);
  }

  void acquire(Bucket& bucket) override {
    CHECK(position_ < order_.size() && order_[position_] == index(bucket))
        << "parameters are used in another order than recorded";
    used_at_[index(bucket)] = position_++;
    if (!bucket.persistent && !bucket.values.valid()) gather_bucket(bucket);
    if (std::exchange(ahead_[index(bucket)], std::uint8_t{0}) != 0) ahead_elements_ -= bucket.elements;
    prefetch();
  }

  void release(Bucket& bucket) override {
    if (bucket.persistent) return;
    const std::size_t next = next_use_[used_at_[index(bucket)]];  // others of the same part were acquired since
    const bool soon = next != kNever && (next < horizon_ || traversed_[next] - traversed_[position_] < reuse_distance());
    if (!soon) drop(bucket);
  }

  void publish(Bucket& bucket) override {
    if (bucket.persistent && context_.layout.replicas() > 1) {
      gather_whole(bucket, owned(bucket));
    }
  }

  void finish() override {
    for (Bucket& bucket : buckets_) {
      if (!bucket.persistent && bucket.values.valid()) drop(bucket);
    }
  }

  Tensor owned(const Bucket& bucket) const override {
    if (!bucket.persistent) return shards_[index(bucket)];
    const Slice mine = owned_slice(context_, bucket);
    return bucket.values.flat_slice(mine.first, mine.count);
  }
  bool keeps_whole(const Bucket& bucket) const override { return bucket.persistent; }

 private:
  static constexpr std::size_t kNever = SIZE_MAX;

  std::size_t index(const Bucket& bucket) const { return static_cast<std::size_t>(&bucket - buckets_.data()); }
  std::int64_t reuse_distance() const { return config_.max_reuse_distance; }

  void gather_bucket(Bucket& bucket) {
    const OpContext before = context_.rec.at();
    context_.rec.at().phase = Phase::parameter_gather;
    context_.rec.at().site = Site::optimizer;
    bucket.values = new_values(context_, Term::gathered_parameters, bucket.elements);
    // The host has waited for the device: compute launched after this point follows the gathers before it. The gather itself
    // follows the compute before it, as communication does.
    if (config_.synchronous) context_.rec.order(StreamKind::parameters, StreamKind::compute);
    const Tensor& shard = shards_[index(bucket)];
    if (context_.layout.replicas() > 1) {
      gather_whole(bucket, shard);
    } else {
      context_.rec.record({.kind = OpKind::cast,
                           .dtype = shard.dtype,
                           .out_dtype = shard.dtype,
                           .dims = {shard.elements()}},
                          {reads(shard), writes(bucket.values)});
    }
    bind_values(bucket, bucket.values, buckets_);
    live_elements_ += bucket.elements;
    context_.rec.at() = before;
  }

  /// By lists, what is gathered is copied once more, member by member.
  void gather_whole(Bucket& bucket, const Tensor& shard) {
    Tensor to = bucket.values;
    if (config_.by_lists) {
      to = context_.rec.allocate(Purpose::communication, index_of(Term::gathered_parameters), shard.dtype,
                                 {1, 1, 1, bucket.elements});
    }
    gather(context_, shard, to, StreamKind::parameters, context_.parameter_group);
    if (!config_.by_lists) return;
    copy_by_members(context_, bucket, to, bucket.values);
    context_.rec.release(to);
  }

  void drop(Bucket& bucket) {
    context_.rec.release(bucket.values);
    bucket.values = {};
    live_elements_ -= bucket.elements;
  }

  /// Gathers what the uses after this one need, until enough is on its way or too much is live. DeepSpeed counts anew at every use
  /// (fetch_sub_module), FSDP what is gathered and not yet used.
  void prefetch() {
    horizon_ = std::max(horizon_, position_);
    std::int64_t fetched = config_.unit == ShardedParameterConfig::Unit::layer ? ahead_elements_ : 0;
    while (horizon_ < order_.size() && fetched < config_.prefetch_elements) {
      Bucket& next = buckets_[order_[horizon_]];
      if (!next.persistent && !next.values.valid()) {
        if (live_elements_ + next.elements > config_.max_live_elements) return;
        gather_bucket(next);
        fetched += next.elements;
        ahead_elements_ += next.elements;
        ahead_[order_[horizon_]] = 1;
      }
      ++horizon_;
    }
  }

  ModelContext& context_;
  std::vector<Bucket>& buckets_;
  const UseOrder& order_;
  const ShardedParameterConfig& config_;
  std::vector<Tensor> shards_;            // by bucket, [owned_slice.count]
  std::vector<std::size_t> next_use_;     // by position in the order: where the same bucket is used next
  std::vector<std::int64_t> traversed_;   // elements used before each position
  std::size_t position_ = 0;              // uses begun
  std::size_t horizon_ = 0;               // uses whose values were asked for
  std::int64_t live_elements_ = 0;
  std::vector<std::size_t> used_at_;      // by bucket: position of its latest use
  std::vector<std::uint8_t> ahead_;       // by bucket: gathered and not yet used
  std::int64_t ahead_elements_ = 0;       // sum over them
};

}  // namespace

std::unique_ptr<ParameterStore> make_parameter_store(ModelContext& context, std::vector<Bucket>& buckets,
                                                     const UseOrder& order) {
  if (context.layout.zero_stage == 3) return std::make_unique<ShardedParameters>(context, buckets, order);
  const bool gathers = context.layout.zero_stage >= 1 && context.layout.replicas() > 1;
  if (gathers && context.stack.overlaps_parameter_gather) return std::make_unique<LateParameters>(context, buckets);
  return std::make_unique<WholeParameters>(context, buckets);
}

std::unique_ptr<ParameterStore> make_tracing_store(ModelContext& context, std::vector<Bucket>& buckets, UseOrder& order) {
  return std::make_unique<TracingParameters>(context, buckets, order);
}

}  // namespace benchsuite
