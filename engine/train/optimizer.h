// Gradient norm, clipping and AdamW on fp32 masters (Loshchilov & Hutter 2019; megatron-core clip_grads.py), on the parts of the
// buckets this rank owns. Everything the host would decide is a device scalar: norm, clip coefficient, step scalars.
#pragma once

#include <vector>

#include "engine/train/stores.h"

namespace benchsuite {

struct OptimizerConfig {
  float clip = 1.0f;          ///< largest gradient norm; 0: none
  float weight_decay = 0.1f;  ///< matrices only
};

class Optimizer {
 public:
  /// Allocates masters and moments for the owned parts. In fp32 the parameters are their own master.
  Optimizer(ModelContext& context, std::vector<Bucket>& buckets, const GradientStore& gradients,
            ParameterStore& parameters, const OptimizerConfig& config, const Tensor& step_scalars);

  /// Norm, clip coefficient, update, publication of the parameters.
  void step();

  const Tensor& norm_and_clip() const { return clip_; }
  /// The fp32 copy of the owned part of `bucket`; invalid in fp32.
  Tensor master_of(const Bucket& bucket) const;

 private:
  struct State {
    Bucket* bucket;
    Slice owned;
    Tensor values;                               // [owned.count] compute precision
    Tensor master, first_moment, second_moment;  // [owned.count] fp32
  };
  /// A run of owned elements of one kind, in elements of the bucket.
  struct Run {
    Slice slice;
    bool decays;
  };

  static std::vector<Run> runs_of(const State& state);
  void add_squares(const State& state, bool replicated);
  void sum_squares();
  void update(const State& state);

  ModelContext& context_;
  const GradientStore& gradients_;
  ParameterStore& parameters_;
  OptimizerConfig config_;
  Tensor step_scalars_;
  Tensor sum_;   // [kExactSumDigits] fp32: sum of squares, then over the norm group
  Tensor clip_;  // [2] fp32: norm, coefficient
  std::vector<State> states_;
};

}  // namespace benchsuite
