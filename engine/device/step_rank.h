// Ranks that compute steps, and the device that makes them: what a training run needs, whatever runs the Programs.
#pragma once

#include <memory>
#include <string>

#include "engine/device/rank_memory.h"

namespace benchsuite {

class Communicator;

class StepRank : public RankMemory {
 public:
  /// Runs every op once; results are there when it returns. All ranks of `world` call it on a thread of their own, inside run_as
  /// where they are threads. Throws with rank and op in front of what went wrong; Error (run) when a peer failed.
  virtual void run_step(Communicator& world) = 0;
};

/// Makes the ranks of one run, and outlives them.
class StepDevice {
 public:
  virtual ~StepDevice() = default;

  /// On the thread that will run the rank. The Program must outlive the rank.
  virtual std::unique_ptr<StepRank> make_rank(const Program& program) = 0;

  /// A rank has failed: nobody is to wait for it. To be called once the world knows, and while the rank still has its memory.
  virtual void end(const std::string& why) = 0;
};

}  // namespace benchsuite
