#include "suite/accuracy/measured.h"

#include <fmt/format.h>

#include "suite/accuracy/flop_convention.h"
#include "suite/accuracy/row_fields.h"

namespace benchsuite {

namespace {

/// `key` of what was measured, 0 where it isn't stated; `unit` turns it into seconds.
double seconds_in(const Json& measured, const char* key, double unit) {
  const auto number = number_in(measured, "measured", key);
  if (!number) return 0;
  const double seconds = *number * unit;
  if (!(seconds >= kLeastSeconds && seconds <= kMostSeconds)) {
    throw Unmapped{fmt::format("measured.{} = {} is no time from 1 microsecond to {:.0e} s", key, measured[key].dump(),
                               kMostSeconds)};
  }
  return seconds;
}

double memory_in(const Json& measured, const char* key) {
  const auto number = number_in(measured, "measured", key);
  if (number && !(*number > 0 && *number <= kMostMemory)) {
    throw Unmapped{fmt::format("measured.{} = {} is no memory of a device", key, measured[key].dump())};
  }
  return number.value_or(0);
}

/// The time of a step of `work` at a rate of each of `gpus`, in units of `unit`; 0 where the rate isn't stated.
double seconds_of(double work, const Json& measured, const char* key, double gpus, double unit = 1) {
  const auto rate = number_in(measured, "measured", key);
  if (!rate) return 0;
  const double seconds = *rate > 0 ? work / (*rate * unit * gpus) : 0;
  if (!(seconds >= kLeastSeconds && seconds <= kMostSeconds)) {
    throw Unmapped{fmt::format("measured.{} = {} is no rate of a step from 1 microsecond to {:.0e} s", key, measured[key].dump(),
                               kMostSeconds)};
  }
  return seconds;
}

}  // namespace

bool Published::nothing() const {
  return iteration_s == 0 && !out_of_memory && layer_forward_s == 0 && activation_gib == 0 && peak_memory_gb == 0;
}

Published read_measured(const PublishedRow& row, const ModelConfig& model, const Layout& layout) {
  const Json& measured = row.measured;
  Published out;
  out.out_of_memory = row.kind == RowKind::oom;
  out.peak_memory_gb = memory_in(measured, "peak_memory_gb");
  out.layer_forward_s = seconds_in(measured, "layer_forward_ms", 1e-3);
  out.layer_backward_s = seconds_in(measured, "layer_backward_ms", 1e-3);
  out.activation_gib = memory_in(measured, "activation_gib");
  const auto gpus = static_cast<double>(layout.world());
  const auto samples = static_cast<double>(layout.global_batch);
  const double tokens = static_cast<double>(layout.global_batch * model.seq);
  const auto take = [&](double seconds, std::string from) {
    if (seconds > 0 && out.iteration_s == 0) out.iteration_s = seconds, out.from = std::move(from);
  };
  take(seconds_in(measured, "iteration_s", 1), "iteration_s");
  take(seconds_of(tokens, measured, "tokens_per_s_per_gpu", gpus), "tokens_per_s_per_gpu");
  take(seconds_of(tokens, measured, "tokens_per_s", 1), "tokens_per_s");
  take(seconds_of(samples, measured, "samples_per_s_per_gpu", gpus), "samples_per_s_per_gpu");
  if (const auto convention = flop_convention_of(text_in(measured, "measured", "flop_convention").value_or(""))) {
    const double flops = step_flops(*convention, model, layout.global_batch);
    take(seconds_of(flops, measured, "tflops_per_gpu", gpus, 1e12), "tflops_per_gpu by " + std::string(id_of(*convention)));
  }
  if (out.iteration_s > 0) out.tokens_per_s_per_gpu = tokens / (out.iteration_s * gpus);
  return out;
}

}  // namespace benchsuite
