// What calibrate writes: fitted constants in the form of a profile, with their provenance, and the judgement.
//
//   sources      key -> tool, file, fingerprint of its content
//   nvlink.collectives   fits inside a node: entries for "collectives" of a profile's "nvlink" (a us, busbw GB/s, c us
//                per sqrt(byte)); `hardware merge` puts them there with their sources
//   fabric.collectives   fits between nodes, with "nodes"
//   judgement    one entry a table: plateau and latency against the profile, findings, notes
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "suite/calibrate/calibrate.h"

namespace benchsuite {

/// A table with everything calibrate found out about it.
struct CalibratedTable {
  CollectiveTable table;
  Judgement judgement;
  std::optional<CollectiveModelFit> fit;
  std::string source;  ///< key of its file
};

struct CalibrationSource {
  std::string key, text;
};

/// `hardware` is the profile's name or empty; `verdict` the word of the last line.
Json calibration_fragment(const std::vector<CalibratedTable>& tables, const std::vector<CalibrationSource>& sources,
                          const std::string& hardware, const std::string& verdict);

inline constexpr const char* kFragmentKind = "hardware fragment";

struct FragmentFit {
  std::string op, source;
  int ranks = 0, nodes = 1;
  double a_us = 0, busbw_gb_s = 0, c_us = 0;
};

/// A fragment read back.
struct Fragment {
  std::string verdict;
  Json sources = Json::object();
  std::vector<FragmentFit> fits;  ///< all of them
  std::vector<Json> inside;       ///< those inside a node, as entries of a profile's "nvlink.collectives"
};

bool is_fragment(const Json& json);
/// Strict; problems carry file, key, value and remedy.
Fragment read_fragment(const Json& json, const std::string& file, std::vector<Violation>& problems);

/// A whole profile (HardwareProfile::raw) with the fits of `fragments` in place of its own, operation by operation: the
/// entries and the ramp of an operation that a fragment has go. Fits between nodes are left out. `notes` says what else was.
Json merge_fragments(Json profile, const std::vector<Fragment>& fragments, std::vector<std::string>& notes);

}  // namespace benchsuite
