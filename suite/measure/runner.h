// Running the variants of a case: on two threads, under a time limit, stopped by signals, never losing what was
// measured.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <string>

#include "suite/cases/resolve.h"
#include "suite/measure/simulate.h"
#include "suite/results/run.h"

namespace benchsuite {

enum class Device : std::uint8_t { sim, cpu, cuda };
std::string_view name_of(Device device);

using SimulateFunction =
    std::function<VariantResult(const TrainConfig&, const HardwareProfile&, const SimulateOptions&)>;

struct RunOptions {
  Device device = Device::sim;
  bool verify = false;
  std::string trace_folder;  ///< when not empty: one trace per variant, CASE.VARIANT.trace.json
  Injection injection;
  double timeout_s = 0;  ///< per case; 0: none
  int repeat = 1;        ///< rounds over all variants
  int threads = 2;       ///< of device sim; what is measured has the machine to itself
  SimulateFunction simulate;  ///< what device sim runs; tests put a double here
  std::function<std::string(int ranks)> why_no_cuda;  ///< what device cuda lacks here; "" when nothing is missing
};

/// Why a case ended early.
enum class Stop : std::uint8_t { none, timed_out, interrupted, terminated };

/// Watches for the ends a case may come to before its variants are done. `signal` is written by a signal handler.
class StopWatch {
 public:
  StopWatch(double timeout_s, const std::atomic<int>& signal);
  Stop poll() const;
  bool has_limit() const { return limited_; }

 private:
  std::chrono::steady_clock::time_point deadline_;
  bool limited_;
  const std::atomic<int>& signal_;
};

/// Runs one variant and never throws: what goes wrong becomes status, reason_code and reason.
VariantResult run_variant(const std::string& case_id, const ResolvedVariant& variant, const RunOptions& options,
                          const std::atomic<bool>* cancelled);

/// Called on the caller's thread, for each variant when its last round ended, in the order they finish.
using VariantDone = std::function<void(const VariantResult&)>;
/// Called now and then while waiting, with the number of finished variants.
using Waiting = std::function<void(std::size_t)>;

/// Runs all variants and returns their results in the order of the case. When stopped, variants without a result become
/// TIMEOUT or ABORTED and their threads are left behind: the process must end without joining them (see main).
std::vector<VariantResult> run_variants(const ResolvedCase& resolved, const RunOptions& options, const StopWatch& watch,
                                        const VariantDone& done, const Waiting& waiting);

}  // namespace benchsuite
