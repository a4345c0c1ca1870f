#include "suite/accuracy/row_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <optional>

#include "engine/core/parallel.h"
#include "engine/device/sim/cost_model.h"
#include "engine/model/flops.h"

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
    const FlopsCount computed = hardware_flops(model, layout, formula, mapped.config.stack.recomputes_head);
    predicted.hfu = computed.total() / predicted.iteration_s / gpus / peak->second;
  }
}

std::pair<double, double> band(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) {
    return values[static_cast<std::size_t>(std::llround(share * static_cast<double>(values.size() - 1)))];
  };
  return {at(kIntervalTail), at(1 - kIntervalTail)};
}

/// Records nothing until it is asked.
StepEstimator estimator_of(const MappedRow& mapped, RowKind kind, const Corners& corners) {
  SteadyStateOptions options = corners.empty() ? SteadyStateOptions{} : options_for(corners);
  options.memory_only = kind == RowKind::oom || kind == RowKind::memory;
  return StepEstimator(mapped.config, options);
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

std::shared_ptr<const Machine> RowJobs::drawn(const std::string& name, int draw) {
  const std::shared_ptr<const HardwareProfile> base = profile(name, nullptr);
  const std::lock_guard lock(mutex_);
  auto& all = drawn_[name];
  all.resize(static_cast<std::size_t>(options_.draws));
  auto& known = all[static_cast<std::size_t>(draw)];
  if (!known) known = drawn_machine(*base, options_.seed, draw);
  return known;
}

Corners RowJobs::corners(const std::string& name) {
  if (options_.draws == 0) return {};
  const std::shared_ptr<const HardwareProfile> base = profile(name, nullptr);
  const std::lock_guard lock(mutex_);
  Corners& known = corners_[name];
  if (known.empty()) known = corners_of(*base);
  return known;
}

std::shared_ptr<const Estimated> RowJobs::estimate(const MappedRow& mapped, RowKind kind, const HardwareProfile& hardware,
                                                   const std::string& machine, StepEstimator& estimator) {
  std::promise<std::shared_ptr<const Estimated>> promise;
  {
    std::unique_lock lock(mutex_);
    const auto [known, is_new] = known_.try_emplace(key_of(mapped, kind, machine), promise.get_future());
    if (!is_new) {
      const std::shared_future<std::shared_ptr<const Estimated>> made = known->second;
      lock.unlock();
      return made.get();  // by whoever came first
    }
  }
  try {
    const std::shared_ptr<const Estimated> made = simulate_one(mapped, kind, hardware, estimator);
    promise.set_value(made);
    return made;
  } catch (...) {
    promise.set_exception(std::current_exception());  // who waits fails alike
    throw;
  }
}

std::shared_ptr<const Estimated> RowJobs::simulate_one(const MappedRow& mapped, RowKind kind, const HardwareProfile& hardware,
                                                       StepEstimator& estimator) {
  auto made = std::make_shared<Estimated>();
  try {
    if (kind == RowKind::layer_time) {
      made->layer = estimate_layer(mapped.config, hardware);
    } else {
      made->step = estimator.on(hardware);
    }
  } catch (const Error& error) {
    made->refused = error.what();
  }
  return made;
}

RowResult RowJobs::result_of(const PublishedRow& row, const MappedRow& mapped, const ProfileChange* change,
                             StepEstimator& estimator) {
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
      estimate(mapped, row.kind, *hardware, change ? mapped.hardware + " " + change->name : mapped.hardware, estimator);
  if (!estimated->refused.empty()) {
    result.mapped = false;
    result.reason = estimated->refused;
    return result;
  }
  if (mapped.config.layout.attention == AttentionKernel::flash) {
    const std::string stand_in = attention_stand_in(*hardware, mapped.config.stack.fused_attention);
    if (!stand_in.empty()) result.assumptions.push_back(stand_in);
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
    result.error_pct = error(result.predicted_seconds(), result.published_seconds());
    return result;
  }
  const StepEstimate& step = estimated->step;
  predicted.peak_memory_gib = step.peak_gib;
  predicted.fits = step.fits;
  predicted.activation_gib = step.saved_gib;
  predicted.samples = step.samples;
  if (published.peak_memory_gb > 0) {
    const double gib = mapped.held_memory ? step.reserved_gib : step.peak_gib;
    result.memory_error_pct = 100 * (gib * kGiB / kGB / published.peak_memory_gb - 1);
  } else if (published.activation_gib > 0) {
    result.memory_error_pct = 100 * (step.saved_gib / published.activation_gib - 1);
  }
  result.dominant = "memory";
  if (step.iteration_s > 0) {
    predicted.iteration_s = step.iteration_s;
    fill_rates(mapped, *hardware, predicted);
    result.dominant = dominant_term(step, mapped.config.layout.pp);
    if (published.iteration_s > 0) result.error_pct = 100 * (predicted.iteration_s / published.iteration_s - 1);
  }
  return result;
}

RowResult RowJobs::one(const PublishedRow& row, const std::vector<Setting>& settings) {
  const MappedRow mapped = map(row, settings);
  const bool drawn = settings.empty() && mapped.mapped;
  StepEstimator estimator = estimator_of(mapped, row.kind, drawn ? corners(mapped.hardware) : Corners{});
  return result_of(row, mapped, nullptr, estimator);
}

std::vector<RowResult> RowJobs::on_machines(const PublishedRow& row, const std::vector<const ProfileChange*>& changes) {
  const MappedRow mapped = map(row, {});
  StepEstimator estimator = estimator_of(mapped, row.kind, {});
  std::vector<RowResult> results;
  for (const ProfileChange* change : changes) results.push_back(result_of(row, mapped, change, estimator));
  return results;
}

namespace {

/// One combination of unstated settings: what it gives, or nothing when it can't run.
struct Combination {
  MappedRow mapped;
  std::shared_ptr<const Estimated> estimated;
  std::optional<Repricer> repricer;
};

constexpr int kAttempts = 16;  // at combinations that can run, in one draw

}  // namespace

std::vector<double> RowJobs::ensemble_of(const PublishedRow& row, const RowResult& result, const std::atomic<int>& signal) {
  std::vector<double> times;
  if (!result.predicted || !result.error_pct) return times;
  const std::vector<UnstatedSetting> unstated = options_.draw_unstated ? map(row, {}).unstated : std::vector<UnstatedSetting>{};
  std::map<std::string, std::unique_ptr<Combination>> combinations;  // of this row alone: all rows' would fill the memory
  const auto combination_of = [&](const std::vector<Setting>& settings) -> const Combination& {
    std::string key;
    for (const Setting& setting : settings) key += setting.value.dump() + " ";
    std::unique_ptr<Combination>& known = combinations[key];
    if (known) return *known;
    known = std::make_unique<Combination>();
    known->mapped = map(row, settings);
    if (!known->mapped.mapped) return *known;
    const std::string& machine = known->mapped.hardware;  // a drawn interconnect is another profile
    const std::shared_ptr<const HardwareProfile> base = profile(machine, nullptr);
    const Corners around = corners(machine);
    StepEstimator estimator = estimator_of(known->mapped, row.kind, around);
    known->estimated = settings.empty() ? estimate(known->mapped, row.kind, *base, machine, estimator)
                                        : simulate_one(known->mapped, row.kind, *base, estimator);
    // The run fitted its memory: a setting that would not was not its own, as far as memory is told right at all.
    const bool ran = known->estimated->refused.empty() && (known->estimated->step.fits || !result.predicted->fits);
    if (ran && row.kind != RowKind::layer_time) {
      known->repricer.emplace(known->estimated->step, known->mapped.config, around);
    }
    return *known;
  };
  for (int draw = 0; draw < options_.draws && signal.load() == 0; ++draw) {
    if (row.kind == RowKind::layer_time) {  // one layer is simulated as fast as a step is priced again
      const MappedRow& mapped = combination_of({}).mapped;
      const LayerTime layer = estimate_layer(mapped.config, drawn(mapped.hardware, draw)->hardware());
      times.push_back(layer.forward_s + layer.backward_s);
      continue;
    }
    const Combination* combination = nullptr;
    for (int attempt = 0; attempt < kAttempts && !(combination && combination->repricer); ++attempt) {
      combination = &combination_of(drawn_settings(unstated, result.set, options_.seed, draw, attempt));
    }
    if (!combination->repricer) combination = &combination_of({});  // which fits, or nothing is told apart by memory
    times.push_back(combination->repricer->step(*drawn(combination->mapped.hardware, draw)));
  }
  return times;
}

std::vector<RowResult> RowJobs::run(const std::vector<PublishedRow>& rows, const AccuracyProgress& progress,
                                    const std::atomic<int>& signal, std::vector<std::vector<double>>* draws) {
  std::vector<RowResult> results(rows.size());
  if (draws) draws->assign(rows.size(), {});
  ProgressCount count(progress, "rows", rows.size());
  for_each_index(rows.size(), options_.threads, [&](std::size_t i) {
    if (signal.load() != 0) return;
    results[i] = one(rows[i], {});
    if (draws && options_.draws > 0) {
      (*draws)[i] = ensemble_of(rows[i], results[i], signal);
      if (!(*draws)[i].empty()) results[i].interval = band((*draws)[i]);
    }
    count.tick();
  });
  if (signal.load() != 0) throw Error(Error::Kind::run, "the run was interrupted");
  return results;
}

}  // namespace benchsuite
