// Many rows simulated on a few threads, equal configurations once.
#pragma once

#include <atomic>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "suite/accuracy/accuracy.h"
#include "suite/accuracy/ensemble.h"

namespace benchsuite {

/// What one configuration gives; either an estimate or why there is none.
struct Estimated {
  StepEstimate step;
  LayerTime layer;
  std::string refused;  ///< the reason when it can't be simulated
};

/// A change of the machine that an ablation makes, with a name that tells two apart.
struct ProfileChange {
  std::string name;
  std::function<void(HardwareProfile&)> apply;
};

class RowJobs {
 public:
  RowJobs(const DataRoot& root, const SourceRules& rules, const AccuracyOptions& options);

  /// One result a row, in order. With `draws`, for each row the predicted times of the ensemble. Throws Error (run) when `signal`
  /// is set meanwhile.
  std::vector<RowResult> run(const std::vector<PublishedRow>& rows, const AccuracyProgress& progress,
                             const std::atomic<int>& signal, std::vector<std::vector<double>>* draws);

  /// A row as it is, or with settings; without intervals.
  RowResult one(const PublishedRow& row, const std::vector<Setting>& settings);
  /// A row on changed machines.
  std::vector<RowResult> on_machines(const PublishedRow& row, const std::vector<const ProfileChange*>& changes);

  std::size_t simulated() const { return known_.size(); }

 private:
  std::shared_ptr<const HardwareProfile> profile(const std::string& name, const ProfileChange* change);
  std::shared_ptr<const Machine> drawn(const std::string& name, int draw);
  /// Empty where nothing is drawn.
  Corners corners(const std::string& name);
  std::shared_ptr<const Estimated> estimate(const MappedRow& mapped, RowKind kind, const HardwareProfile& hardware,
                                            const std::string& machine, StepEstimator& estimator);
  static std::shared_ptr<const Estimated> simulate_one(const MappedRow& mapped, RowKind kind, const HardwareProfile& hardware,
                                                       StepEstimator& estimator);
  /// `estimator` is of the row's configuration and kind.
  RowResult result_of(const PublishedRow& row, const MappedRow& mapped, const ProfileChange* change, StepEstimator& estimator);
  std::vector<double> ensemble_of(const PublishedRow& row, const RowResult& result, const std::atomic<int>& signal);
  MappedRow map(const PublishedRow& row, const std::vector<Setting>& settings);

  const DataRoot& root_;
  const SourceRules& rules_;
  const AccuracyOptions& options_;
  std::mutex mutex_;
  StackShelf stacks_;
  std::map<std::string, std::shared_ptr<const HardwareProfile>> profiles_;
  std::map<std::string, std::vector<std::shared_ptr<const Machine>>> drawn_;  ///< by profile, then draw
  std::map<std::string, Corners> corners_;                                    ///< by profile
  std::map<std::string, std::shared_future<std::shared_ptr<const Estimated>>> known_;  ///< by configuration
};

}  // namespace benchsuite
