#include "engine/train/buckets.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace benchsuite {

namespace {

using Unit = ShardedParameterConfig::Unit;

/// Plans the buckets of one chunk, walking its parameters from the last to the first.
class Planner {
 public:
  Planner(const ModelContext& context, ChunkParameters& parameters, std::int64_t chunk, std::vector<Bucket>& out)
      : context_(context),
        parameters_(parameters),
        chunk_(chunk),
        out_(out),
        by_use_(context.layout.zero_stage >= 2),
        sharded_(context.layout.zero_stage >= 1) {}

  void plan() {
    Bucket open = empty(), persistent = empty();
    persistent.persistent = true;
    for (std::size_t index = parameters_.all.size(); index-- > 0;) {
      Parameter& parameter = parameters_.all[index];
      const Part part = parameters_.part_of[index];
      if (context_.model.tied_embeddings() &&
          (&parameter == parameters_.ends.words || &parameter == parameters_.ends.head_words)) {
        Bucket alone = empty();
        alone.tied_embedding = true;
        add(alone, parameter, part);
        close(alone);
        continue;
      }
      if (context_.layout.zero_stage == 3 &&
          parameter.elements() <= context_.stack.sharded_parameters.persistence_threshold) {
        add(persistent, parameter, part);
        continue;
      }
      if (by_use_ && !open.entries.empty() && !one_unit(open.parts.back(), part)) close(open);
      add(open, parameter, part);
      if (!by_use_ && open.elements >= limit()) close(open);
    }
    close(open);
    close(persistent);
  }

 private:
  Bucket empty() const { return Bucket{.chunk = chunk_}; }

  /// Elements at which a bucket closes that is not a unit of use.
  std::int64_t limit() const {
    if (!context_.stack.overlaps_gradient_reduction || context_.at.pp > 0 || chunk_ > 0) {
      return std::numeric_limits<std::int64_t>::max();
    }
    return std::max(context_.stack.bucket_elements, 1'000'000 * context_.layout.replicas());
  }

  /// Whether a parameter of part `b` belongs to the bucket of one of part `a`.
  bool one_unit(const Part& a, const Part& b) const {
    if (context_.layout.zero_stage == 3 && context_.stack.sharded_parameters.unit == Unit::parameter) return false;
    const auto in_layer = [](const Part& part) { return part.kind == Part::Kind::attention || part.kind == Part::Kind::mlp; };
    if (context_.stack.sharded_parameters.unit == Unit::layer && in_layer(a) && in_layer(b)) return a.layer == b.layer;
    return a == b;
  }

  void add(Bucket& bucket, Parameter& parameter, const Part& part) const {
    if (sharded_) bucket.elements = round_up(bucket.elements, std::int64_t{64});
    bucket.entries.push_back({&parameter, bucket.elements});
    bucket.elements += parameter.elements();
    if (std::find(bucket.parts.begin(), bucket.parts.end(), part) == bucket.parts.end()) bucket.parts.push_back(part);
  }

  void close(Bucket& bucket) {
    if (bucket.entries.empty()) return;
    if (sharded_) bucket.elements = round_up(bucket.elements, std::lcm(context_.layout.replicas(), std::int64_t{128}));
    std::sort(bucket.parts.begin(), bucket.parts.end(), comes_before);
    out_.push_back(std::move(bucket));
    bucket = empty();
  }

  const ModelContext& context_;
  ChunkParameters& parameters_;
  std::int64_t chunk_;
  std::vector<Bucket>& out_;
  bool by_use_, sharded_;
};

}  // namespace

std::vector<Bucket> make_buckets(const ModelContext& context, std::vector<ChunkParameters>& chunks) {
  std::vector<Bucket> buckets;
  for (std::size_t chunk = 0; chunk < chunks.size(); ++chunk) {
    Planner(context, chunks[chunk], static_cast<std::int64_t>(chunk), buckets).plan();
  }
  if (context.layout.pp > 1) return buckets;
  const auto tied = [&](bool copy) {
    return std::find_if(buckets.begin(), buckets.end(), [&](const Bucket& bucket) {
      return bucket.tied_embedding && bucket.entries.front().parameter->shared_copy == copy;
    });
  };
  const auto words = tied(false), head = tied(true);
  if (head == buckets.end()) return buckets;
  head->values_in = &*words;
  words->parts.insert(words->parts.end(), head->parts.begin(), head->parts.end());
  return buckets;
}

namespace {

Tensor part_of(const Tensor& whole, const Bucket::Entry& entry) {
  Tensor view = whole.flat_slice(entry.first, entry.parameter->elements());
  view.shape = {1, 1, entry.parameter->rows, entry.parameter->columns};
  return view;
}

}  // namespace

void bind_values(Bucket& bucket, const Tensor& values, std::vector<Bucket>& all) {
  for (const Bucket::Entry& entry : bucket.entries) entry.parameter->value = part_of(values, entry);
  for (Bucket& other : all) {
    if (other.values_in == &bucket) bind_values(other, values, all);
  }
}

void bind_gradients(Bucket& bucket, const Tensor& gradients) {
  for (const Bucket::Entry& entry : bucket.entries) entry.parameter->gradient = part_of(gradients, entry);
}

}  // namespace benchsuite
