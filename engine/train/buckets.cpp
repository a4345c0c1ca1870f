#include "engine/train/buckets.h"

#include <limits>
#include <numeric>

namespace benchsuite {

namespace {

constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();

/// Elements at which a bucket of the chunk closes.
std::int64_t bucket_limit(const ModelContext& context, std::int64_t chunk) {
  if (!context.stack.overlaps_gradient_reduction || context.at.pp > 0 || chunk > 0) return kUnlimited;
  return std::max(context.stack.bucket_elements, 1'000'000 * context.layout.dp);
}

void plan_chunk(const ModelContext& context, ChunkParameters& parameters, std::int64_t chunk,
                std::vector<Bucket>& buckets) {
  const bool sharded = context.layout.zero_stage >= 1;
  const std::int64_t limit = bucket_limit(context, chunk);
  Bucket open{.chunk = chunk};
  const auto close = [&](Bucket& bucket) {
    if (bucket.entries.empty()) return;
    if (sharded) bucket.elements = round_up(bucket.elements, std::lcm(context.layout.dp, std::int64_t{128}));
    buckets.push_back(std::move(bucket));
  };
  for (std::size_t index = parameters.all.size(); index-- > 0;) {
    Parameter& parameter = parameters.all[index];
    const bool tied = &parameter == parameters.ends.words || &parameter == parameters.ends.head_words;
    Bucket alone{.chunk = chunk, .tied_embedding = true};
    Bucket& bucket = tied ? alone : open;
    if (sharded) bucket.elements = round_up(bucket.elements, std::int64_t{64});
    bucket.entries.push_back({&parameter, bucket.elements});
    bucket.elements += parameter.elements();
    bucket.ready_after = parameters.layer_of[index];
    if (tied) {
      close(alone);
    } else if (open.elements >= limit) {
      close(open);
      open = Bucket{.chunk = chunk};
    }
  }
  close(open);
}

}  // namespace

std::vector<Bucket> make_buckets(ModelContext& context, std::vector<ChunkParameters>& chunks) {
  std::vector<Bucket> buckets;
  for (std::size_t chunk = 0; chunk < chunks.size(); ++chunk) {
    plan_chunk(context, chunks[chunk], static_cast<std::int64_t>(chunk), buckets);
  }
  for (Bucket& bucket : buckets) {
    Parameter& first = *bucket.entries.front().parameter;
    const bool values_elsewhere = first.shared_copy && context.layout.pp == 1;
    if (!values_elsewhere) {
      bucket.values = context.rec.allocate(Purpose::parameters, index_of(Term::parameter_bucket), context.dtype,
                                           {1, 1, 1, bucket.elements});
    }
    bucket.gradients = context.rec.allocate(Purpose::gradients, index_of(Term::gradient_bucket),
                                            context.stack.gradient_dtype, {1, 1, 1, bucket.elements});
    for (const Bucket::Entry& entry : bucket.entries) {
      Parameter& parameter = *entry.parameter;
      const std::array<std::int64_t, 4> shape{1, 1, parameter.rows, parameter.columns};
      if (!values_elsewhere) {
        parameter.value = bucket.values.flat_slice(entry.first, parameter.elements());
        parameter.value.shape = shape;
      }
      parameter.gradient = bucket.gradients.flat_slice(entry.first, parameter.elements());
      parameter.gradient.shape = shape;
    }
  }
  if (context.layout.pp == 1) chunks.back().ends.head_words->value = chunks.front().ends.words->value;
  return buckets;
}

}  // namespace benchsuite
