// ZeRO as two strategies (Rajbhandari et al. 2020, section 5): where the reduced gradients of a bucket end up, and how the
// updated parameters get back to every replica. The trainer and the optimizer ask; no layer knows the stage.
//
//   stage   gradients                    parameters
//   0       all-reduce, whole bucket     whole, nothing to gather
//   1       reduce-scatter, own slice    own slice updated, all-gather
//
// Stages 2 and 3 are further classes: reduce per micro-batch, and gather on use.
#pragma once

#include <memory>

#include "engine/train/buckets.h"

namespace benchsuite {

/// A run of a bucket's elements.
struct Slice {
  std::int64_t first = 0, count = 0;
};

class GradientStore {
 public:
  virtual ~GradientStore() = default;

  /// All gradients of the bucket are recorded: start its reduction over the data-parallel group.
  virtual void reduce(const Bucket& bucket) = 0;
  /// The part of the bucket this rank owns: after `reduce` its gradients are sums over all replicas.
  virtual Slice owned(const Bucket& bucket) const = 0;
  /// The group over which sums over owned parts are sums over the whole model (gradient norm), or kNone when one rank has all.
  virtual std::uint32_t norm_group() const = 0;
};

class ParameterStore {
 public:
  virtual ~ParameterStore() = default;

  /// The owned part of the bucket is updated: make the whole bucket current on every replica.
  virtual void publish(const Bucket& bucket) = 0;
};

std::unique_ptr<GradientStore> make_gradient_store(ModelContext& context);
std::unique_ptr<ParameterStore> make_parameter_store(ModelContext& context, const GradientStore& gradients);

}  // namespace benchsuite
