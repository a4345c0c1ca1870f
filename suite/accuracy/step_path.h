// The longest chain of a simulated step: which ops, on whatever rank, its time consists of.
//
// An op begins when what it waited for longest has ended: the op before it on its stream, an op of another stream, the last
// member to arrive at its collective, or the host's launch. Followed back from the end of the step, that gives a chain of
// spans without a gap whose lengths add up to the step, exactly. On a slightly different machine the same chain takes the sum
// of its ops' new times, and the step is the longest of all chains: so a chain's new time is a bound from below (as long as
// sharing stays alike), and the largest of a few chains, found on machines that differ in what is fast, is close.
//
// Ops of equal shape count together. Of an op's span its time alone is told apart from what collectives beside it add by the SMs
// they hold.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <vector>

#include "engine/device/sim/priced_world.h"

namespace benchsuite {

/// Ops of one shape on the chain.
struct PathEntry {
  OpShape shape;
  Site site{};                         ///< compute
  std::optional<CollectiveSpan> span;  ///< communication: where its ranks sit
  double seconds = 0;
  double crowded_inside_s = 0, crowded_across_s = 0;  ///< of `seconds`: added by SMs that collectives in a node, across nodes hold
};

struct StepPath {
  std::vector<PathEntry> entries;
  double launch_s = 0;  ///< the host's launches one after the other, from the start or from where the host waited, until the device takes over
  double fixed_s = 0;   ///< before the first launch
  double seconds() const;
};

/// Looks for chains in replays of one world on several machines.
class PathFinder {
 public:
  /// `world` must outlive it.
  explicit PathFinder(const World& world);
  /// `priced` is this world on the machine of `costs`, `replayed` its replay.
  StepPath find(const PricedWorld& priced, const ReplayResult& replayed, const CostModel& costs) const;

 private:
  struct RoleIndex {
    std::vector<OpId> previous;               ///< on the op's stream, by op
    std::vector<std::vector<OpId>> of_group;  ///< ops by the role's group, in order
    std::array<OpId, kStreams> last{};        ///< by stream
    std::vector<OpId> host_waits;             ///< before which ops the host waits
  };
  friend class PathWalk;

  const World& world_;
  std::vector<RoleIndex> roles_;
};

/// The chain of a configuration between (or beyond) two that differ in layers or micro-batches: seconds continued along the
/// straight line by `line`, entry by entry. Entries are matched by what they stand for; where sizes follow the depth (the
/// optimizer's), by kind and site in order, with the second one's shape.
StepPath continued(const StepPath& low, const StepPath& high, const std::function<double(double, double)>& line);

}  // namespace benchsuite
