#include "suite/results/run.h"
#include "tests/suite/report/fixture.h"

namespace benchsuite {

Run hostile() {
  Run run = synthetic_run();
  run.run_id = run.suite_version = run.engine_commit = run.device = run.started = run.ended = run.host = kEvil;
  run.argv = {"benchsuite", kEvil};
  CaseResult& result = run.cases[0];
  result.id = result.title = result.case_hash = result.reason_code = result.reason = kEvil;
  result.method_note = std::string("# ") + kEvil + "\n\n" + kEvil + "\n\n- " + kEvil + "\n\n`" + kEvil + "` [" + kEvil +
                       "](https://evil.example/\"onx=1)\n\n|" + kEvil + "|\n|---|\n|" + kEvil + "|\n\n```\n" + kEvil +
                       "\n```\n";
  for (VariantResult& v : result.variants) {
    v.id = v.title = v.hardware = v.stack = v.reason_code = v.reason = v.flops_formula = kEvil;
    v.status = Status::warn;
    v.model["name"] = kEvil;
    v.layout["attention"] = kEvil;
    for (CommunicationTime& kind : v.communication) kind.kind = kEvil;
    for (StageResult& stage : v.stages) {
      for (auto& purpose : stage.memory.by_purpose) purpose.first = kEvil;
      for (auto& term : stage.memory.saved_terms) term.name = term.formula = kEvil;
    }
  }
  for (Waterfall& fall : result.waterfalls) {
    fall.id = fall.from = fall.to = fall.one_line = kEvil;
    for (auto& part : fall.parts) part.name = part.explanation = kEvil;
  }
  for (CheckResult& check : result.checks)
    check.id = check.metric = check.kind = check.unit = check.source = check.explanation = kEvil;
  return run;
}

}  // namespace benchsuite
