// run_from_json: the strict reader of result.json.
#include <algorithm>
#include <cmath>
#include <limits>

#include "suite/report/result_json.h"

namespace benchsuite {
namespace {

/// null stands for a number that was not finite, or for "none".
void number(ObjectReader& reader, const char* key, double& out, double when_null) {
  const Json* value = reader.raw(key, true);
  if (!value) return;
  if (value->is_null()) {
    out = when_null;
  } else if (value->is_number()) {
    out = value->get<double>();
  } else {
    reader.problem(key, "is not a number", "write a number or null");
  }
}

void number(ObjectReader& reader, const char* key, double& out) {
  number(reader, key, out, std::numeric_limits<double>::quiet_NaN());
}

void number(ObjectReader& reader, const char* key, std::optional<double>& out) {
  double value = 0;
  number(reader, key, value);
  out = std::isnan(value) ? std::nullopt : std::optional(value);
}

/// A list of numbers; results of earlier versions don't have it.
void numbers(ObjectReader& reader, const char* key, std::vector<double>& out) {
  const Json* value = reader.raw(key);
  if (!value) return;
  const auto fits = [](const Json& item) { return item.is_number() || item.is_null(); };
  if (!value->is_array() || !std::all_of(value->begin(), value->end(), fits)) {
    reader.problem(key, "is not a list of numbers", "write numbers; null stands for one that was not finite");
    return;
  }
  for (const Json& item : *value)
    out.push_back(item.is_null() ? std::numeric_limits<double>::quiet_NaN() : item.get<double>());
}

void range(ObjectReader& reader, const char* key, std::optional<double>& low, std::optional<double>& high) {
  const Json* value = reader.raw(key, true);
  if (!value) return;
  if (!value->is_array() || value->size() != 2) {
    reader.problem(key, "is not a pair", "write [low, high]; null stands for an open side");
    return;
  }
  std::optional<double>* const sides[] = {&low, &high};
  for (std::size_t i = 0; i < 2; ++i) {
    const Json& side = (*value)[i];
    if (side.is_number()) *sides[i] = side.get<double>();
    if (!side.is_number() && !side.is_null())
      reader.problem(key, "has a side that is not a number", "write a number or null");
  }
}

void status(ObjectReader& reader, Status& out) {
  reader.choice("status", out,
                {{"PASS", Status::pass},
                 {"XFAIL", Status::xfail},
                 {"SKIP", Status::skip},
                 {"NOREF", Status::noref},
                 {"WARN", Status::warn},
                 {"XPASS", Status::xpass},
                 {"FAIL", Status::fail},
                 {"ABORTED", Status::aborted},
                 {"TIMEOUT", Status::timeout},
                 {"ERROR", Status::error}},
                true);
}

void breakdown(ObjectReader& parent, const char* key, Breakdown& out) {
  const Json* value = parent.raw(key, true);
  if (!value) return;
  ObjectReader reader(*value, parent.file(), parent.dotted(key), parent.problems());
  for (int c = 0; c < kCategories; ++c) {
    // name_of gives views of literals, which end in a zero.
    reader.required(name_of(static_cast<Category>(c)).data(), out.time[static_cast<std::size_t>(c)]);
  }
  reader.finish();
}

/// Calls read(ObjectReader&, element) for each object of a list.
template <class T, class Read>
void list(ObjectReader& parent, const char* key, std::vector<T>& out, Read read) {
  const Json* value = parent.raw(key, true);
  if (!value) return;
  if (!value->is_array()) {
    parent.problem(key, "is not a list", "write a list of objects");
    return;
  }
  out.resize(value->size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    ObjectReader reader((*value)[i], parent.file(), parent.dotted(key) + "[" + std::to_string(i) + "]",
                        parent.problems());
    read(reader, out[i]);
    reader.finish();
  }
}

template <class Read>
void object(ObjectReader& parent, const char* key, Read read) {
  const Json* value = parent.raw(key, true);
  if (!value) return;
  ObjectReader reader(*value, parent.file(), parent.dotted(key), parent.problems());
  read(reader);
  reader.finish();
}

void read_gantt(ObjectReader& reader, std::vector<GanttSpan>& out) {
  const Json* value = reader.raw("gantt", true);
  if (!value) return;
  const auto fits = [](const Json& span) {
    return span.is_array() && span.size() == 5 && span[0].is_number() && span[1].is_number() &&
           span[2].is_number_integer() && span[2].get<int>() >= 0 && span[2].get<int>() < kCategories &&
           span[3].is_number_integer() && span[4].is_number_integer();
  };
  if (!value->is_array() || !std::all_of(value->begin(), value->end(), fits)) {
    reader.problem("gantt", "is not a list of spans",
                   "write [start_us, end_us, category, micro_batch, chunk] for each");
    return;
  }
  out.reserve(value->size());
  for (const Json& span : *value) {
    out.push_back({static_cast<Category>(span[2].get<int>()), span[3].get<std::int32_t>(), span[4].get<std::int16_t>(),
                   std::llround(span[0].get<double>() * 1e6), std::llround(span[1].get<double>() * 1e6)});
  }
}

void read_terms(ObjectReader& reader, const char* key, std::vector<StageMemory::Term>& terms) {
  list(reader, key, terms, [](ObjectReader& term_reader, StageMemory::Term& term) {
    term_reader.required("name", term.name);
    term_reader.required("purpose", term.purpose);
    number(term_reader, "bytes", term.bytes);
    term_reader.required("formula", term.formula);
  });
}

void read_memory(ObjectReader& reader, StageMemory& memory) {
  number(reader, "peak_bytes", memory.peak_bytes);
  if (const Json* purposes = reader.raw("by_purpose_bytes", true)) {
    for (auto item = purposes->begin(); purposes->is_object() && item != purposes->end(); ++item) {
      memory.by_purpose.emplace_back(
          item.key(), item->is_number() ? item->get<double>() : std::numeric_limits<double>::quiet_NaN());
    }
  }
  if (reader.raw("reserved_bytes")) number(reader, "reserved_bytes", memory.reserved_bytes, -1);
  number(reader, "saved_bytes", memory.saved_bytes);
  number(reader, "saved_formula_bytes", memory.saved_formula_bytes, -1);
  read_terms(reader, "terms", memory.terms);
  read_terms(reader, "saved_terms", memory.saved_terms);
}

void read_stage(ObjectReader& reader, StageResult& stage) {
  reader.required("stage", stage.stage);
  reader.required("representative_rank", stage.representative_rank);
  number(reader, "gpu_busy", stage.gpu_busy);
  reader.required("peak_in_flight", stage.peak_in_flight);
  breakdown(reader, "breakdown_ps", stage.breakdown);
  object(reader, "memory", [&](ObjectReader& memory) { read_memory(memory, stage.memory); });
  list(reader, "sent", stage.sent, [](ObjectReader& sent_reader, SentBytes& sent) {
    sent_reader.required("kind", sent.kind);
    number(sent_reader, "bytes", sent.bytes);
    number(sent_reader, "expected_bytes", sent.expected_bytes, -1);
  });
  read_gantt(reader, stage.gantt);
}

void read_communication(ObjectReader& reader, CommunicationTime& communication) {
  reader.required("kind", communication.kind);
  number(reader, "exposed_s", communication.exposed_s);
  number(reader, "hidden_s", communication.hidden_s);
  number(reader, "bytes", communication.bytes);
  number(reader, "expected_bytes", communication.expected_bytes, -1);
  reader.required("calls", communication.calls);
}

void read_variant(ObjectReader& reader, VariantResult& v) {
  reader.required("id", v.id);
  reader.required("title", v.title);
  status(reader, v.status);
  reader.required("reason_code", v.reason_code);
  reader.required("reason", v.reason);
  reader.required("hardware", v.hardware);
  reader.required("stack", v.stack);
  if (const Json* model = reader.raw("model", true)) v.model = *model;
  if (const Json* layout = reader.raw("layout", true)) v.layout = *layout;
  reader.required("step_ps", v.step);
  number(reader, "iteration_s", v.iteration_s);
  number(reader, "tokens_per_s_per_gpu", v.tokens_per_s_per_gpu);
  number(reader, "model_tflops_per_gpu", v.model_tflops_per_gpu);
  number(reader, "mfu", v.mfu);
  number(reader, "hfu", v.hfu);
  number(reader, "gpu_busy", v.gpu_busy);
  number(reader, "bubble_share", v.bubble_share);
  number(reader, "bubble_formula_step", v.bubble_formula_step);
  number(reader, "bubble_formula_ideal", v.bubble_formula_ideal);
  number(reader, "bubble_over_ideal", v.bubble_over_ideal);
  list(reader, "bubble_parts", v.bubble_parts, [](ObjectReader& part_reader, BubblePart& part) {
    part_reader.required("name", part.name);
    number(part_reader, "seconds", part.seconds);
    part_reader.required("explanation", part.explanation);
  });
  number(reader, "recompute_s", v.recompute_s);
  number(reader, "peak_memory_gib", v.peak_memory_gib);
  number(reader, "capacity_gib", v.capacity_gib);
  reader.required("fits", v.fits);
  number(reader, "loss", v.loss);
  numbers(reader, "loss_curve", v.loss_curve);
  numbers(reader, "step_samples_s", v.step_samples_s);
  reader.raw("step_statistics");  // follows from the samples
  number(reader, "speed_of_light_s", v.speed_of_light_s);
  object(reader, "flops", [&](ObjectReader& flops) {
    number(flops, "model", v.flops_model);
    number(flops, "hardware", v.flops_hardware);
    flops.required("formula", v.flops_formula);
  });
  reader.required("ops", v.ops);
  object(reader, "breakdown", [&](ObjectReader& parts) {
    parts.required("ranks", v.ranks_in_breakdown);
    breakdown(parts, "sum_ps", v.mean_breakdown);
    parts.raw("mean_s");  // follows from the two
  });
  list(reader, "communication", v.communication, read_communication);
  list(reader, "stages", v.stages, read_stage);
}

void read_waterfall(ObjectReader& reader, Waterfall& waterfall) {
  reader.required("id", waterfall.id);
  reader.required("from", waterfall.from);
  reader.required("to", waterfall.to);
  number(reader, "from_s", waterfall.from_s);
  number(reader, "to_s", waterfall.to_s);
  list(reader, "parts", waterfall.parts, [](ObjectReader& part_reader, Waterfall::Part& part) {
    part_reader.required("name", part.name);
    number(part_reader, "seconds", part.seconds);
    part_reader.required("explanation", part.explanation);
  });
  reader.required("one_line", waterfall.one_line);
}

void read_check(ObjectReader& reader, CheckResult& check) {
  reader.required("id", check.id);
  reader.optional("title", check.title);
  reader.required("metric", check.metric);
  reader.required("kind", check.kind);
  reader.choice("verdict", check.verdict,
                {{"PASS", Verdict::pass},
                 {"WARN", Verdict::warn},
                 {"FAIL", Verdict::fail},
                 {"IMPROVED", Verdict::improved},
                 {"NOREF", Verdict::noref},
                 {"MISSING", Verdict::missing},
                 {"SHOWN", Verdict::shown}},
                true);
  reader.required("gates", check.gates);
  number(reader, "value", check.value);
  reader.required("unit", check.unit);
  number(reader, "target", check.target);
  range(reader, "pass", check.pass_low, check.pass_high);
  range(reader, "warn", check.warn_low, check.warn_high);
  reader.required("source", check.source);
  reader.required("explanation", check.explanation);
}

void read_case(ObjectReader& reader, CaseResult& result) {
  reader.required("id", result.id);
  reader.required("title", result.title);
  reader.required("case_hash", result.case_hash);
  status(reader, result.status);
  reader.required("reason_code", result.reason_code);
  reader.required("reason", result.reason);
  number(reader, "elapsed_s", result.elapsed_s);
  list(reader, "checks", result.checks, read_check);
  list(reader, "waterfall", result.waterfalls, read_waterfall);
  list(reader, "variants", result.variants, read_variant);
  reader.required("method_note", result.method_note);
}

}  // namespace

Run run_from_json(const Json& json, const std::string& file) {
  std::vector<Violation> problems;
  Run run;
  ObjectReader reader(json, file, "", problems);
  int version = 0;
  reader.required("schema_version", version);
  if (problems.empty() && version != kResultSchemaVersion) {
    reader.problem("schema_version", "this program reads schema_version " + std::to_string(kResultSchemaVersion),
                   "render the result with the version of benchsuite that wrote it");
  }
  // A file of another kind or version would only add noise.
  if (!problems.empty()) throw Error(problems);
  reader.required("run_id", run.run_id);
  reader.required("suite_version", run.suite_version);
  reader.required("engine_commit", run.engine_commit);
  reader.required("device", run.device);
  reader.required("argv", run.argv);
  reader.required("started", run.started);
  reader.required("ended", run.ended);
  reader.required("host", run.host);
  if (const Json* environment = reader.raw("environment")) {
    run.environment = *environment;
    if (!environment->is_object() && !environment->is_null())
      reader.problem("environment", "is not an object", "write names and values, or null");
  }
  reader.required("exit_code", run.exit_code);
  reader.raw("categories", true);
  list(reader, "cases", run.cases, read_case);
  reader.finish();
  if (!problems.empty()) throw Error(problems);
  return run;
}

}  // namespace benchsuite
