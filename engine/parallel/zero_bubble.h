// Zero-bubble pipeline schedules by the source's own search (Qi et al. 2024, arXiv:2401.10241, section 3.1 and appendix A;
// sail-sg/zero-bubble-pipeline-parallelism, auto_schedule.py).
//
// The backward pass is cut in two: the gradient of the input, which the stage before waits for, and that of the weights,
// which nothing waits for and which fills bubbles. How many micro-batches may be in flight is bounded by memory: p times
// what a forward saves for ZB-1p, 2 p times for ZB-2p. The search is greedy, with three rules each on or off; the shortest
// of the eight schedules is taken.
#pragma once

#include <cstdint>
#include <vector>

namespace benchsuite {

struct ZeroBubblePass {
  enum class Kind : std::uint8_t { forward, input_gradient, weight_gradient } kind{};
  std::int32_t micro_batch = 0;
  std::int64_t start = 0, end = 0;
};

/// Lengths of a stage's three passes and of a transfer to the next stage; any unit.
struct ZeroBubbleTimes {
  std::int64_t forward = 0, input_gradient = 0, weight_gradient = 0, travel = 0;
};

/// What a forward saves, what of that the weight gradient still needs, and the most that a stage may hold; any unit.
struct ZeroBubbleMemory {
  std::int64_t saved = 0, kept_for_weights = 0, limit = 0;
};

struct ZeroBubbleSchedule {
  std::vector<std::vector<ZeroBubblePass>> ranks;  ///< by rank, in order

  std::int64_t makespan() const;
  /// The longest time a rank takes from its first pass to its last. Where no rank waits for others at the optimizer step (the
  /// paper's section 4), steps follow each other this closely.
  std::int64_t span() const;
};

/// The schedule of `pipeline` stages and `micro_batches`. Throws Error when the limit admits no schedule.
ZeroBubbleSchedule zero_bubble_schedule(std::int64_t pipeline, std::int64_t micro_batches, const ZeroBubbleTimes& times,
                                        const ZeroBubbleMemory& memory);

}  // namespace benchsuite
