// When nothing but the host's launch kept an op from starting, or a rank from arriving at a collective. It shows as the time
// between the end of everything an op waits for and its `ready`: a replay starts what can start in the same instant.
#pragma once

#include <array>
#include <vector>

#include "engine/program/program.h"
#include "engine/program/timeline.h"

namespace benchsuite {

struct Interval {
  Picoseconds begin = 0, end = 0;
};

class Launches {
 public:
  explicit Launches(std::size_t ops) : met_(ops) {}

  /// Every op of the program, in recording order.
  void see(const Program& program, const Timeline& timeline, OpId id);

  /// Of compute op `id`, seen last, and of the communication it waits for: ascending, apart.
  const std::vector<Interval>& before(const Program& program, const Timeline& timeline, OpId id);

 private:
  std::vector<Picoseconds> met_;  ///< when everything the op waits for had ended
  std::array<Picoseconds, kStreams> last_end_{};
  std::vector<Interval> found_;
};

}  // namespace benchsuite
