// The seam between the suite and the engine on device `sim`.
#pragma once

#include <atomic>
#include <string>

#include "engine/device/sim/cost_model.h"
#include "engine/train/config.h"
#include "suite/results/run.h"

namespace benchsuite {

/// Faults put in on purpose, so that tests can show that the expectations notice them.
struct Injection {
  bool drop_recomputed_collectives = false;  ///< collectives of phase recompute are not recorded
  double delay_s = 0;                        ///< every variant first waits this long (tests of time limits and signals)

  bool any() const { return drop_recomputed_collectives || delay_s > 0; }
};

struct SimulateOptions {
  bool verify = false;     ///< run the verifier on every recorded Program; an unsound one throws
  std::string trace_file;  ///< when not empty: write a Chrome/Perfetto trace of the step there
  Injection injection;
  const std::atomic<bool>* cancelled =
      nullptr;  ///< may be looked at between recording and replaying; then throw Error (run)
};

/// Records the Programs of every role of `config`, replays them on `hardware` and measures the step.
///
/// Fills every field of VariantResult except id, title, hardware, stack, model, layout, status, reason_code, reason,
/// which the runner sets. What expectations rely on (suite/expectations/metric_value.h gives the names):
///   * `communication` has an entry for every kind that has a closed formula, in a fixed order, also when no such op
///   was
///     recorded: bytes is 0 then, and `expected_bytes` comes from the formula alone, never from the recording.
///   * `stages[r].memory.saved_formula_bytes` likewise.
///   * `mfu` and `hfu` are null, not 0, for hardware without a known peak.
///   * Two calls with equal arguments give equal results, bit for bit; calls may run at the same time on several
///   threads.
///
/// Throws Error: config for a configuration the engine refuses, run for a deadlock or a cancelled run, internal for a
/// defect. A step that doesn't fit in memory is a result (`fits` false), not an error.
VariantResult simulate(const TrainConfig& config, const HardwareProfile& hardware, const SimulateOptions& options);

/// The launches of the stack's host on this hardware.
HostCost host_of(const Stack& stack, const HardwareProfile& hardware);

}  // namespace benchsuite
