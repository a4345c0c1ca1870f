// Where cases, models, stacks, hardware profiles and expectations lie, and how a name becomes a file.
//
//   ROOT/cases/NAME.json  ROOT/cases/models/NAME.json  ROOT/cases/stacks/NAME.json  ROOT/cases/hardware/NAME.json
//   ROOT/expected/NAME.json   ROOT/cases/suites/NAME.json
#pragma once

#include <string>
#include <vector>

#include "engine/core/error.h"

namespace benchsuite {

enum class DataKind : std::uint8_t { cases, model, stack, hardware, expected, suite };

class DataRoot {
 public:
  explicit DataRoot(std::string path) : path_(std::move(path)) {}

  /// BENCHSUITE_ROOT when set, else the first folder with a cases/ folder among: the executable's folder and up to
  /// three levels above it, then the working folder. Throws Error (config) when there is none.
  static DataRoot find();

  const std::string& path() const { return path_; }
  std::string folder(DataKind kind) const;
  std::string file_of(DataKind kind, const std::string& name) const;
  /// Names (file stems) of a kind, sorted.
  std::vector<std::string> names(DataKind kind) const;

  /// The file a reference means. Anything with a '/' or ending in ".json" is a path: absolute, or relative to the
  /// folder of `referrer` (a case file), or relative to the working folder. Anything else is a name of the root. Empty,
  /// with a violation that lists or suggests names, when there is no such file.
  std::string locate(DataKind kind, const std::string& reference, const std::string& referrer, const std::string& key,
                     std::vector<Violation>& problems) const;

  /// `file` relative to the root where it lies inside it, so that results don't depend on where the checkout is.
  std::string shorten(const std::string& file) const;

 private:
  std::string path_;
};

}  // namespace benchsuite
