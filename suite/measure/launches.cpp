#include "suite/measure/launches.h"

#include <algorithm>

namespace benchsuite {

void Launches::see(const Program& program, const Timeline& timeline, OpId id) {
  const Op& op = program.ops[id];
  Picoseconds& last = last_end_[static_cast<std::size_t>(op.stream)];
  met_[id] = last;
  for (std::uint32_t i = 0; i < op.wait_count; ++i)
    met_[id] = std::max(met_[id], timeline.spans[program.waits[op.first_wait + i]].end);
  last = timeline.spans[id].end;
}

const std::vector<Interval>& Launches::before(const Program& program, const Timeline& timeline, OpId id) {
  found_.clear();
  const auto add = [&](OpId op) {
    if (met_[op] < timeline.spans[op].ready) found_.push_back({met_[op], timeline.spans[op].ready});
  };
  add(id);
  const Op& op = program.ops[id];
  for (std::uint32_t i = 0; i < op.wait_count; ++i) {
    const OpId waited = program.waits[op.first_wait + i];
    if (is_communication(program.ops[waited].kind)) add(waited);
  }
  std::sort(found_.begin(), found_.end(), [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  Picoseconds until = 0;
  for (Interval& interval : found_) {
    interval.begin = std::max(interval.begin, until);
    until = interval.end = std::max(interval.end, interval.begin);
  }
  return found_;
}

}  // namespace benchsuite
