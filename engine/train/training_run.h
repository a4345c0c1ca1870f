// A training run: data, learning rate, steps, checkpoints. One code for ranks that are threads of this process, on any device that
// computes, and for a rank of device cpu that is a process of its own (comm/mpi).
//
//   TrainingRun run(plan, {.resume = "checkpoints"}, hooks);
//   TrainingOutcome outcome = run.on_threads(device);
//
// Bit-exact resume: N steps give the same parameters, moments and losses as k steps, a checkpoint, and N - k steps from it,
// under the same layout and on the same device. A checkpoint holds, by rank, every buffer of parameters, masters and moments as it is in memory; the
// data position and the learning rate follow from the step.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/comm/communicator.h"
#include "engine/device/step_rank.h"
#include "engine/train/checkpoint.h"
#include "engine/train/step.h"
#include "engine/train/train_config.h"

namespace benchsuite {

struct StepReport {
  std::int64_t step = 0;     ///< steps done, this one included
  double loss = 0;           ///< mean over all tokens of the global batch
  double gradient_norm = 0;  ///< before clipping
  double learning_rate = 0;
  double seconds = 0;        ///< from the end of the step before (or the start) to the end of this one, on the first rank
};

/// Called on the first rank's thread, between steps; any may be empty.
struct TrainingHooks {
  std::function<void(std::int64_t step, const std::string& folder)> resumed;  ///< state was loaded; steps done before
  std::function<void(const StepReport&)> step;
  std::function<void(std::int64_t step, const std::string& folder)> saved;
  std::function<bool()> stop;  ///< asked by every rank after each step, on its own thread: end after this step
};

struct TrainingOptions {
  std::string resume;  ///< a folder of checkpoints or one checkpoint; empty: start anew
  bool leads = true;   ///< false in processes of other ranks than the first, which leave the folder's lock alone
  Faults faults;       ///< put into every rank's recording, to see the result judged
};

struct TrainingOutcome {
  std::int64_t first_step = 0, steps_done = 0;  ///< before the run and after it, from the start of training
  bool stopped = false;                         ///< because hooks.stop said so
  std::vector<double> loss, gradient_norm;      ///< of the steps of this run
};

class TrainingRun {
 public:
  /// Reads the data and, to resume, the manifest. Throws Error: config when checkpoint.dir holds checkpoints that the run
  /// would not continue, when there is nothing to resume from, or when the checkpoint is of another configuration or layout
  /// (each difference); io when files can't be read or a checkpoint is damaged.
  TrainingRun(TrainingPlan plan, TrainingOptions options, TrainingHooks hooks);
  ~TrainingRun();

  const TrainingPlan& plan() const { return plan_; }
  const TextData& data() const { return data_; }
  int ranks() const { return static_cast<int>(plan_.config.layout.world()); }

  /// All ranks as threads, on a device that is opened for ranks() ranks. Throws what the first rank to fail threw: io for a checkpoint that can't be written (earlier ones
  /// are untouched), run when the loss is no longer finite or a rank breaks.
  TrainingOutcome on_threads(StepDevice& device);
  TrainingOutcome on_threads();  ///< on device cpu

  /// This process's rank in `world`, on device cpu; the world must have ranks() ranks. Throws likewise.
  TrainingOutcome as_rank(Communicator& world, int rank);

 private:
  struct Rank;

  void judge_folders();
  TrainingOutcome live(StepDevice& device, Communicator& world, int rank);
  TrainingOutcome train(Rank& self);
  void start(Rank& self);
  StepReport run_step(Rank& self, std::int64_t step, bool& stop);
  void save(Rank& self, std::int64_t step);

  TrainingPlan plan_;
  TrainingOptions options_;
  TrainingHooks hooks_;
  TextData data_;
  Json identity_;
  std::string resume_folder_;
  CheckpointManifest manifest_;  // of resume_folder_
  std::unique_ptr<CheckpointLock> lock_;
};

}  // namespace benchsuite
