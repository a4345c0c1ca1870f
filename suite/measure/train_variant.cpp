#include "suite/measure/train_variant.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/model/flops.h"
#include "engine/train/training_run.h"
#include "suite/cases/data_root.h"
#include "suite/results/statistics.h"

namespace benchsuite {

namespace {

constexpr std::int64_t kMostParameters = 2'000'000, kMostRanks = 32;

}  // namespace

std::string why_not_trainable(const TrainConfig& config) {
  const std::int64_t ranks = config.layout.world();
  const std::int64_t parameters = parameter_count(config.model, config.model.vocab).total();
  if (ranks <= kMostRanks && parameters <= kMostParameters) return "";
  return fmt::format("device cpu trains models of up to {} parameters on up to {} ranks; this variant has {} on {}",
                     kMostParameters, kMostRanks, parameters, ranks);
}

VariantResult train_variant(const TrainConfig& config, const TrainVariantOptions& options) {
  TrainingPlan plan;
  plan.file = "case";
  plan.config = config;
  plan.data.path = options.text.empty() ? DataRoot::find().path() + "/cases/corpus/drill.txt" : options.text;
  plan.steps = options.steps;
  plan.seed = options.seed;
  plan.learning_rate = {.peak = 3e-3, .minimum = 3e-4, .warmup = 2, .decay_steps = options.steps};

  CHECK(options.steps > kWarmUpSteps) << options.steps << " steps leave none to time";
  std::vector<double> seconds;
  TrainingHooks hooks;
  hooks.step = [&](const StepReport& report) { seconds.push_back(report.seconds); };
  hooks.stop = [&] { return options.cancelled && options.cancelled->load(); };
  const TrainingOutcome outcome = TrainingRun(plan, {.faults = options.faults}, hooks).on_threads();
  if (outcome.stopped) throw Error(Error::Kind::run, "the run was cancelled");

  VariantResult result;
  result.loss_curve = outcome.loss;
  result.loss = outcome.loss.back();
  result.step_samples_s.assign(seconds.begin() + kWarmUpSteps, seconds.end());
  result.iteration_s = median(result.step_samples_s);
  result.step = static_cast<Picoseconds>(std::llround(result.iteration_s / kSecondsPerPicosecond));
  const Layout& layout = config.layout;
  result.tokens_per_s_per_gpu = static_cast<double>(layout.global_batch * config.model.seq) / result.iteration_s /
                                static_cast<double>(layout.world());
  const FlopsFormula formula = flops_formula_of(config.model.family, layout.attention == AttentionKernel::flash);
  result.flops_model = model_flops(config.model, layout, formula).total();
  result.flops_hardware = hardware_flops(config.model, layout, formula, config.stack.recomputes_head).total();
  result.flops_formula = id_of(formula);
  return result;
}

}  // namespace benchsuite
