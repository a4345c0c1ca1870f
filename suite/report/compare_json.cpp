#include <cmath>

#include "suite/report/compare_render.h"

namespace benchsuite {
namespace {

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }
Json number(const std::optional<double>& value) { return value ? number(*value) : Json(nullptr); }

Json to_json(const MetricChange& change) {
  return {{"metric", change.name},
          {"unit", change.unit},
          {"from", number(change.from)},
          {"to", number(change.to)},
          {"relative", change.from && change.to ? number(change.relative) : Json(nullptr)},
          {"noise", number(change.noise)},
          {"floor", number(change.floor)},
          {"from_samples", change.from_samples},
          {"to_samples", change.to_samples},
          {"exact", change.exact},
          {"p", number(change.p)},
          {"change", name_of(change.change)},
          {"gates", change.gates},
          {"note", change.note}};
}

Json to_json(const Waterfall& waterfall) {
  Json parts = Json::array();
  for (const Waterfall::Part& part : waterfall.parts) {
    parts.push_back({{"name", part.name}, {"seconds", number(part.seconds)}, {"explanation", part.explanation}});
  }
  return {{"from_s", number(waterfall.from_s)}, {"to_s", number(waterfall.to_s)}, {"parts", parts}};
}

}  // namespace

Json to_json(const Comparison& comparison) {
  Json variants = Json::array(), verdicts = Json::array();
  for (const VariantComparison& pair : comparison.variants) {
    Json metrics = Json::array();
    for (const MetricChange& change : pair.metrics) metrics.push_back(to_json(change));
    Json entry = {{"case", pair.case_id}, {"from", pair.from}, {"to", pair.to}, {"metrics", metrics},
                  {"waterfall", pair.waterfall ? to_json(*pair.waterfall) : Json(nullptr)}};
    if (pair.ratio) {
      entry["step_ratio"] = {{"ratio", number(pair.ratio->ratio)},         {"pairs", pair.ratio->pairs},
                             {"low", number(pair.ratio->low)},             {"high", number(pair.ratio->high)},
                             {"confidence", number(pair.ratio->confidence)}, {"note", pair.ratio->note}};
    }
    variants.push_back(std::move(entry));
  }
  for (const VerdictChange& change : comparison.verdicts) {
    verdicts.push_back({{"case", change.case_id},
                        {"id", change.id},
                        {"expectation", change.check},
                        {"from", name_of(change.from)},
                        {"to", name_of(change.to)},
                        {"worse", change.worse}});
  }
  return {{"schema_version", 1},
          {"kind", comparison.kind},
          {"from", comparison.from},
          {"to", comparison.to},
          {"verdict", comparison.verdict},
          {"exit_code", comparison.exit_code},
          {"variants", variants},
          {"verdicts", verdicts},
          {"only_from", comparison.only_from},
          {"only_to", comparison.only_to},
          {"environment", comparison.environment},
          {"notes", comparison.notes}};
}

}  // namespace benchsuite
