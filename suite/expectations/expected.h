// Expectation files (expected/CASE.json): what a case should show, and who says so. expected/README.md explains them.
//
//   { "schema_version": 1, "case": "sp_recompute_13b", "expectations": [
//     {"id", "title", "metric": EXPRESSION, "unit", "kind": "measurement|claim|bound|baseline", "devices": ["sim"],
//      "pass": [lo, hi], "warn": [lo, hi], "target": x, "better": "lower|higher|neither",
//      "equals": EXPRESSION, "tolerance": {"rel": x, "reason": "..."},
//      "verdict": "inconsistent" (claims), "explanation": "...",
//      "provenance": {"source", "where", "hardware", ...}} ] }
//
// An expectation with "variants": ["a", "b"] stands for one a variant: "{variant}" in any of its texts (the id must have it)
// becomes the variant's name.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "suite/expectations/expression.h"

namespace benchsuite {

inline constexpr int kExpectedSchemaVersion = 1;

enum class ExpectationKind : std::uint8_t { measurement, claim, bound, baseline };
enum class Better : std::uint8_t { neither, lower, higher };

/// Inclusive; a missing side is open.
struct Interval {
  std::optional<double> low, high;
  bool contains(double value) const { return (!low || value >= *low) && (!high || value <= *high); }
};

struct Expectation {
  std::string id, title;
  std::optional<Expression> metric;  ///< claims may speak of something the suite has no counterpart for
  std::string unit;
  ExpectationKind kind = ExpectationKind::measurement;
  std::optional<Interval> pass, warn;
  std::optional<Expression> equals;  ///< instead of pass and warn: within `tolerance` of this
  double tolerance = 0;              ///< relative
  std::optional<double> target;      ///< what the source says; of a claim, what it claims
  Better better = Better::neither;
  std::vector<std::string> devices;  ///< on which devices it is judged; empty: all
  std::string verdict;               ///< of a claim: consistent, approximately, inconsistent, underdetermined, ...
  std::string explanation;
  std::string source, where, hardware;

  /// "Korthikanti et al. 2022, Table 5 (A100)"
  std::string provenance() const;
};

struct ExpectedFile {
  std::string file, case_id;
  std::vector<Expectation> expectations;
};

ExpectedFile read_expected(const Json& json, const std::string& file, std::vector<Violation>& problems);

/// Expectations about variants the case does not have.
void check_variants(const ExpectedFile& expected, const std::vector<std::string>& variants,
                    std::vector<Violation>& problems);

std::string_view name_of(ExpectationKind kind);

}  // namespace benchsuite
