// Turns what a chunk runs into what its buckets need: values before a part, gradients around its backward.
#pragma once

#include <vector>

#include "engine/model/pass_observer.h"
#include "engine/train/stores.h"

namespace benchsuite {

class BucketUses : public PassObserver {
 public:
  BucketUses(ModelContext& context, std::vector<Bucket>& buckets, GradientStore& gradients, ParameterStore& parameters);

  void begin(std::int64_t chunk, const Part& part) override;
  void end(std::int64_t chunk, const Part& part) override;

 private:
  bool backward() const { return context_.rec.at().phase == Phase::backward; }
  const std::vector<Bucket*>& of(std::int64_t chunk, const Part& part) const;
  std::size_t slot(std::int64_t chunk, const Part& part) const;

  ModelContext& context_;
  std::vector<Bucket>& buckets_;
  GradientStore& gradients_;
  ParameterStore& parameters_;
  std::int64_t layers_per_chunk_;
  std::vector<std::vector<Bucket*>> by_part_;  // by slot: buckets whose values or gradients the part uses
};

}  // namespace benchsuite
