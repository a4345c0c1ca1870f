#include "engine/train/stores.h"

namespace benchsuite {

namespace {

void collective(ModelContext& context, OpKind kind, std::int64_t elements, Reduction reduction, const Tensor& in,
                const Tensor& out) {
  const OpShape shape{.kind = kind, .dtype = in.dtype, .out_dtype = out.dtype, .reduction = reduction, .dims = {elements}};
  if (kind == OpKind::all_reduce) {
    context.rec.communicate(StreamKind::data, context.data_group, shape, {updates(in)});
  } else {
    context.rec.communicate(StreamKind::data, context.data_group, shape, {reads(in), writes(out)});
  }
}

/// Stage 0.
class AllReducedGradients : public GradientStore {
 public:
  explicit AllReducedGradients(ModelContext& context) : context_(context) {}

  void reduce(const Bucket& bucket) override {
    if (context_.layout.dp == 1) return;
    collective(context_, OpKind::all_reduce, bucket.elements, Reduction::sum, bucket.gradients, bucket.gradients);
  }
  Slice owned(const Bucket& bucket) const override { return {0, bucket.elements}; }
  std::uint32_t norm_group() const override {
    return context_.layout.tp * context_.layout.pp > 1 ? context_.model_parallel_group : kNone;
  }

 private:
  ModelContext& context_;
};

/// Stage 1: rank k of the data-parallel group owns slice k of every bucket.
class ScatteredGradients : public GradientStore {
 public:
  explicit ScatteredGradients(ModelContext& context) : context_(context) {}

  void reduce(const Bucket& bucket) override {
    if (context_.layout.dp == 1) return;
    const Slice mine = owned(bucket);
    collective(context_, OpKind::reduce_scatter, bucket.elements, Reduction::sum, bucket.gradients,
               bucket.gradients.flat_slice(mine.first, mine.count));
  }
  Slice owned(const Bucket& bucket) const override {
    const std::int64_t count = div_exact(bucket.elements, context_.layout.dp);
    return {context_.at.dp * count, count};
  }
  std::uint32_t norm_group() const override { return context_.grid.world() > 1 ? context_.world_group : kNone; }

 private:
  ModelContext& context_;
};

class WholeParameters : public ParameterStore {
 public:
  void publish(const Bucket&) override {}
};

class GatheredParameters : public ParameterStore {
 public:
  GatheredParameters(ModelContext& context, const GradientStore& gradients)
      : context_(context), gradients_(gradients) {}

  void publish(const Bucket& bucket) override {
    if (context_.layout.dp == 1) return;
    const Slice mine = gradients_.owned(bucket);
    collective(context_, OpKind::all_gather, bucket.elements, Reduction::none,
               bucket.values.flat_slice(mine.first, mine.count), bucket.values);
  }

 private:
  ModelContext& context_;
  const GradientStore& gradients_;
};

}  // namespace

std::unique_ptr<GradientStore> make_gradient_store(ModelContext& context) {
  if (context.layout.zero_stage == 0) return std::make_unique<AllReducedGradients>(context);
  return std::make_unique<ScatteredGradients>(context);
}

std::unique_ptr<ParameterStore> make_parameter_store(ModelContext& context, const GradientStore& gradients) {
  if (context.layout.zero_stage == 0) return std::make_unique<WholeParameters>();
  return std::make_unique<GatheredParameters>(context, gradients);
}

}  // namespace benchsuite
