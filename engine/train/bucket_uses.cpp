#include "engine/train/bucket_uses.h"

#include <algorithm>

namespace benchsuite {

namespace {

/// Of any chunk of this rank.
std::int64_t most_layers(const ModelContext& context) {
  std::int64_t most = 0;
  for (std::int64_t chunk = 0; chunk < context.layout.vpp; ++chunk) {
    most = std::max(most, layers_of(context.model.layers, context.layout, context.at.pp, chunk).count);
  }
  return most;
}

}  // namespace

BucketUses::BucketUses(ModelContext& context, std::vector<Bucket>& buckets, GradientStore& gradients,
                       ParameterStore& parameters)
    : context_(context),
      buckets_(buckets),
      gradients_(gradients),
      parameters_(parameters),
      layers_per_chunk_(most_layers(context)),
      by_part_(static_cast<std::size_t>(context.layout.vpp * (2 * layers_per_chunk_ + 2))) {
  for (Bucket& bucket : buckets_) {
    for (const Part& part : bucket.parts) by_part_[slot(bucket.chunk, part)].push_back(&bucket);
  }
}

std::size_t BucketUses::slot(std::int64_t chunk, const Part& part) const {
  const std::int64_t first = chunk * (2 * layers_per_chunk_ + 2);
  switch (part.kind) {
    case Part::Kind::embedding: return static_cast<std::size_t>(first);
    case Part::Kind::attention: return static_cast<std::size_t>(first + 1 + 2 * part.layer);
    case Part::Kind::mlp: return static_cast<std::size_t>(first + 2 + 2 * part.layer);
    case Part::Kind::head: return static_cast<std::size_t>(first + 2 * layers_per_chunk_ + 1);
  }
  return 0;
}

const std::vector<Bucket*>& BucketUses::of(std::int64_t chunk, const Part& part) const {
  return by_part_[slot(chunk, part)];
}

namespace {

/// The words' bucket lists the head's part when the head reads them (p = 1); its gradients are then the head's own bucket's.
bool has_gradients_in(const Bucket& bucket, const Part& part) {
  return !(bucket.tied_embedding && !bucket.values_in && part.kind == Part::Kind::head &&
           !bucket.entries.front().parameter->shared_copy);
}

}  // namespace

void BucketUses::begin(std::int64_t chunk, const Part& part) {
  for (Bucket* bucket : of(chunk, part)) {
    if (!bucket->values_in) parameters_.acquire(*bucket);
  }
  if (!backward()) return;
  for (Bucket* bucket : of(chunk, part)) {
    if (has_gradients_in(*bucket, part) && bucket->parts.back() == part) gradients_.begin_backward(*bucket);
  }
}

void BucketUses::end(std::int64_t chunk, const Part& part) {
  if (backward()) {
    const bool last = context_.rec.at().micro_batch == context_.layout.micro_batches() - 1;
    for (Bucket* bucket : of(chunk, part)) {
      if (has_gradients_in(*bucket, part) && bucket->parts.front() == part) gradients_.end_backward(*bucket, last);
    }
  }
  for (Bucket* bucket : of(chunk, part)) {
    if (!bucket->values_in) parameters_.release(*bucket);
  }
}

}  // namespace benchsuite
