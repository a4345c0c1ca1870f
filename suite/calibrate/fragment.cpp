#include "suite/calibrate/fragment.h"

#include <cmath>
#include <cstdlib>

#include <fmt/format.h>

namespace benchsuite {

namespace {

double rounded(double value, int digits = 4) {
  return std::strtod(fmt::format("{:.{}g}", value, digits).c_str(), nullptr);
}

Json judgement_json(const CalibratedTable& entry) {
  const Judgement& judgement = entry.judgement;
  Json json = {{"op", judgement.reading.op},
               {"ranks", judgement.reading.ranks},
               {"nodes", judgement.reading.nodes},
               {"rows", entry.table.rows.size()},
               {"smallest", entry.table.rows.front().size},
               {"largest", entry.table.rows.back().size},
               {"judged", judgement.judged},
               {"healthy", judgement.judged || !judgement.healthy() ? Json(judgement.healthy()) : Json()}};
  if (judgement.plateau) {
    json["plateau_busbw"] = rounded(judgement.plateau_busbw / 1e9);
    json["plateau_over_expected"] = rounded(*judgement.plateau);
  }
  if (judgement.latency) json["latency_over_expected"] = rounded(*judgement.latency);
  json["findings"] = Json::array();
  for (const Finding& finding : judgement.findings)
    json["findings"].push_back({{"code", finding.code}, {"text", finding.text}});
  json["notes"] = judgement.notes;
  return json;
}

}  // namespace

Json calibration_fragment(const std::vector<CalibratedTable>& tables, const std::vector<CalibrationSource>& sources,
                          const std::string& hardware, const std::string& verdict) {
  Json out = {{"schema_version", 1},
              {"kind", kFragmentKind},
              {"hardware", hardware.empty() ? Json() : Json(hardware)},
              {"verdict", verdict},
              {"sources", Json::object()}};
  for (const CalibrationSource& source : sources) out["sources"][source.key] = source.text;
  Json inside = Json::array(), across = Json::array();
  for (const CalibratedTable& entry : tables) {
    if (!entry.fit) continue;
    const Reading& reading = entry.judgement.reading;
    Json fit = {{"op", reading.op}, {"ranks", reading.ranks}};
    if (reading.nodes > 1) fit["nodes"] = reading.nodes;
    fit["a"] = rounded(entry.fit->a_s * 1e6);
    fit["busbw"] = rounded(entry.fit->busbw / 1e9);
    fit["c"] = rounded(entry.fit->c_s * 1e6);
    fit["source"] = entry.source;
    fit["rows"] = entry.fit->rows;
    fit["fit_error"] = {{"median", rounded(entry.fit->median_error, 2)}, {"p90", rounded(entry.fit->p90_error, 2)}};
    (reading.nodes > 1 ? across : inside).push_back(fit);
  }
  if (!inside.empty()) out["nvlink"] = {{"collectives", inside}};
  if (!across.empty()) out["fabric"] = {{"collectives", across}};
  out["judgement"] = Json::array();
  for (const CalibratedTable& entry : tables) out["judgement"].push_back(judgement_json(entry));
  return out;
}

}  // namespace benchsuite
