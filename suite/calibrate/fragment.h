// What calibrate writes: fitted constants in the form of a profile, with their provenance, and the judgement.
//
//   sources      key -> tool, file, fingerprint of its content
//   nvlink.collectives   fits inside a node: entries for "collectives" of a profile's "nvlink" (a us, busbw GB/s, c us
//                per sqrt(byte)), to be pasted there with their source
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

}  // namespace benchsuite
