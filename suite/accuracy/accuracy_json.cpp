#include <cmath>

#include "suite/accuracy/accuracy_render.h"

namespace benchsuite {

namespace {

Json positive_or_null(double value) { return value > 0 ? Json(value) : Json(nullptr); }
template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json published_json(const RowResult& row) {
  const Published& published = row.published;
  Json json;
  json["iteration_s"] = positive_or_null(published.iteration_s);
  json["tokens_per_s_per_gpu"] = positive_or_null(published.tokens_per_s_per_gpu);
  json["from"] = published.from.empty() ? Json(nullptr) : Json(published.from);
  json["peak_memory_gb"] = positive_or_null(published.peak_memory_gb);
  json["fits"] = published.out_of_memory ? Json(false) : published.iteration_s > 0 ? Json(true) : Json(nullptr);
  if (row.kind == RowKind::layer_time) {
    json["layer_forward_s"] = positive_or_null(published.layer_forward_s);
    json["layer_backward_s"] = positive_or_null(published.layer_backward_s);
  }
  if (published.activation_gib > 0) json["activation_gib"] = published.activation_gib;
  return json;
}

Json predicted_json(const RowResult& row) {
  if (!row.predicted) return nullptr;
  const Prediction& predicted = *row.predicted;
  Json json;
  json["iteration_s"] = positive_or_null(predicted.iteration_s);
  json["tokens_per_s_per_gpu"] = positive_or_null(predicted.tokens_per_s_per_gpu);
  json["model_tflops_per_gpu"] = positive_or_null(predicted.model_tflops_per_gpu);
  json["mfu"] = or_null(predicted.mfu);
  json["hfu"] = or_null(predicted.hfu);
  json["peak_memory_gib"] = positive_or_null(predicted.peak_memory_gib);
  json["fits"] = row.kind == RowKind::layer_time ? Json(nullptr) : Json(predicted.fits);
  if (row.kind == RowKind::layer_time) {
    json["layer_forward_s"] = predicted.layer_forward_s;
    json["layer_backward_s"] = predicted.layer_backward_s;
  }
  if (row.published.activation_gib > 0) json["activation_gib"] = predicted.activation_gib;
  json["samples"] = predicted.samples;
  return json;
}

Json score_json(const Score& score, const char* name) {
  Json json;
  json[name] = score.name;
  json["rows"] = score.rows;
  json["mapped"] = score.mapped;
  json["compared"] = score.compared;
  const bool any = score.compared > 0;
  json["mean_abs_pct"] = any ? Json(score.mean_abs_pct) : Json(nullptr);
  json["max_abs_pct"] = any ? Json(score.max_abs_pct) : Json(nullptr);
  json["bias_pct"] = any ? Json(score.bias_pct) : Json(nullptr);
  json["rank_correlation"] = or_null(score.rank_correlation);
  json["rank_groups"] = score.rank_groups;
  json["interval_coverage"] = or_null(score.interval_coverage);
  json["interval_half_width_pct"] = or_null(score.interval_half_width_pct);
  if (score.target_mean_pct) json["interval_half_width_allowed_pct"] = kWidthInTargets * *score.target_mean_pct;
  json["worst"] = any ? Json(score.worst) : Json(nullptr);
  json["configurations"] = score.configurations;
  json["configuration_mean_abs_pct"] = any ? Json(score.configuration_mean_abs_pct) : Json(nullptr);
  json["configuration_max_abs_pct"] = any ? Json(score.configuration_max_abs_pct) : Json(nullptr);
  json["memory_rows"] = score.memory_rows;
  json["memory_right"] = score.memory_rows > 0 ? Json(score.memory_right) : Json(nullptr);
  json["false_fits"] = score.false_fits;
  json["false_ooms"] = score.false_ooms;
  if (score.target_mean_pct) json["target_mean_pct"] = *score.target_mean_pct;
  if (score.target_max_pct) json["target_max_pct"] = *score.target_max_pct;
  if (score.target_mean_pct || !score.sub_scores.empty()) json["missed_goals"] = score.missed_goals();
  for (const SubScore& sub : score.sub_scores) {
    json["sub_targets"].push_back({{"name", sub.target.name},
                                   {"rows", sub.rows},
                                   {"value", sub.value},
                                   {"bound", or_null(sub.target.bound)},
                                   {"met", sub.target.bound ? Json(sub.met()) : Json(nullptr)}});
  }
  if (score.first_mean_abs_pct) json["first_mean_abs_pct"] = *score.first_mean_abs_pct;
  if (score.share_of_draws) json["share_of_draws_that_meets_the_target"] = *score.share_of_draws;
  if (!score.relative_to.empty()) {
    json["relative_to"] = score.relative_to;
    json["relative_rows"] = Json::array();
    for (const RelativeRow& row : score.relative_rows) {
      json["relative_rows"].push_back({{"id", row.id},
                                       {"reference", row.reference},
                                       {"published", row.published},
                                       {"predicted", row.predicted},
                                       {"error_pct", row.error_pct}});
    }
  }
  return json;
}

Json row_json(const RowResult& row) {
  Json json;
  json["id"] = row.id;
  json["source"] = row.source;
  json["set"] = row.set;
  json["mapped"] = row.mapped;
  json["reason"] = row.mapped ? Json(nullptr) : Json(row.reason);
  json["published"] = published_json(row);
  json["predicted"] = predicted_json(row);
  json["error_pct"] = or_null(row.error_pct);
  if (row.forward_error_pct) json["forward_error_pct"] = *row.forward_error_pct;
  if (row.backward_error_pct) json["backward_error_pct"] = *row.backward_error_pct;
  json["memory_error_pct"] = or_null(row.memory_error_pct);
  json["interval"] = row.interval ? Json::array({row.interval->first, row.interval->second}) : Json(nullptr);
  json["dominant"] = row.dominant.empty() ? Json(nullptr) : Json(row.dominant);
  if (row.mapped) {
    json["stack"] = row.stack;
    json["hardware"] = row.hardware;
    json["layout"] = to_json(row.layout);
    json["assumptions"] = row.assumptions;
  }
  return json;
}

}  // namespace

Json to_json(const AccuracyReport& report) {
  Json json;
  json["schema_version"] = 1;
  json["selection"] = report.selection;
  json["draws"] = report.draws;
  json["unstated_drawn"] = report.unstated_drawn;
  json["seed"] = report.seed;
  json["interval_quantiles"] = {kIntervalTail, 1 - kIntervalTail};
  json["all"] = score_json(report.all, "set");
  json["rows"] = Json::array();
  for (const RowResult& row : report.rows) json["rows"].push_back(row_json(row));
  json["sources"] = Json::array();
  for (const Score& score : report.sources) json["sources"].push_back(score_json(score, "source"));
  json["sets"] = Json::array();
  for (const Score& score : report.sets) json["sets"].push_back(score_json(score, "set"));
  json["ablation"] = Json::array();
  for (const AblationRow& row : report.ablation) {
    json["ablation"].push_back({{"effect", row.effect},
                                {"set", row.set},
                                {"rows", row.rows},
                                {"base_mean_abs_pct", row.base_mean_abs_pct},
                                {"base_bias_pct", row.base_bias_pct},
                                {"mean_abs_pct", row.mean_abs_pct},
                                {"bias_pct", row.bias_pct},
                                {"step_change_pct", row.step_change_pct}});
  }
  return json;
}

}  // namespace benchsuite
