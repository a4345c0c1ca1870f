// The memory of one rank as the host sees it around steps, whatever device runs the rank: it fills inputs and parameters, and
// reads results, through views.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "engine/core/error.h"
#include "engine/program/program.h"
#include "engine/program/tensor.h"

namespace benchsuite {

class RankMemory {
 public:
  virtual ~RankMemory() = default;

  virtual const Program& program() const = 0;
  int rank() const { return program().rank; }

  /// Valid until the rank's next step. Where the device has memory of its own this is a copy: what is written to inputs,
  /// parameters, masters and moments reaches the device with the next step.
  virtual std::span<std::byte> bytes(const Operand& operand) = 0;

  /// The tensor's elements as T; throws when T has not the size of its dtype.
  template <class T>
  std::span<T> view(const Tensor& tensor) {
    CHECK(sizeof(T) == static_cast<std::size_t>(size_of(tensor.dtype))) << "a view of " << name_of(tensor.dtype);
    const std::span<std::byte> all = bytes(reads(tensor));
    return {reinterpret_cast<T*>(all.data()), all.size() / sizeof(T)};
  }
};

/// What the host does around the steps of a world of ranks. Each runs on the rank's own thread, at the same time as its peers';
/// any may be empty. Steps count from 0.
template <class Rank>
struct HostWorkOn {
  std::function<void(Rank&)> init;              ///< once, before the first step: parameters, moments
  std::function<void(Rank&, int)> before_step;  ///< inputs: tokens, labels, sample indices, step scalars
  std::function<void(Rank&, int)> after_step;   ///< reading results
};

}  // namespace benchsuite
