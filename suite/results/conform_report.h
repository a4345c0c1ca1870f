// What conformance found: plain data, rendered as text, JSON and HTML.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace benchsuite {

struct ConformRow {
  enum class Required : std::uint8_t { bits, tolerance };
  std::string id, layout, against;
  Required required = Required::tolerance;
  double max_abs_loss = 0;       ///< over the steps
  double max_rel_grad_norm = 0;  ///< over the steps, relative to the reference's
  bool pass = false;
  std::string note;              ///< what differs, or why it could not run; empty when it passed
};

struct ConformTolerance {
  std::string precision;
  double loss = 0;           ///< absolute
  double gradient_norm = 0;  ///< relative
  std::string reason;
};

/// A word of the layouts' names.
struct ConformWord {
  std::string word;  ///< "sp"; "tpN" where a number follows
  std::string meaning;
};

struct ConformReport {
  std::vector<ConformRow> rows;  ///< in table order; baselines are references, not rows
  std::vector<ConformTolerance> tolerances;
  std::vector<ConformWord> words;  ///< those of the rows
  int steps = 0;
  double seconds = 0;
  bool interrupted = false;      ///< rows are those that were finished
  std::size_t left_out = 0;      ///< layouts with more ranks than the device has GPUs

  auto failures() const { return std::count_if(rows.begin(), rows.end(), [](const auto& row) { return !row.pass; }); }
};

}  // namespace benchsuite
