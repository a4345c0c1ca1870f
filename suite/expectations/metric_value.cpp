#include "suite/expectations/metric_value.h"

#include <charconv>

#include "suite/measure/metrics.h"
#include "suite/report/format.h"

namespace benchsuite {

namespace {

const MetricName* find(const std::string& name) {
  for (const MetricName& metric : metric_names()) {
    if (name == metric.name) return &metric;
  }
  return nullptr;
}

std::optional<int> stage_index(const std::string& text) {
  int stage = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), stage);
  if (error != std::errc{} || end != text.data() + text.size() || stage < 0) return std::nullopt;
  return stage;
}

/// A per-stage figure: of one stage, or the sum over stages. -1 means "not there".
template <class Get>
std::optional<double> of_stages(const VariantResult& variant, const std::string& detail, const Get& get) {
  if (variant.stages.empty()) return std::nullopt;
  double sum = 0;
  bool any = false;
  for (const StageResult& stage : variant.stages) {
    if (!detail.empty() && stage_index(detail) != stage.stage) continue;
    const double value = get(stage);
    if (value < 0) return std::nullopt;
    sum += value;
    any = true;
  }
  if (!any) return std::nullopt;
  return sum;
}

std::optional<double> communication(const VariantResult& variant, const MetricPath& path) {
  for (const CommunicationTime& entry : variant.communication) {
    if (entry.kind != path.detail) continue;
    if (path.metric == "communication_bytes") return entry.bytes;
    if (path.metric == "communication_exposed_s") return entry.exposed_s;
    if (path.metric == "communication_hidden_s") return entry.hidden_s;
    if (path.metric == "communication_calls") return static_cast<double>(entry.calls);
    if (entry.expected_bytes >= 0) return entry.expected_bytes;
    return std::nullopt;  // recorded, but without a closed formula
  }
  if (!is_communication_kind(path.detail)) return std::nullopt;
  return 0;  // neither recorded nor in any formula: none of it happens
}

std::optional<double> rank_bytes(const VariantResult& variant, const MetricPath& path) {
  const SentBytes* sent = furthest_from_formula(variant, path.detail);
  if (!sent) {
    if (!is_communication_kind(path.detail) || variant.stages.empty()) return std::nullopt;
    return 0;  // neither sent nor in any formula: none of it happens
  }
  if (sent->expected_bytes < 0) return std::nullopt;
  return path.metric == "rank_communication_bytes" ? sent->bytes : sent->expected_bytes;
}

}  // namespace

const std::vector<MetricName>& metric_names() {
  static const std::vector<MetricName> names = {
      {"iteration_s", "s", ""},
      {"samples_per_s", "samples/s", ""},
      {"tokens_per_s_per_gpu", "tokens/s", ""},
      {"model_tflops_per_gpu", "TFLOP/s", ""},
      {"mfu", "1", ""},
      {"hfu", "1", ""},
      {"gpu_busy", "1", ""},
      {"bubble_share", "1", ""},
      {"bubble_over_ideal", "1", ""},
      {"bubble_formula_step", "1", ""},
      {"bubble_formula_ideal", "1", ""},
      {"bubble_s", "s", ""},
      {"recompute_s", "s", ""},
      {"peak_memory_gib", "GiB", "stage"},
      {"fits", "1", ""},
      {"loss", "1", "step"},
      {"flops_model", "FLOP", ""},
      {"flops_hardware", "FLOP", ""},
      {"speed_of_light_s", "s", ""},
      {"saved_activation_bytes", "B", "stage"},
      {"saved_activation_formula_bytes", "B", "stage"},
      {"peak_in_flight", "1", "stage"},
      {"communication_bytes", "B", "kind"},
      {"communication_bytes_formula", "B", "kind"},
      {"rank_communication_bytes", "B", "kind"},
      {"rank_communication_bytes_formula", "B", "kind"},
      {"communication_exposed_s", "s", "kind"},
      {"communication_hidden_s", "s", "kind"},
      {"communication_calls", "1", "kind"},
  };
  return names;
}

MetricPath parse_metric(const std::string& text) {
  MetricPath path;
  const std::size_t first = text.find('.');
  path.variant = text.substr(0, first);
  if (first == std::string::npos) return path;
  const std::size_t second = text.find('.', first + 1);
  path.metric = text.substr(first + 1, second == std::string::npos ? second : second - first - 1);
  if (second != std::string::npos) path.detail = text.substr(second + 1);
  return path;
}

std::string why_not_a_metric(const std::string& text) {
  const MetricPath path = parse_metric(text);
  if (path.variant.empty() || path.metric.empty()) return "write VARIANT.METRIC";
  const MetricName* metric = find(path.metric);
  if (!metric) {
    std::vector<std::string> known;
    std::string list;
    for (const MetricName& name : metric_names()) {
      known.emplace_back(name.name);
      list += (list.empty() ? "" : ", ") + std::string(name.name);
    }
    const std::string guess = did_you_mean(path.metric, known);
    return "unknown metric \"" + path.metric + "\"; " +
           (guess.empty() ? "known: " + list : "did you mean \"" + guess + "\"?");
  }
  const std::string wanted = metric->detail;
  if (wanted == "kind" && path.detail.empty())
    return "name the kind of communication: VARIANT." + path.metric + ".KIND";
  if (wanted.empty() && !path.detail.empty()) return "\"" + path.metric + "\" has no parts";
  if (wanted == "stage" && !path.detail.empty() && !stage_index(path.detail))
    return "\"" + path.detail + "\" is not a stage number";
  if (wanted == "step" && !path.detail.empty() && stage_index(path.detail).value_or(0) < 1)
    return "\"" + path.detail + "\" is not a step, counted from 1";
  return "";
}

std::optional<double> metric_value(const VariantResult& variant, const MetricPath& path) {
  const std::string& name = path.metric;
  if (name == "rank_communication_bytes" || name == "rank_communication_bytes_formula")
    return rank_bytes(variant, path);
  if (name.starts_with("communication_")) return communication(variant, path);
  if (name == "iteration_s") return variant.iteration_s;
  if (name == "samples_per_s") {
    if (!variant.layout.is_object() || !variant.layout.contains("global_batch") || variant.iteration_s <= 0)
      return std::nullopt;
    return variant.layout["global_batch"].get<double>() / variant.iteration_s;
  }
  if (name == "tokens_per_s_per_gpu") return variant.tokens_per_s_per_gpu;
  if (name == "model_tflops_per_gpu") return variant.model_tflops_per_gpu;
  if (name == "mfu") return variant.mfu;
  if (name == "hfu") return variant.hfu;
  if (name == "gpu_busy") return variant.gpu_busy;
  if (name == "bubble_share") return variant.bubble_share;
  if (name == "bubble_s") return variant.bubble_share * variant.iteration_s;
  if (name == "bubble_over_ideal") return variant.bubble_over_ideal;
  if (name == "bubble_formula_step") return variant.bubble_formula_step;
  if (name == "bubble_formula_ideal") return variant.bubble_formula_ideal;
  if (name == "recompute_s") return variant.recompute_s;
  if (name == "fits") return variant.fits ? 1 : 0;
  if (name == "loss") {
    if (path.detail.empty()) return variant.loss;
    const auto step = stage_index(path.detail);  // counted from 1
    if (!step || *step < 1 || static_cast<std::size_t>(*step) > variant.loss_curve.size()) return std::nullopt;
    return variant.loss_curve[static_cast<std::size_t>(*step) - 1];
  }
  if (name == "flops_model") return variant.flops_model;
  if (name == "flops_hardware") return variant.flops_hardware;
  if (name == "speed_of_light_s") return variant.speed_of_light_s;
  if (name == "peak_memory_gib") {
    if (path.detail.empty()) return variant.peak_memory_gib;
    return of_stages(variant, path.detail,
                     [](const StageResult& stage) { return stage.memory.peak_bytes / (1024.0 * 1024 * 1024); });
  }
  if (name == "saved_activation_bytes") {
    return of_stages(variant, path.detail, [](const StageResult& stage) { return stage.memory.saved_bytes; });
  }
  if (name == "saved_activation_formula_bytes") {
    return of_stages(variant, path.detail, [](const StageResult& stage) { return stage.memory.saved_formula_bytes; });
  }
  if (name == "peak_in_flight") {
    return of_stages(variant, path.detail,
                     [](const StageResult& stage) { return static_cast<double>(stage.peak_in_flight); });
  }
  return std::nullopt;
}

std::string why_not_in_layout(const VariantResult& variant, const MetricPath& path) {
  const MetricName* metric = find(path.metric);
  const bool of_stage = metric && std::string(metric->detail) == "stage";
  const int stage = of_stage ? stage_index(path.detail).value_or(-1) : -1;
  if (!variant.stages.empty() && stage >= static_cast<int>(variant.stages.size())) {
    return "this layout has no stage " + path.detail;
  }
  bool lacks = false;
  if (path.metric == "saved_activation_formula_bytes") {
    for (const StageResult& result : variant.stages) {
      lacks = lacks || ((stage < 0 || stage == result.stage) && result.memory.saved_formula_bytes < 0);
    }
  } else if (path.metric == "communication_bytes_formula") {
    for (const CommunicationTime& entry : variant.communication) {
      lacks = lacks || (entry.kind == path.detail && entry.expected_bytes < 0);
    }
  } else if (path.metric == "rank_communication_bytes" || path.metric == "rank_communication_bytes_formula") {
    const SentBytes* sent = furthest_from_formula(variant, path.detail);
    lacks = sent && sent->expected_bytes < 0;
  }
  return lacks ? "there is no closed formula for this layout" : "";
}

}  // namespace benchsuite
