// Case files (cases/NAME.json) as written: a configuration, variants of it, and which pairs to explain.
//
//   { "schema_version": 1, "id": "...", "title": "...", "tags": [...], "refs": [{"kind", "cite", "where"}],
//     "model": NAME | {...}, "layout": {...}, "stack": NAME | {...}, "hardware": NAME | PATH | {...},
//     "variants": [{"id", "title", "set": {"layout.recompute.granularity": "full"}}],
//     "comparisons": [{"id", "title", "from", "to"}] }
//
// suite/cases/resolve.h turns a CaseFile into configurations the engine can run.
#pragma once

#include <string>
#include <vector>

#include "engine/core/json_reader.h"

namespace benchsuite {

inline constexpr int kCaseSchemaVersion = 1;

/// One value put in place of what the case says. `key` is dotted: "layout.tp", "model.layers", "hardware".
struct Override {
  std::string key;
  Json value;
  std::string file;  ///< who said it: the case file or "--set"
};

/// Parses KEY=VALUE; the value is JSON where it parses as JSON (8, true, "x", [..]), else a plain string.
/// Throws Error (config) when there is no '=' or no key.
Override parse_set(const std::string& text);

struct CaseReference {
  std::string kind, cite, where;
};

struct VariantSpec {
  std::string id, title;
  std::vector<Override> set;
};

/// Asks for a waterfall from one variant to another.
struct ComparisonSpec {
  std::string id, title, from, to;
};

struct CaseFile {
  std::string file;
  std::string id, title;
  std::vector<std::string> tags;
  std::vector<CaseReference> refs;
  Json model, layout, stack, hardware;  ///< as written: a name, a path or an object
  std::vector<VariantSpec> variants;
  std::vector<ComparisonSpec> comparisons;
};

/// Reads the frame of a case; what model, layout, stack and hardware say is checked when the case is resolved.
CaseFile read_case(const Json& json, const std::string& file, std::vector<Violation>& problems);

}  // namespace benchsuite
