#include "suite/report/csv.h"

#include <fmt/format.h>

#include <cmath>

#include "suite/report/format.h"

namespace benchsuite {
namespace {

constexpr std::size_t kColumns = 14;

std::string field(std::string_view text) {
  std::string line;
  if (!text.empty() && std::string_view("=+-@\t\r").find(text[0]) != std::string_view::npos) line += '\'';
  line += text;
  if (line.find_first_of(",\"\r\n") == std::string::npos) return line;
  std::string quoted = "\"";
  for (char c : line) quoted.append(c == '"' ? 2 : 1, c);
  return quoted + "\"";
}

std::string number(double value) { return std::isfinite(value) ? fmt::format("{}", value) : ""; }
std::string number(const std::optional<double>& value) { return value ? number(*value) : ""; }

class Lines {
 public:
  Lines() {
    text_ = "record,case,variant,name,value,unit,pass_low,pass_high,warn_low,warn_high,target,verdict,kind,source\r\n";
  }
  void value(std::string_view record, const std::string& place, std::string_view name, const std::string& value,
             std::string_view unit) {
    text_ += fmt::format("{},{},{},{},{}", record, place, field(name), value, field(unit));
    text_.append(kColumns - 6, ',');
    text_ += "\r\n";
  }
  void check(const std::string& place, const CheckResult& c) {
    text_ += fmt::format("check,{},{},{},{},{},{},{},{},{},{},{},{}\r\n", place, field(c.id), number(c.value),
                         field(c.unit), number(c.pass_low), number(c.pass_high), number(c.warn_low),
                         number(c.warn_high), number(c.target), name_of(c.verdict), field(c.kind), field(c.source));
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

void variant_lines(Lines& lines, const std::string& place, const VariantResult& v, const std::optional<double>& ratio) {
  const auto metric = [&](const char* name, const std::string& value, const char* unit) {
    lines.value("metric", place, name, value, unit);
  };
  metric("status", std::string(name_of(v.status)), "");
  metric("iteration_s", number(v.iteration_s), "s");
  metric("tokens_per_s_per_gpu", number(v.tokens_per_s_per_gpu), "tokens/s");
  metric("model_tflops_per_gpu", number(v.model_tflops_per_gpu), "TFLOP/s");
  metric("mfu", number(v.mfu), "1");
  metric("hfu", number(v.hfu), "1");
  metric("gpu_busy", number(v.gpu_busy), "1");
  metric("bubble_share", number(v.bubble_share), "1");
  metric("bubble_formula_step", number(v.bubble_formula_step), "1");
  metric("bubble_over_ideal", number(v.bubble_over_ideal), "1");
  metric("bubble_formula_ideal", number(v.bubble_formula_ideal), "1");
  for (const BubblePart& part : v.bubble_parts)
    lines.value("bubble", place, part.name, number(part.seconds), "s");
  metric("recompute_s", number(v.recompute_s), "s");
  metric("peak_memory_gib", number(v.peak_memory_gib), "GiB");
  metric("capacity_gib", number(v.capacity_gib), "GiB");
  metric("fits", v.fits ? "1" : "0", "1");
  metric("loss", number(v.loss), "1");
  metric("speed_of_light_s", number(v.speed_of_light_s), "s");
  metric("flops_model", number(v.flops_model), "FLOP");
  metric("flops_hardware", number(v.flops_hardware), "FLOP");
  metric("step_ratio", number(ratio), "x");
  const Sampling sampling = sampling_of(v);
  metric("step_samples", fmt::to_string(sampling.n), "1");
  metric("step_spread", number(sampling.spread), "1");
  for (std::size_t i = 0; i < v.step_samples_s.size(); ++i)
    lines.value("sample", place, fmt::format("step.{}", i), number(v.step_samples_s[i]), "s");
  for (const CategoryStyle& style : category_styles())
    lines.value("category", place, name_of(style.category), number(mean_seconds(v, style.category)), "s");
  for (const CommunicationTime& kind : v.communication) {
    const auto line = [&](const char* name, const std::string& value, const char* unit) {
      lines.value("communication", place, kind.kind + "." + name, value, unit);
    };
    line("calls", fmt::to_string(kind.calls), "1");
    line("exposed_s", number(kind.exposed_s), "s");
    line("hidden_s", number(kind.hidden_s), "s");
    line("bytes", number(kind.bytes), "B");
    line("expected_bytes", kind.expected_bytes < 0 ? "" : number(kind.expected_bytes), "B");
  }
  for (const StageResult& stage : v.stages) {
    const std::string name = fmt::format("stage.{}.", stage.stage);
    lines.value("stage", place, name + "gpu_busy", number(stage.gpu_busy), "1");
    lines.value("stage", place, name + "peak_in_flight", fmt::to_string(stage.peak_in_flight), "1");
    lines.value("stage", place, name + "peak_bytes", number(stage.memory.peak_bytes), "B");
    for (const auto& [purpose, bytes] : stage.memory.by_purpose)
      lines.value("memory", place, name + purpose, number(bytes), "B");
  }
  for (std::size_t i = 0; i < v.loss_curve.size(); ++i)
    lines.value("loss", place, fmt::format("step.{}", i), number(v.loss_curve[i]), "1");
}

}  // namespace

std::string csv_report(const Run& run) {
  Lines lines;
  for (const CaseResult& result : run.cases) {
    const std::string id = field(result.id) + ",";
    lines.value("metric", id, "status", std::string(name_of(result.status)), "");
    const auto ratios = step_ratios(result);
    for (std::size_t i = 0; i < result.variants.size(); ++i)
      variant_lines(lines, id + field(result.variants[i].id), result.variants[i], ratios[i]);
    for (const Waterfall& fall : result.waterfalls) {
      const std::string place = id + field(fall.from + " -> " + fall.to);
      for (const Waterfall::Part& part : fall.parts)
        lines.value("waterfall", place, part.name, number(part.seconds), "s");
    }
    for (const CheckResult& check : result.checks) lines.check(id, check);
  }
  return lines.take();
}

}  // namespace benchsuite
