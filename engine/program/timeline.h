// What happened when: the spans of one rank's ops, on virtual (sim) or real (cpu, cuda) time.
#pragma once

#include <vector>

#include "engine/core/letters.h"
#include "engine/program/program.h"

namespace benchsuite {

/// When one op ran. A collective's `ready` is the instant this rank arrived; `start` is when the last member did.
struct Span {
  Picoseconds ready = -1;
  Picoseconds start = -1;
  Picoseconds end = -1;
};

/// Spans by op id of one Program. Times count from the start of the step.
struct Timeline {
  std::vector<Span> spans;
  Picoseconds end = 0;  ///< when the rank's last op ended
};

}  // namespace benchsuite
