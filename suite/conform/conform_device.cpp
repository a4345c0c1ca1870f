// Conformance of another device: every layout of the table on it, against the same layout on device cpu.
#include <fmt/format.h>
#include <fnmatch.h>

#include <chrono>
#include <cmath>
#include <limits>

#include "suite/conform/conform.h"

namespace benchsuite {

namespace {

double distance(double a, double b) {
  const double apart = std::fabs(a - b);
  return std::isnan(apart) ? std::numeric_limits<double>::infinity() : apart;
}

ConformRow judge(const ConformSetup& setup, const CpuTrainingResult& device, const CpuTrainingResult& cpu) {
  ConformRow row{.id = setup.id, .layout = setup.layout, .against = "device cpu"};
  for (std::size_t step = 0; step < cpu.loss.size(); ++step) {
    const double norm = cpu.gradient_norm[step];
    row.max_abs_loss = std::max(row.max_abs_loss, distance(device.loss[step], cpu.loss[step]));
    row.max_rel_grad_norm = std::max(row.max_rel_grad_norm, distance(device.gradient_norm[step], norm) / std::fabs(norm));
  }
  const ConformTolerance tolerance = conform_tolerance(setup.config.layout.precision);
  row.pass = row.max_abs_loss <= tolerance.loss && row.max_rel_grad_norm <= tolerance.gradient_norm;
  if (!row.pass) {
    row.note = fmt::format("beyond the tolerance of {:.0e} in loss and {:.0e} in gradient norm", tolerance.loss,
                           tolerance.gradient_norm);
  }
  return row;
}

}  // namespace

ConformReport run_conform_on(const TrainingDevice& device, const ConformOptions& options,
                             const std::function<void(const ConformRow&, std::size_t)>& told, const std::atomic<int>& stop) {
  const auto began = std::chrono::steady_clock::now();
  ConformReport report;
  std::vector<ConformSetup> chosen;
  std::vector<ConformSetup> table = conform_setups();
  for (ConformSetup& setup : table) {
    if (fnmatch(options.filter.c_str(), setup.id.c_str(), 0) != 0) continue;
    if (device.why_unavailable(static_cast<int>(setup.config.layout.world())).empty()) {
      chosen.push_back(std::move(setup));
    } else {
      ++report.left_out;
    }
  }
  report.steps = options.steps;
  for (const DType precision : {DType::fp32, DType::bf16}) report.tolerances.push_back(conform_tolerance(precision));
  for (const ConformSetup& setup : chosen) {
    if (stop.load() != 0) break;
    ConformRow row{.id = setup.id, .layout = setup.layout, .against = "device cpu"};
    try {
      const CpuTrainingResult cpu = train_on_cpu(setup.config, {.steps = options.steps});
      row = judge(setup, train_on(setup.config, {.steps = options.steps, .faults = options.faults}, device.run), cpu);
    } catch (const std::exception& error) {
      row.max_abs_loss = row.max_rel_grad_norm = std::numeric_limits<double>::infinity();
      row.note = error.what();
    }
    if (told) told(row, chosen.size());
    report.rows.push_back(std::move(row));
  }
  report.words = explained_words(report.rows);
  report.interrupted = stop.load() != 0;
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  return report;
}

}  // namespace benchsuite
