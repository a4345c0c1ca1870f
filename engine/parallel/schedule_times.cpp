#include "engine/parallel/schedule_times.h"

#include <algorithm>

namespace benchsuite {

namespace {
constexpr std::int64_t kNever = -1;
}

std::size_t ScheduleTimes::slot(const Step& step) const {
  const std::int64_t side = step.kind == Step::Kind::forward ? 0 : 1;
  return static_cast<std::size_t>((side * shape_.chunks + step.chunk) * shape_.micro_batches + step.micro_batch);
}

std::size_t ScheduleTimes::index_of(std::int64_t rank, const Step& step) const {
  return position_[static_cast<std::size_t>(rank)][slot(step)];
}

ScheduleTimes::Consumer ScheduleTimes::consumer_of(std::int64_t rank, const Step& step) const {
  const std::int64_t p = shape_.pipeline;
  Consumer consumer{rank, step};
  if (step.kind == Step::Kind::forward) {
    consumer.rank = (rank + 1) % p;
    if (rank == p - 1) ++consumer.step.chunk;
    if (consumer.step.chunk == shape_.chunks) return {};
  } else {
    consumer.rank = (rank + p - 1) % p;
    if (rank == 0) --consumer.step.chunk;
    if (consumer.step.chunk < 0) return {};
  }
  return consumer;
}

ScheduleTimes::ScheduleTimes(const ScheduleShape& shape, std::int64_t backward)
    : ScheduleTimes(
          shape,
          [backward](std::int64_t, const Step& step) { return step.kind == Step::Kind::forward ? 1 : backward; },
          [](std::int64_t, const Step&) { return 0; }) {}

ScheduleTimes::ScheduleTimes(const ScheduleShape& shape, const StepLength& length, const StepLength& travel)
    : shape_(shape) {
  const auto ranks = static_cast<std::size_t>(shape.pipeline);
  const auto slots = static_cast<std::size_t>(2 * shape.chunks * shape.micro_batches);
  std::vector<std::vector<std::int64_t>> arrival(ranks);  // by rank and slot: when its input from another rank is there
  for (std::int64_t rank = 0; rank < shape.pipeline; ++rank) {
    steps_.push_back(schedule(shape, rank));
    const std::vector<Step>& steps = steps_.back();
    times_.emplace_back(steps.size());
    position_.emplace_back(slots);
    for (std::size_t k = 0; k < steps.size(); ++k) position_.back()[slot(steps[k])] = static_cast<std::uint32_t>(k);
    arrival[static_cast<std::size_t>(rank)].assign(slots, 0);
  }
  for (std::int64_t rank = 0; rank < shape.pipeline; ++rank) {
    for (const Step& step : steps(rank)) {
      const Consumer consumer = consumer_of(rank, step);
      if (consumer.rank >= 0) arrival[static_cast<std::size_t>(consumer.rank)][slot(consumer.step)] = kNever;
    }
  }

  std::vector<std::size_t> next(ranks, 0);
  std::vector<std::int64_t> free_at(ranks, 0);
  std::vector<std::int64_t> ready;
  for (std::int64_t rank = 0; rank < shape.pipeline; ++rank) ready.push_back(rank);
  std::size_t done = 0;
  while (!ready.empty()) {
    const std::int64_t rank = ready.back();
    ready.pop_back();
    const auto r = static_cast<std::size_t>(rank);
    while (next[r] < steps_[r].size()) {
      const Step& step = steps_[r][next[r]];
      const std::int64_t input = arrival[r][slot(step)];
      if (input == kNever) break;
      StepTime& time = times_[r][next[r]];
      time.start = std::max(input, free_at[r]);
      time.end = free_at[r] = time.start + length(rank, step);
      ++next[r];
      ++done;
      const Consumer consumer = consumer_of(rank, step);
      if (consumer.rank < 0) continue;
      arrival[static_cast<std::size_t>(consumer.rank)][slot(consumer.step)] =
          time.end + (consumer.rank != rank ? travel(rank, step) : 0);
      if (consumer.rank != rank) ready.push_back(consumer.rank);
    }
  }
  CHECK(done == ranks * slots) << "the schedule never ends: " << done << " of " << ranks * slots << " steps ran";
}

std::int64_t ScheduleTimes::makespan() const {
  std::int64_t end = 0;
  for (const auto& times : times_) end = std::max(end, times.back().end);
  return end;
}

}  // namespace benchsuite
