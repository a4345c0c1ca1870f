// When the steps of a schedule run if nothing but the schedule decides: by default forward 1, backward 2 (3 with full
// recompute), transfers nothing.
//
// The order of these times is a statement about dependencies: a step that starts before another ends cannot depend on it.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "engine/parallel/schedule.h"

namespace benchsuite {

struct StepTime {
  std::int64_t start = 0, end = 0;
};

class ScheduleTimes {
 public:
  /// `backward`: its length in forwards.
  explicit ScheduleTimes(const ScheduleShape& shape, std::int64_t backward = 2);

  /// Length of a step of a rank, and how long its result travels to the next rank. Any unit.
  using StepLength = std::function<std::int64_t(std::int64_t rank, const Step& step)>;
  ScheduleTimes(const ScheduleShape& shape, const StepLength& length, const StepLength& travel);

  const std::vector<Step>& steps(std::int64_t rank) const { return steps_[static_cast<std::size_t>(rank)]; }
  const StepTime& at(std::int64_t rank, std::size_t step) const { return times_[static_cast<std::size_t>(rank)][step]; }
  /// Position of a step in its rank's order.
  std::size_t index_of(std::int64_t rank, const Step& step) const;
  std::int64_t makespan() const;

  /// Rank and step that take the result of `step` of `rank`; rank -1 when none does.
  struct Consumer {
    std::int64_t rank = -1;
    Step step;
  };
  Consumer consumer_of(std::int64_t rank, const Step& step) const;

 private:
  std::size_t slot(const Step& step) const;

  ScheduleShape shape_;
  std::vector<std::vector<Step>> steps_;            // by rank, in order
  std::vector<std::vector<StepTime>> times_;        // by rank and position
  std::vector<std::vector<std::uint32_t>> position_;  // by rank and slot
};

}  // namespace benchsuite
