// Where every number of the page comes from: definitions once, values in full precision once; the script puts the two
// together for the number that was clicked.
#include <algorithm>
#include <cmath>

#include "suite/report/format.h"
#include "suite/report/html_parts.h"

namespace benchsuite::html {
namespace {

/// Nine digits: more than any source of the numbers has.
Json value_of(double value) {
  if (!std::isfinite(value)) return nullptr;
  return std::stod(fmt::format("{:.9g}", value));
}
Json value_of(const std::optional<double>& value) { return value ? value_of(*value) : Json(nullptr); }

double integer(const Json& object, const char* key, double otherwise) {
  return object.is_object() && object.contains(key) && object.at(key).is_number() ? object.at(key).get<double>()
                                                                                  : otherwise;
}

Json seconds_by_category(const Breakdown& breakdown, std::int64_t ranks) {
  Json object = Json::object();
  for (int c = 0; c < kCategories; ++c) {
    const Picoseconds time = breakdown.time[static_cast<std::size_t>(c)];
    if (time == 0) continue;
    object[std::string(name_of(static_cast<Category>(c)))] = value_of(
        static_cast<double>(time) * kSecondsPerPicosecond / static_cast<double>(std::max<std::int64_t>(1, ranks)));
  }
  return object;
}

Json stages_of(const VariantResult& v) {
  Json stages = Json::array();
  for (const StageResult& stage : v.stages) {
    Json purposes = Json::object();
    for (const auto& [purpose, bytes] : stage.memory.by_purpose) purposes[purpose] = value_of(bytes);
    stages.push_back({{"stage", stage.stage},
                      {"rank", stage.representative_rank},
                      {"gpu_busy", value_of(stage.gpu_busy)},
                      {"peak_in_flight", stage.peak_in_flight},
                      {"peak_bytes", value_of(stage.memory.peak_bytes)},
                      {"saved_bytes", value_of(stage.memory.saved_bytes)},
                      {"saved_formula_bytes", value_of(stage.memory.saved_formula_bytes)},
                      {"by_purpose_bytes", purposes},
                      {"k", seconds_by_category(stage.breakdown, 1)}});
  }
  return stages;
}

Json variant_of(const VariantResult& v, const std::optional<double>& ratio) {
  const Json& layout = v.layout;
  const double tp = integer(layout, "tp", 1), pp = integer(layout, "pp", 1), dp = integer(layout, "dp", 1),
               cp = integer(layout, "cp", 1);
  const double gpus = tp * pp * dp * cp, samples = integer(layout, "micro_batch", 1) * dp;
  const double global_batch = integer(layout, "global_batch", 0);
  Json communication = Json::array();
  for (const CommunicationTime& kind : v.communication) {
    const SentBytes* sent = furthest_from_formula(v, kind.kind);
    communication.push_back(
        {{"kind", kind.kind},
         {"exposed_s", value_of(kind.exposed_s)},
         {"hidden_s", value_of(kind.hidden_s)},
         {"bytes", value_of(kind.bytes)},
         {"expected_bytes", kind.expected_bytes < 0 ? Json(nullptr) : value_of(kind.expected_bytes)},
         {"rank_bytes", sent ? value_of(sent->bytes) : Json(nullptr)},
         {"rank_expected_bytes", sent && sent->expected_bytes >= 0 ? value_of(sent->expected_bytes) : Json(nullptr)},
         {"calls", kind.calls}});
  }
  Json values = {{"step_ps", v.step},
                 {"iteration_s", value_of(v.iteration_s)},
                 {"tokens_per_s_per_gpu", value_of(v.tokens_per_s_per_gpu)},
                 {"samples_per_s", v.iteration_s > 0 ? value_of(global_batch / v.iteration_s) : Json(nullptr)},
                 {"model_tflops_per_gpu", value_of(v.model_tflops_per_gpu)},
                 {"mfu", value_of(v.mfu)},
                 {"hfu", value_of(v.hfu)},
                 {"gpu_busy", value_of(v.gpu_busy)},
                 {"bubble_share", value_of(v.bubble_share)},
                 {"bubble_s", value_of(v.bubble_share * v.iteration_s)},
                 {"bubble_formula_step", value_of(v.bubble_formula_step)},
                 {"bubble_formula_ideal", value_of(v.bubble_formula_ideal)},
                 {"bubble_over_ideal", value_of(v.bubble_over_ideal)},
                 {"exposed_tensor_s", value_of(mean_seconds(v, Category::tensor) +
                                               mean_seconds(v, Category::tensor_recompute))},
                 {"recompute_s", value_of(v.recompute_s)},
                 {"peak_memory_gib", value_of(v.peak_memory_gib)},
                 {"capacity_gib", value_of(v.capacity_gib)},
                 {"fits", v.fits ? 1 : 0},
                 {"ratio", value_of(ratio)},
                 {"loss", value_of(v.loss)},
                 {"flops_model", value_of(v.flops_model)},
                 {"flops_hardware", value_of(v.flops_hardware)},
                 {"speed_of_light_s", value_of(v.speed_of_light_s)},
                 {"peak_flops", v.speed_of_light_s > 0 ? value_of(v.flops_model / gpus / v.speed_of_light_s)
                                                       : Json(nullptr)},
                 {"gpus", gpus},
                 {"tp", tp},
                 {"pp", pp},
                 {"dp", dp},
                 {"vpp", integer(layout, "vpp", 1)},
                 {"micro_batches", samples > 0 ? value_of(global_batch / samples) : Json(nullptr)},
                 {"global_batch", global_batch}};
  for (const char* key : {"layers", "hidden", "ffn_hidden", "heads", "seq", "vocab"})
    values[key] = value_of(integer(v.model, key, std::nan("")));
  return {{"id", v.id},         {"hardware", v.hardware},
          {"stack", v.stack},   {"precision", layout.is_object() ? layout.value("precision", Json("")) : Json("")},
          {"flops", v.flops_formula},
          {"n", sampling_of(v).n},
          {"values", values},   {"k", seconds_by_category(v.mean_breakdown, v.ranks_in_breakdown)},
          {"stages", stages_of(v)}, {"comm", communication}};
}

Json waterfall_of(const Waterfall& fall) {
  Json parts = Json::array();
  // As shown: with the row that says so when the parts don't add up.
  for (const WaterfallView::Row& row : view_of(fall).rows)
    parts.push_back(Json::array({row.name, value_of(row.seconds), row.explanation}));
  return {{"from", fall.from},
          {"to", fall.to},
          {"from_s", value_of(fall.from_s)},
          {"to_s", value_of(fall.to_s)},
          {"parts", parts}};
}

Json check_of(const CheckResult& check) {
  return {{"id", check.id},
          {"title", title_of(check)},
          {"metric", check.metric},
          {"kind", check.kind},
          {"verdict", name_of(check.verdict)},
          {"value", value_of(check.value)},
          {"unit", check.unit},
          {"target", value_of(check.target)},
          {"pass", Json::array({value_of(check.pass_low), value_of(check.pass_high)})},
          {"warn", Json::array({value_of(check.warn_low), value_of(check.warn_high)})},
          {"source", check.source},
          {"text", check.explanation}};
}

}  // namespace

void number(Page& page, std::string_view text, std::string_view key) {
  page.add("<button data-q={}>{}</button>", key, html_escape(text));
}

const std::vector<NumberDefinition>& number_definitions() {
  static const std::vector<NumberDefinition> definitions = {
      {"step_ps",
       "step",
       "ps",
       "end of the last op of any rank − start of the first",
       "timeline of the device; device sim replays the recorded Program, in whole picoseconds",
       {}},
      {"iteration_s", "step time", "s", "step_ps × 10⁻¹²", "timeline of the device", {"step_ps"}},
      {"tokens_per_s_per_gpu",
       "tokens per second and GPU",
       "tokens/s",
       "global_batch × seq / (iteration_s × gpus)",
       "arithmetic",
       {"global_batch", "seq", "iteration_s", "gpus"}},
      {"samples_per_s",
       "samples per second",
       "samples/s",
       "global_batch / iteration_s",
       "arithmetic",
       {"global_batch", "iteration_s"}},
      {"model_tflops_per_gpu",
       "model TFLOP/s of a GPU",
       "TFLOP/s",
       "flops_model / (iteration_s × gpus) × 10⁻¹²",
       "arithmetic; recompute never counts",
       {"flops_model", "iteration_s", "gpus"}},
      {"mfu",
       "model FLOPs utilisation (MFU)",
       "share",
       "flops_model / (iteration_s × gpus × peak_flops)",
       "Chowdhery et al. 2022, appendix B; recompute never counts",
       {"flops_model", "iteration_s", "gpus", "peak_flops"}},
      {"hfu",
       "hardware FLOPs utilisation (HFU)",
       "share",
       "flops_hardware / (iteration_s × gpus × peak_flops)",
       "Korthikanti et al. 2022, section 6; recompute counts",
       {"flops_hardware", "iteration_s", "gpus", "peak_flops"}},
      {"gpu_busy",
       "GPU busy",
       "share",
       "time with a kernel on the GPU / step, mean over the ranks; a collective that waits counts, as in utilisation "
       "meters",
       "timeline of the device",
       {"iteration_s"}},
      {"bubble_share",
       "bubble",
       "share",
       "mean idle time of a rank / step",
       "timeline of the device; category bubble",
       {"bubble_s", "iteration_s"}},
      {"bubble_s",
       "bubble time",
       "s",
       "mean over the ranks of the time in category bubble",
       "timeline of the device",
       {}},
      {"bubble_formula_step",
       "bubble by the formula",
       "share",
       "(pp − 1) / (vpp × micro_batches + pp − 1)",
       "Narayanan et al. 2021, section 2.2: all passes equal, transfers free",
       {"pp", "vpp", "micro_batches"}},
      {"bubble_formula_ideal",
       "bubble over ideal time by the formula",
       "share",
       "(pp − 1) / (vpp × micro_batches)",
       "Narayanan et al. 2021, section 2.2",
       {"pp", "vpp", "micro_batches"}},
      {"bubble_over_ideal",
       "bubble over the passes",
       "share",
       "bubble_s / mean time of a rank's forwards and backwards",
       "timeline of the device",
       {"bubble_s"}},
      {"exposed_tensor_s",
       "exposed tensor communication",
       "s",
       "tensor comm + recomputed comm, mean over the ranks",
       "timeline of the device: time in which compute waits for a tensor-parallel collective",
       {"k.tensor", "k.tensor_recompute"}},
      {"recompute_s",
       "recompute",
       "s",
       "time in category recompute, mean over the ranks",
       "timeline of the device",
       {"k.recompute"}},
      {"peak_memory_gib",
       "peak memory",
       "GiB",
       "largest peak_bytes of a stage / 2³⁰",
       "recorded allocations, by purpose, plus the stack's overhead",
       {"peaks"}},
      {"capacity_gib", "memory of one GPU", "GiB", "datasheet", "hardware profile", {}},
      {"fits",
       "fits",
       "1 or 0",
       "reserved bytes of the fullest rank ≤ capacity_gib",
       "recorded allocations",
       {"peak_memory_gib", "capacity_gib"}},
      {"ratio",
       "step ratio",
       "×",
       "iteration_s / iteration_s of the fastest variant of the same model, hardware, stack and layout (recompute "
       "apart) "
       "that fits",
       "arithmetic",
       {"iteration_s"}},
      {"loss", "loss", "1", "mean cross-entropy of the last step", "device cpu or cuda: computed", {}},
      {"flops_model",
       "model FLOPs of a step",
       "FLOP",
       "3 × global_batch × seq × (layers × (8 hidden² + 4 hidden × ffn_hidden + 4 seq × hidden) + 2 hidden × vocab): "
       "forward and twice as much backward; a causal formula counts half of the seq term; vocab padded",
       "Narayanan et al. 2021, section 3; Korthikanti et al. 2022, appendix A",
       {"global_batch", "seq", "layers", "hidden", "ffn_hidden", "vocab"}},
      {"flops_hardware",
       "FLOPs run in a step",
       "FLOP",
       "flops_model + one forward of what the recompute policy runs again",
       "Korthikanti et al. 2022, appendix A",
       {"flops_model"}},
      {"speed_of_light_s",
       "speed of light",
       "s",
       "flops_model / (gpus × peak_flops): no step can be shorter",
       "arithmetic",
       {"flops_model", "gpus", "peak_flops"}},
      {"peak_flops",
       "dense peak of one GPU",
       "FLOP/s",
       "datasheet, dense rate of the training precision",
       "hardware profile",
       {}},
      {"gpus", "GPUs", "", "tp × pp × dp", "case file, layout", {"tp", "pp", "dp"}},
      {"micro_batches",
       "micro-batches of a step",
       "",
       "global_batch / (micro_batch × dp)",
       "case file, layout",
       {"global_batch", "dp"}},
      {"peak_bytes",
       "peak memory of a stage",
       "B",
       "sum over purposes of the bytes at the peak",
       "recorded allocations of the stage's first rank; overhead from the stack",
       {"purposes"}},
      {"saved_bytes",
       "saved activations",
       "B",
       "bytes kept for the backward pass at their high-water mark",
       "recorded allocations",
       {"saved_formula_bytes"}},
      {"saved_formula_bytes",
       "saved activations by the formula",
       "B",
       "sum over the kept tensors, in flight micro-batches",
       "Korthikanti et al. 2022, section 4",
       {}},
      {"bytes",
       "bytes sent",
       "B",
       "sum over calls of what one rank sends by a ring, mean over the ranks",
       "recorded collectives",
       {"expected_bytes", "calls"}},
      {"expected_bytes",
       "bytes by the formula",
       "B",
       "calls × size × (n − 1)/n for all-gather and reduce-scatter, twice that for all-reduce, size for a send",
       "closed formula of model and layout, not of the recording",
       {}},
      {"rank_bytes",
       "bytes sent by one rank",
       "B",
       "as bytes, of the rank furthest from its formula",
       "recorded collectives",
       {"rank_expected_bytes", "calls"}},
      {"rank_expected_bytes",
       "bytes of that rank by the formula",
       "B",
       "as expected_bytes, for the rank's stage",
       "closed formula of model and layout, not of the recording",
       {}},
      {"calls",
       "calls",
       "",
       "collectives of this kind per rank and step, mean over the ranks",
       "recorded collectives",
       {}},
      {"exposed_s",
       "exposed communication",
       "s",
       "time in which compute waits for this kind, mean over the ranks",
       "timeline of the device",
       {"hidden_s", "bytes"}},
      {"hidden_s",
       "hidden communication",
       "s",
       "time on its stream − exposed_s, mean over the ranks",
       "timeline of the device",
       {"exposed_s"}},
      {"k",
       "time by category",
       "s",
       "every instant of every rank is in exactly one category: compute first, then exposed communication, then bubble",
       "timeline of the device",
       {"iteration_s"}},
  };
  return definitions;
}

std::string number_data(const Run& run) {
  Json definitions = Json::object(), cases = Json::array();
  for (const NumberDefinition& d : number_definitions())
    definitions[std::string(d.key)] = Json::array({d.title, d.unit, d.formula, d.source, d.inputs});
  for (const CategoryStyle& style : category_styles())
    definitions["k." + std::string(name_of(style.category))] =
        Json::array({style.title, "s", style.meaning, "timeline of the device: mean over the ranks", {"iteration_s"}});
  for (const CaseResult& result : run.cases) {
    Json variants = Json::array(), falls = Json::array(), checks = Json::array();
    const auto ratios = step_ratios(result);
    for (std::size_t i = 0; i < result.variants.size(); ++i)
      variants.push_back(variant_of(result.variants[i], ratios[i]));
    for (const Waterfall& fall : result.waterfalls) falls.push_back(waterfall_of(fall));
    for (const CheckResult& check : result.checks) checks.push_back(check_of(check));
    cases.push_back({{"id", result.id}, {"v", variants}, {"w", falls}, {"x", checks}});
  }
  const Json data = {{"device", run.device}, {"definitions", definitions}, {"cases", cases}};
  std::string text = data.dump(-1, ' ', false, Json::error_handler_t::replace), safe;
  safe.reserve(text.size());
  for (char c : text) {  // no "</script>" and no "<!--" can occur
    if (c == '<' || c == '&') {
      safe += c == '<' ? "\\u003c" : "\\u0026";
    } else {
      safe += c;
    }
  }
  return safe;
}

void definitions_list(Page& page, const Run& run) {
  if (run.cases.empty()) return;
  page.raw(
      "<section><h3>How the numbers are made</h3><p class=soft>On screen, click a number to see its inputs here and "
      "its "
      "place in result.json.</p><div class=scroll><table><tr><th class=l>number<th "
      "class=l>formula<th class=l>source");
  for (const NumberDefinition& d : number_definitions()) {
    page.raw("<tr><td class=\"l wide\">");
    page.text(d.title);
    page.raw("<span class=\"sub mono\">");
    page.text(d.key);
    page.raw("</span><td class=\"l wide\">");
    page.text(d.formula);
    page.raw("<td class=\"l wide\">");
    page.text(d.source);
  }
  page.raw("</table></div></section>");
}

}  // namespace benchsuite::html
