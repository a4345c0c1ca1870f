#include "suite/accuracy/row_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <thread>

#include "engine/model/flops.h"
#include "suite/accuracy/ensemble.h"

namespace benchsuite {

namespace {

constexpr double kGB = 1e9, kGiB = 1024.0 * 1024.0 * 1024.0;

/// Everything a simulation depends on.
std::string key_of(const MappedRow& mapped, RowKind kind, const std::string& machine) {
  Json model = to_json(mapped.config.model), stack = to_json(mapped.config.stack);
  for (const char* prose : {"name", "source"}) model.erase(prose);
  for (const char* prose : {"title", "source", "host_source", "memory_source"}) stack.erase(prose);
  const char* what = kind == RowKind::layer_time ? "layer" : kind == RowKind::oom || kind == RowKind::memory ? "memory" : "step";
  return fmt::format("{} {} {} {} {}", what, machine, model.dump(), to_json(mapped.config.layout).dump(), stack.dump());
}

void fill_rates(const MappedRow& mapped, const HardwareProfile& hardware, Prediction& predicted) {
  const ModelConfig& model = mapped.config.model;
  const Layout& layout = mapped.config.layout;
  const FlopsFormula formula = flops_formula_of(model.family, layout.attention == AttentionKernel::flash);
  const auto gpus = static_cast<double>(layout.world());
  const double rate = model_flops(model, layout, formula).total() / predicted.iteration_s / gpus;
  predicted.model_tflops_per_gpu = rate * 1e-12;
  predicted.tokens_per_s_per_gpu = static_cast<double>(layout.global_batch * model.seq) / predicted.iteration_s / gpus;
  if (const auto peak = hardware.peak_flops.find(layout.precision); peak != hardware.peak_flops.end()) {
    predicted.mfu = rate / peak->second;
    predicted.hfu = hardware_flops(model, layout, formula).total() / predicted.iteration_s / gpus / peak->second;
  }
}

std::pair<double, double> band(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) {
    return values[static_cast<std::size_t>(std::llround(share * static_cast<double>(values.size() - 1)))];
  };
  return {at(0.05), at(0.95)};
}

}  // namespace

RowJobs::RowJobs(const DataRoot& root, const SourceRules& rules, const AccuracyOptions& options)
    : root_(root), rules_(rules), options_(options), stacks_(root) {}

MappedRow RowJobs::map(const PublishedRow& row, const std::vector<Setting>& settings) {
  const std::lock_guard lock(mutex_);  // the shelf of stacks grows
  return map_row(row, rules_, stacks_, root_, settings);
}

std::shared_ptr<const HardwareProfile> RowJobs::profile(const std::string& name, const ProfileChange* change) {
  const std::lock_guard lock(mutex_);
  auto& known = profiles_[change ? name + " " + change->name : name];
  if (!known) {
    auto made = std::make_shared<HardwareProfile>(load_hardware(root_.file_of(DataKind::hardware, name)));
    if (change) change->apply(*made);
    known = made;
  }
  return known;
}

std::shared_ptr<const HardwareProfile> RowJobs::drawn(const std::string& name, int draw) {
  const std::shared_ptr<const HardwareProfile> base = profile(name, nullptr);
  const std::lock_guard lock(mutex_);
  auto& known = profiles_[fmt::format("{} draw {}", name, draw)];
  if (!known) known = drawn_profile(*base, options_.seed, draw);
  return known;
}

std::shared_ptr<const Estimated> RowJobs::estimate(const MappedRow& mapped, RowKind kind, const HardwareProfile& hardware,
                                                   const std::string& machine) {
  const std::string key = key_of(mapped, kind, machine);
  {
    std::unique_lock lock(mutex_);
    if (const auto found = known_.find(key); found != known_.end()) {
      made_.wait(lock, [&] { return found->second != nullptr; });
      return found->second;
    }
    known_[key] = nullptr;
  }
  auto made = std::make_shared<Estimated>();
  try {
    if (kind == RowKind::layer_time) {
      made->layer = estimate_layer(mapped.config, hardware);
    } else {
      made->step = estimate_step(mapped.config, hardware,
                                 {.memory_only = kind == RowKind::oom || kind == RowKind::memory});
    }
  } catch (const Error& error) {
    made->refused = error.what();
  }
  const std::lock_guard lock(mutex_);
  known_[key] = made;
  made_.notify_all();
  return made;
}

RowResult RowJobs::result_of(const PublishedRow& row, const MappedRow& mapped, const ProfileChange* change) {
  RowResult result;
  result.id = row.id;
  result.source = row.source;
  result.set = mapped.set;
  result.kind = row.kind;
  result.verified = row.verified;
  result.mapped = mapped.mapped;
  result.reason = mapped.reason;
  result.stack = mapped.stack;
  result.hardware = mapped.hardware;
  result.model = mapped.config.model;
  result.layout = mapped.config.layout;
  result.assumptions = mapped.assumptions;
  result.published = mapped.published;
  if (!mapped.mapped) return result;
  const std::shared_ptr<const HardwareProfile> hardware = profile(mapped.hardware, change);
  const std::shared_ptr<const Estimated> estimated =
      estimate(mapped, row.kind, *hardware, change ? mapped.hardware + " " + change->name : mapped.hardware);
  if (!estimated->refused.empty()) {
    result.mapped = false;
    result.reason = estimated->refused;
    return result;
  }
  const Published& published = result.published;
  Prediction& predicted = result.predicted.emplace();
  if (row.kind == RowKind::layer_time) {
    predicted.layer_forward_s = estimated->layer.forward_s;
    predicted.layer_backward_s = estimated->layer.backward_s;
    result.dominant = "compute";
    const auto error = [](double ours, double theirs) { return 100 * (ours / theirs - 1); };
    result.forward_error_pct = error(predicted.layer_forward_s, published.layer_forward_s);
    result.backward_error_pct = error(predicted.layer_backward_s, published.layer_backward_s);
    result.error_pct = error(predicted.layer_forward_s + predicted.layer_backward_s,
                             published.layer_forward_s + published.layer_backward_s);
    return result;
  }
  const StepEstimate& step = estimated->step;
  predicted.peak_memory_gib = step.peak_gib;
  predicted.fits = step.fits;
  predicted.activation_gib = step.saved_gib;
  predicted.samples = step.samples;
  if (published.peak_memory_gb > 0) {
    result.memory_error_pct = 100 * (step.peak_gib * kGiB / kGB / published.peak_memory_gb - 1);
  } else if (published.activation_gib > 0) {
    result.memory_error_pct = 100 * (step.saved_gib / published.activation_gib - 1);
  }
  result.dominant = "memory";
  if (step.iteration_s > 0) {
    predicted.iteration_s = step.iteration_s;
    fill_rates(mapped, *hardware, predicted);
    result.dominant = dominant_term(step);
    if (published.iteration_s > 0) result.error_pct = 100 * (predicted.iteration_s / published.iteration_s - 1);
  }
  return result;
}

RowResult RowJobs::one(const PublishedRow& row, const std::vector<Setting>& settings, const ProfileChange* change) {
  return result_of(row, map(row, settings), change);
}

std::vector<double> RowJobs::ensemble_of(const PublishedRow& row, const RowResult& result) {
  std::vector<double> times;
  if (!result.predicted || result.predicted->iteration_s <= 0 || !result.error_pct) return times;
  const MappedRow mapped = map(row, {});
  const std::shared_ptr<const HardwareProfile> base = profile(mapped.hardware, nullptr);
  const std::shared_ptr<const Estimated> estimated = estimate(mapped, row.kind, *base, mapped.hardware);
  // Ratios of the alternatives of each unstated setting; one that can't run is no alternative.
  std::vector<std::pair<std::string, std::vector<double>>> ratios;
  if (options_.draw_unstated) {
    for (const UnstatedSetting& unstated : mapped.unstated) {
      std::vector<double> own;
      for (const Json& value : unstated.values) {
        const RowResult other = one(row, {{unstated.key, value}}, nullptr);
        if (other.predicted && other.predicted->iteration_s > 0) {
          own.push_back(other.predicted->iteration_s / result.predicted->iteration_s);
        }
      }
      if (own.size() > 1) ratios.emplace_back(unstated.key, std::move(own));
    }
  }
  for (int draw = 0; draw < options_.draws; ++draw) {
    double time = repriced_step(estimated->step, mapped.config, *base, *drawn(mapped.hardware, draw));
    for (const auto& [key, own] : ratios) {
      const double u = uniform_by(options_.seed, draw, key);
      time *= own[std::min(own.size() - 1, static_cast<std::size_t>(u * static_cast<double>(own.size())))];
    }
    times.push_back(time);
  }
  return times;
}

std::vector<RowResult> RowJobs::run(const std::vector<PublishedRow>& rows, const AccuracyProgress& progress,
                                    const std::atomic<int>& signal, std::vector<std::vector<double>>* draws) {
  std::vector<RowResult> results(rows.size());
  if (draws) draws->assign(rows.size(), {});
  std::atomic<std::size_t> next{0}, done{0};
  std::exception_ptr failure;
  const auto work = [&] {
    try {
      for (std::size_t i = next++; i < rows.size() && signal.load() == 0; i = next++) {
        results[i] = one(rows[i], {}, nullptr);
        if (draws && options_.draws > 0) {
          (*draws)[i] = ensemble_of(rows[i], results[i]);
          if (!(*draws)[i].empty()) results[i].interval = band((*draws)[i]);
        }
        ++done;
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      failure = std::current_exception();
      next = rows.size();
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < std::max(1, options_.threads); ++i) threads.emplace_back(work);
  while (progress && done < rows.size() && signal.load() == 0 && next < rows.size()) {
    progress(done, rows.size());
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
  if (signal.load() != 0) throw Error(Error::Kind::run, "the run was interrupted");
  return results;
}

}  // namespace benchsuite
