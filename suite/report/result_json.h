// result.json: a Run as JSON and back. Everything that is shown anywhere can be rendered again from this file.
//
// Equal Runs give equal bytes. Numbers are finite (anything else is null) and carry their unit in the key: _s seconds,
// _ps whole picoseconds, _us microseconds, _gib GiB, bytes; shares and mfu, hfu, gpu_busy are fractions of one. Two
// runs of the same thing differ only under volatile_keys().
//
//   {schema_version, run_id, suite_version, engine_commit, device, argv, started, ended, host, environment, exit_code,
//    categories,
//    cases: [{id, title, case_hash, status, reason_code, reason, elapsed_s, variants, waterfall, checks, method_note}]}
//
// A stage's `gantt` is a list of [start_us, end_us, category, micro_batch, chunk]: category is an index into the
// top-level `categories`, -1 stands for "none". schema/result.schema.json says all of it as a JSON Schema.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "suite/results/run.h"
#include "suite/results/shared_text.h"

namespace benchsuite {

inline constexpr int kResultSchemaVersion = 1;

/// Keys whose values may differ between two runs of the same thing: run_id, started, ended, host (of the run),
/// elapsed_s (of each case).
std::span<const std::string_view> volatile_keys();

Json to_json(const Run& run);

/// The inverse of to_json: to_json(run_from_json(to_json(run))) has the same bytes. Throws Error (config) that lists
/// every problem, each with key, value and remedy; `file` names the source in them.
Run run_from_json(const Json& json, const std::string& file = "result.json");

/// The bytes of result.json, as json_text.h lays them out.
std::string result_text(const Run& run);

/// The same in parts, for a variant stands in several files: each as it stands in a result.json, made of those it contains.
SharedText variant_text(const VariantResult& variant);
SharedText case_text(const CaseResult& result, std::span<const SharedText> variants);
SharedText result_text(const Run& run, std::span<const SharedText> cases);

}  // namespace benchsuite
