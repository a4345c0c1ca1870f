// ZeRO as strategies (Rajbhandari et al. 2020, section 5): where gradients are kept and reduced, and where parameters live. The
// trainer and the optimizer ask; no layer knows the stage.
//
//   stage   gradients                                             parameters
//   0       whole; all-reduced at the end of the step             whole
//   1       whole; reduce-scattered at the end of the step        whole; own slice updated, then gathered
//   2       own slice; reduce-scattered in every micro-batch      as 1
//   3       as 2                                                  own slice; gathered before use, released after
//
// Where the stack overlaps them, the gathers of stages 1 and 2 stand at the start of the step: a step gathers what the one before
// it updated, each bucket behind the forward pass of the one before (megatron-core --overlap-param-gather).
//
// The two gradients of a tied word embedding stay whole until the step's end under every stage, because they are summed
// first; so all stages add the same numbers in the same order when there is one micro-batch.
#pragma once

#include <memory>

#include "engine/train/buckets.h"

namespace benchsuite {

/// A run of a bucket's elements.
struct Slice {
  std::int64_t first = 0, count = 0;
};

/// The part of `bucket` whose optimizer state this rank holds: all of it, or under ZeRO the slice of its data-parallel rank.
Slice owned_slice(const ModelContext& context, const Bucket& bucket);

/// The part of `entry` inside `slice`, in elements of the bucket.
Slice intersection(const Bucket::Entry& entry, const Slice& slice);

/// Copies the values or gradients of `bucket` from `from` to `to`, a kernel for each data-parallel member's part of each of its
/// parameters (sharded_parameters.by_lists).
void copy_by_members(ModelContext& context, const Bucket& bucket, const Tensor& from, const Tensor& to);

class GradientStore {
 public:
  virtual ~GradientStore() = default;

  /// Sets gradients to zero at the start of a step.
  virtual void clear() = 0;
  /// The backward pass of a micro-batch reaches the first part of `bucket`.
  virtual void begin_backward(Bucket& bucket) = 0;
  /// ... and has left its last part.
  virtual void end_backward(Bucket& bucket, bool last_micro_batch) = 0;
  /// All micro-batches are through, tied gradients are summed: after this the owned gradients are sums over all replicas.
  virtual void finish(Bucket& bucket) = 0;

  /// [owned_slice.count] gradients this rank owns.
  virtual Tensor owned(const Bucket& bucket) const = 0;
  /// The gradient of a parameter of `bucket` where a sum over tensor ranks may be added to it: whole, or none under ZeRO-2 and 3.
  virtual std::vector<Tensor> owned_parts(const Bucket& bucket, const Parameter& parameter) const = 0;
};

class ParameterStore {
 public:
  virtual ~ParameterStore() = default;

  /// The step begins.
  virtual void begin() {}
  /// A part that uses `bucket` begins: its values must be there.
  virtual void acquire(Bucket& bucket) = 0;
  /// That part has ended.
  virtual void release(Bucket& bucket) = 0;
  /// The owned values are updated: make every copy current.
  virtual void publish(Bucket& bucket) = 0;
  /// The step is over: nothing gathered is kept.
  virtual void finish() = 0;

  /// [owned_slice.count] values this rank updates.
  virtual Tensor owned(const Bucket& bucket) const = 0;
  /// Whether all of `bucket` is current between steps, or only what this rank owns.
  virtual bool keeps_whole(const Bucket& bucket) const = 0;
};

/// Buckets in the order in which parts acquire them over a step: what ZeRO-3 prefetches by. Indices into the buckets.
using UseOrder = std::vector<std::size_t>;

std::unique_ptr<GradientStore> make_gradient_store(ModelContext& context, std::vector<Bucket>& buckets);

/// `order` is needed under ZeRO-3 and ignored otherwise.
std::unique_ptr<ParameterStore> make_parameter_store(ModelContext& context, std::vector<Bucket>& buckets,
                                                     const UseOrder& order);

/// Whole parameters that note who acquires what: the first recording of a ZeRO-3 step.
std::unique_ptr<ParameterStore> make_tracing_store(ModelContext& context, std::vector<Bucket>& buckets, UseOrder& order);

}  // namespace benchsuite
