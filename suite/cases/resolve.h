// From a case file and --set values to configurations the engine can run.
//
// For each variant: names are loaded, the variant's `set` and then every --set are put in place in the order written,
// the result is parsed strictly, and the parts are checked against each other. All violations of all variants are
// collected.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/device/sim/hardware.h"
#include "engine/train/config.h"
#include "suite/cases/case.h"
#include "suite/cases/data_root.h"

namespace benchsuite {

struct ResolvedVariant {
  std::string id, title;
  TrainConfig config;
  std::string hardware_name;  ///< as results show it
  std::shared_ptr<const HardwareProfile> hardware;
  Json resolved;     ///< {model, layout, stack, hardware}: everything spelled out
  std::string hash;  ///< of what changes performance
};

struct ResolvedCase {
  CaseFile source;
  std::string method_note;  ///< Markdown of the file beside the case, may be empty
  std::vector<ResolvedVariant> variants;
  std::vector<std::string> notes;  ///< what --set made of the variants and what stands in for missing rates, for people
  std::string hash;  ///< of all variants; titles, tags and references don't enter
  Json resolved;     ///< what resolved_case.json holds
};

/// Resolves every variant. On any violation `problems` grows and the result must not be run. Two variants of a file that are
/// the same configuration are a violation; where `sets` make them the same, the first stands for both and its title says so.
ResolvedCase resolve_case(const CaseFile& source, const std::vector<Override>& sets, const DataRoot& root,
                          std::vector<Violation>& problems);

/// Puts `value` at the dotted `key` below `target`, making objects on the way. Returns what is wrong, or "".
std::string put(Json& target, const std::string& key, const Json& value);

/// The Markdown beside a case file (same name, .md), or "".
std::string read_method_note(const std::string& case_file);

}  // namespace benchsuite
