// Conformance of layouts: parallelism, ZeRO, recompute, schedules and overlap change where and when things are computed, and
// nothing else. Every layout of a table trains the same small model on device cpu from the same seed, and is held against one
// rank, or against the layout whose bits it must reproduce.
//
// What must be equal bit for bit (loss and gradient norm of every step, every parameter after the last):
//   recompute in every form, schedules and pipeline depth, overlap, stored and regenerated masks;
//   ZeRO 0 and 1; ZeRO 2 and 3; all four with one micro-batch; in fp32 also fused and separate kernels.
// Tensor, sequence and data parallelism, flash attention and the micro-batch size change the order of sums: a tolerance.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "engine/train/cpu_training.h"
#include "suite/results/conform_report.h"

namespace benchsuite {

/// One layout of the table in one model and precision.
struct ConformSetup {
  std::string id;      ///< "gpt-tiny/fp32/tp2+sp+pp2"; the baseline is "gpt-tiny/fp32/one-rank"
  std::string layout;  ///< the words that make it from the baseline: "tp2 sp pp2"; empty for the baseline
  TrainConfig config;
};

/// The setup's layout without everything that may not change a bit: the one whose bits it must reproduce.
TrainConfig bit_equal_partner(const TrainConfig& config);

/// Every setup: models by precisions by layouts, baselines first of each. Distinct, valid, and with every partner among them.
std::vector<ConformSetup> conform_setups();

ConformTolerance conform_tolerance(DType precision);

/// The words of the rows' layouts, explained.
std::vector<ConformWord> explained_words(const std::vector<ConformRow>& rows);

struct ConformOptions {
  std::string filter = "*";  ///< glob of ids
  int steps = 20;
  int jobs = 0;              ///< layouts trained at the same time; 0: one a core
  Faults faults;             ///< put into every layout but the baselines
};

/// Trains what the filter selects, and the references of that. `told` hears of every row as it is judged, one at a time. A
/// `stop` other than 0 ends it after the layouts under way: the report says `interrupted`.
ConformReport run_conform(const ConformOptions& options, const std::function<void(const ConformRow&, std::size_t of)>& told,
                          const std::atomic<int>& stop);

/// Trains what the filter selects, baselines included, on `device` one after the other, and holds each against the same layout on
/// device cpu, within the tolerance: another device adds in another order.
ConformReport run_conform_on(const TrainingDevice& device, const ConformOptions& options,
                             const std::function<void(const ConformRow&, std::size_t of)>& told, const std::atomic<int>& stop);

}  // namespace benchsuite
