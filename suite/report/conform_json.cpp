#include "suite/report/conform_json.h"

namespace benchsuite {

std::string_view word_of(ConformRow::Required required) {
  return required == ConformRow::Required::bits ? "bits" : "tolerance";
}

Json to_json(const ConformReport& report) {
  Json rows = Json::array();
  for (const ConformRow& row : report.rows) {
    rows.push_back({{"id", row.id},
                    {"layout", row.layout},
                    {"against", row.against},
                    {"max_abs_loss", row.max_abs_loss},
                    {"max_rel_grad_norm", row.max_rel_grad_norm},
                    {"required", word_of(row.required)},
                    {"verdict", row.pass ? "PASS" : "FAIL"}});
  }
  Json out = {{"configurations", std::move(rows)}};
  if (report.left_out > 0) out["left_out"] = report.left_out;
  return out;
}

}  // namespace benchsuite
