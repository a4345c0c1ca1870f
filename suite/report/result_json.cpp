#include "suite/report/result_json.h"

#include <charconv>
#include <cmath>
#include <utility>

#include "engine/core/parallel.h"
#include "suite/report/format.h"
#include "suite/report/json_text.h"

namespace benchsuite {
namespace {

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }
Json number(const std::optional<double>& value) { return value ? number(*value) : Json(nullptr); }
/// Quantities for which the struct says "none" with a negative value.
Json number_or_none(double value) { return value < 0 ? Json(nullptr) : number(value); }

Json numbers(const std::vector<double>& values) {
  Json list = Json::array();
  for (double value : values) list.push_back(number(value));
  return list;
}

Json range(const std::optional<double>& low, const std::optional<double>& high) {
  return Json::array({number(low), number(high)});
}

Json by_category(const Breakdown& breakdown) {
  Json object = Json::object();
  for (int c = 0; c < kCategories; ++c) {
    object[std::string(name_of(static_cast<Category>(c)))] = breakdown.time[static_cast<std::size_t>(c)];
  }
  return object;
}

Json seconds_by_category(const Breakdown& breakdown, double ranks) {
  Json object = Json::object();
  for (int c = 0; c < kCategories; ++c) {
    object[std::string(name_of(static_cast<Category>(c)))] =
        number(static_cast<double>(breakdown.time[static_cast<std::size_t>(c)]) * kSecondsPerPicosecond / ranks);
  }
  return object;
}

Json to_json(const std::vector<StageMemory::Term>& terms) {
  Json list = Json::array();
  for (const StageMemory::Term& term : terms) {
    list.push_back({{"name", term.name},
                    {"purpose", term.purpose},
                    {"bytes", number(term.bytes)},
                    {"formula", term.formula}});
  }
  return list;
}

Json to_json(const StageMemory& memory) {
  Json purposes = Json::object();
  for (const auto& [purpose, bytes] : memory.by_purpose) purposes[purpose] = number(bytes);
  return {{"peak_bytes", number(memory.peak_bytes)},
          {"by_purpose_bytes", std::move(purposes)},
          {"reserved_bytes", number_or_none(memory.reserved_bytes)},
          {"saved_bytes", number(memory.saved_bytes)},
          {"saved_formula_bytes", number_or_none(memory.saved_formula_bytes)},
          {"terms", to_json(memory.terms)},
          {"saved_terms", to_json(memory.saved_terms)}};
}

Json gantt_json(const StageResult& stage) {
  Json gantt = Json::array();
  for (const GanttSpan& span : stage.gantt) {
    // A microsecond count with six decimals is exact in a double up to 2^53 ps, two and a half hours.
    gantt.push_back(Json::array({static_cast<double>(span.start) / 1e6, static_cast<double>(span.end) / 1e6,
                                 static_cast<int>(span.category), span.micro_batch, span.chunk}));
  }
  return gantt;
}

/// The text of the same: nearly all of a result, and no document of a million numbers is made for it.
std::string gantt_text(const StageResult& stage) {
  constexpr std::size_t kSpanBytes = 64;  // at most, but for very long steps
  std::string out;
  out.reserve(stage.gantt.size() * kSpanBytes + 2);
  const auto write_integer = [&out](int value) {
    char digits[16];
    out.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
  };
  out += '[';
  for (const GanttSpan& span : stage.gantt) {
    out += &span == stage.gantt.data() ? "[" : ",[";
    write_microseconds(span.start, out);
    out += ',';
    write_microseconds(span.end, out);
    for (const int value : {static_cast<int>(span.category), span.micro_batch, static_cast<int>(span.chunk)}) {
      out += ',';
      write_integer(value);
    }
    out += ']';
  }
  out += ']';
  return out;
}

Json to_json(const StageResult& stage, Json gantt) {
  Json sent = Json::array();
  for (const SentBytes& kind : stage.sent) {
    sent.push_back({{"kind", kind.kind},
                    {"bytes", number(kind.bytes)},
                    {"expected_bytes", number_or_none(kind.expected_bytes)}});
  }
  return {{"stage", stage.stage},
          {"representative_rank", stage.representative_rank},
          {"gpu_busy", number(stage.gpu_busy)},
          {"peak_in_flight", stage.peak_in_flight},
          {"breakdown_ps", by_category(stage.breakdown)},
          {"memory", to_json(stage.memory)},
          {"sent", std::move(sent)},
          {"gantt", std::move(gantt)}};
}

Json to_json(const CommunicationTime& communication) {
  return {{"kind", communication.kind},
          {"exposed_s", number(communication.exposed_s)},
          {"hidden_s", number(communication.hidden_s)},
          {"bytes", number(communication.bytes)},
          {"expected_bytes", number_or_none(communication.expected_bytes)},
          {"calls", communication.calls}};
}

Json step_statistics(const VariantResult& v) {
  const Sampling sampling = sampling_of(v);
  return {{"n", sampling.n},
          {"median_s", sampling.n > 0 ? number(v.iteration_s) : Json(nullptr)},
          {"spread", number(sampling.spread)}};
}

Json to_json(const VariantResult& v, Json stages) {
  Json communication = Json::array(), bubble = Json::array();
  for (const CommunicationTime& kind : v.communication) communication.push_back(to_json(kind));
  for (const BubblePart& part : v.bubble_parts) {
    bubble.push_back({{"name", part.name}, {"seconds", number(part.seconds)}, {"explanation", part.explanation}});
  }
  return {{"id", v.id},
          {"title", v.title},
          {"status", name_of(v.status)},
          {"reason_code", v.reason_code},
          {"reason", v.reason},
          {"hardware", v.hardware},
          {"stack", v.stack},
          {"model", v.model},
          {"layout", v.layout},
          {"step_ps", v.step},
          {"iteration_s", number(v.iteration_s)},
          {"tokens_per_s_per_gpu", number(v.tokens_per_s_per_gpu)},
          {"model_tflops_per_gpu", number(v.model_tflops_per_gpu)},
          {"mfu", number(v.mfu)},
          {"hfu", number(v.hfu)},
          {"gpu_busy", number(v.gpu_busy)},
          {"bubble_share", number(v.bubble_share)},
          {"bubble_formula_step", number(v.bubble_formula_step)},
          {"bubble_formula_ideal", number(v.bubble_formula_ideal)},
          {"bubble_over_ideal", number(v.bubble_over_ideal)},
          {"bubble_parts", std::move(bubble)},
          {"recompute_s", number(v.recompute_s)},
          {"peak_memory_gib", number(v.peak_memory_gib)},
          {"capacity_gib", number(v.capacity_gib)},
          {"fits", v.fits},
          {"loss", number(v.loss)},
          {"loss_curve", numbers(v.loss_curve)},
          {"step_samples_s", numbers(v.step_samples_s)},
          {"step_statistics", step_statistics(v)},
          {"speed_of_light_s", number(v.speed_of_light_s)},
          {"flops",
           {{"model", number(v.flops_model)}, {"hardware", number(v.flops_hardware)}, {"formula", v.flops_formula}}},
          {"ops", v.ops},
          {"breakdown",
           {{"ranks", v.ranks_in_breakdown},
            {"sum_ps", by_category(v.mean_breakdown)},
            {"mean_s", seconds_by_category(v.mean_breakdown,
                                           static_cast<double>(std::max<std::int64_t>(1, v.ranks_in_breakdown)))}}},
          {"communication", std::move(communication)},
          {"stages", std::move(stages)}};
}

Json to_json(const Waterfall& waterfall) {
  Json parts = Json::array();
  for (const Waterfall::Part& part : waterfall.parts) {
    parts.push_back({{"name", part.name}, {"seconds", number(part.seconds)}, {"explanation", part.explanation}});
  }
  return {{"id", waterfall.id},
          {"from", waterfall.from},
          {"to", waterfall.to},
          {"from_s", number(waterfall.from_s)},
          {"to_s", number(waterfall.to_s)},
          {"parts", std::move(parts)},
          {"one_line", waterfall.one_line}};
}

Json to_json(const CheckResult& check) {
  return {{"id", check.id},
          {"title", check.title},
          {"metric", check.metric},
          {"kind", check.kind},
          {"verdict", name_of(check.verdict)},
          {"gates", check.gates},
          {"value", number(check.value)},
          {"unit", check.unit},
          {"target", number(check.target)},
          {"pass", range(check.pass_low, check.pass_high)},
          {"warn", range(check.warn_low, check.warn_high)},
          {"source", check.source},
          {"explanation", check.explanation}};
}

Json to_json(const CaseResult& result, Json variants) {
  Json waterfalls = Json::array(), checks = Json::array();
  for (const Waterfall& waterfall : result.waterfalls) waterfalls.push_back(to_json(waterfall));
  for (const CheckResult& check : result.checks) checks.push_back(to_json(check));
  return {{"id", result.id},
          {"title", result.title},
          {"case_hash", result.case_hash},
          {"status", name_of(result.status)},
          {"reason_code", result.reason_code},
          {"reason", result.reason},
          {"elapsed_s", number(result.elapsed_s)},
          {"checks", std::move(checks)},
          {"waterfall", std::move(waterfalls)},
          {"variants", std::move(variants)},
          {"method_note", result.method_note}};
}

Json to_json(const Run& run, Json cases) {
  Json categories = Json::array();
  for (int c = 0; c < kCategories; ++c) categories.push_back(name_of(static_cast<Category>(c)));
  return {{"schema_version", kResultSchemaVersion},
          {"run_id", run.run_id},
          {"suite_version", run.suite_version},
          {"engine_commit", run.engine_commit},
          {"device", run.device},
          {"argv", run.argv},
          {"started", run.started},
          {"ended", run.ended},
          {"host", run.host},
          {"environment", run.environment},
          {"exit_code", run.exit_code},
          {"categories", std::move(categories)},
          {"cases", std::move(cases)}};
}

// Where cases and variants stand in a result.
constexpr std::size_t kCaseIndent = 4, kVariantIndent = 8;

/// A list of `count` gaps.
Json gaps(std::size_t count) {
  Json list = Json::array();
  for (std::size_t i = 0; i < count; ++i) list.push_back(json_gap(i));
  return list;
}

/// The document with its gaps filled by `parts`, in order.
SharedText with_parts(const Json& json, std::size_t indent, std::span<const SharedText> parts, const char* end) {
  SharedText whole;
  std::string text;
  write_json(json, indent, text, [&](std::size_t part, std::string&) {
    whole.append(std::exchange(text, {}));
    whole.append(parts[part]);
  });
  whole.append(text + end);
  return whole;
}

}  // namespace

std::span<const std::string_view> volatile_keys() {
  static constexpr std::string_view keys[] = {"run_id", "started", "ended", "host", "elapsed_s"};
  return keys;
}

Json to_json(const Run& run) {
  Json cases = Json::array();
  for (const CaseResult& result : run.cases) {
    Json variants = Json::array();
    for (const VariantResult& variant : result.variants) {
      Json stages = Json::array();
      for (const StageResult& stage : variant.stages) stages.push_back(to_json(stage, gantt_json(stage)));
      variants.push_back(to_json(variant, std::move(stages)));
    }
    cases.push_back(to_json(result, std::move(variants)));
  }
  return to_json(run, std::move(cases));
}

SharedText variant_text(const VariantResult& variant) {
  constexpr int kThreads = 2;
  std::vector<SharedText> gantts(variant.stages.size());
  for_each_index(gantts.size(), kThreads,
                 [&](std::size_t i) { gantts[i] = SharedText(gantt_text(variant.stages[i])); });
  Json stages = Json::array();
  for (std::size_t i = 0; i < gantts.size(); ++i) stages.push_back(to_json(variant.stages[i], json_gap(i)));
  return with_parts(to_json(variant, std::move(stages)), kVariantIndent, gantts, "");
}

SharedText case_text(const CaseResult& result, std::span<const SharedText> variants) {
  return with_parts(to_json(result, gaps(variants.size())), kCaseIndent, variants, "");
}

SharedText result_text(const Run& run, std::span<const SharedText> cases) {
  return with_parts(to_json(run, gaps(cases.size())), 0, cases, "\n");
}

std::string result_text(const Run& run) {
  std::vector<SharedText> cases;
  for (const CaseResult& result : run.cases) {
    std::vector<SharedText> variants;
    for (const VariantResult& variant : result.variants) variants.push_back(variant_text(variant));
    cases.push_back(case_text(result, variants));
  }
  return result_text(run, cases).joined();
}

}  // namespace benchsuite
