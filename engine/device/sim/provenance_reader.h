// What the sections of a profile file have in common: units, ranges of values, and where each value comes from.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/device/sim/hardware.h"

namespace benchsuite {

inline constexpr double kMicro = 1e-6, kGiga = 1e9, kTera = 1e12;

/// What a number must be.
enum class Range : std::uint8_t { positive, not_negative, share, share_or_zero, any };

class ProvenanceReader {
 protected:
  ProvenanceReader(const std::string& file, std::vector<Violation>& problems) : file_(file), problems_(problems) {}

  void section(ObjectReader& parent, const char* key, bool must, const std::function<void(ObjectReader&)>& body);
  void section_of_list(ObjectReader& parent, const char* key, const std::function<void(ObjectReader&)>& body);

  /// The top-level map of source keys to public origins.
  void read_sources(ObjectReader& top);

  /// Where a value comes from: "source" (keys of the top-level map, comma separated), how many rows are behind it, its
  /// fit error, the error on rows held back from the fit and on machines that were not fitted, other sources beside it, and whether it stands in for another.
  void provenance(ObjectReader& reader);

  /// The error of the model that `section` describes, shape by shape: on machines that were not fitted, else on the rows held back,
  /// else on those fitted, else none.
  static ModelError model_error(const Json& section);

  /// {"value", "unit", provenance, "range": [low, high] for an ensemble, "as": the path of the constant that it is drawn with}, times
  /// `scale`.
  double quantity(ObjectReader& parent, const char* key, const char* unit, double scale, Range range);
  int count(ObjectReader& parent, const char* key);
  double number(ObjectReader& reader, const char* key, Range range);
  std::int64_t whole(ObjectReader& reader, const char* key);

  std::vector<double> numbers(ObjectReader& reader, const char* key);
  /// A list that must ascend.
  std::vector<double> ascending(ObjectReader& reader, const char* key);
  /// {x_key: [...], "slowdown": [...]}.
  Curve curve(ObjectReader& reader, const char* x_key);

  const std::string& file_;
  std::vector<Violation>& problems_;
  std::vector<std::string> sources_;
};

}  // namespace benchsuite
