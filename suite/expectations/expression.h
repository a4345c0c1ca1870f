// What an expectation measures: a small typed tree over metrics. Never code.
//
//   {"value": "full_m8.mfu"}            {"value": 1.5}
//   {"ratio": [A, B]}  A / B            {"diff": [A, B]}  A - B
//   {"sum": [A, B, ...]}                {"product": [A, B, ...]}      {"min": [...]}      {"max": [...]}
//
// where A, B are metric paths (suite/expectations/metric_value.h), numbers or trees again.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/core/json_reader.h"
#include "suite/results/run.h"

namespace benchsuite {

struct Expression {
  enum class Kind : std::uint8_t { metric, number, ratio, diff, sum, product, min, max };
  Kind kind = Kind::number;
  double number = 0;
  std::string metric;  ///< path, of kind metric
  std::vector<Expression> operands;
};

/// Reads a tree; problems go to `problems` with `key` as their dotted key.
Expression read_expression(const Json& json, const std::string& file, const std::string& key,
                           std::vector<Violation>& problems);

/// "full_m8.iteration_s / selective_m8.iteration_s"
std::string to_string(const Expression& expression);

/// Ids of all variants it speaks about.
std::set<std::string> variants_of(const Expression& expression);

/// Why one of its metrics means nothing in its variant's layout (why_not_in_layout), or "".
std::string why_not_in_layout(const Expression& expression, const std::vector<VariantResult>& variants);

/// Its value over the variants of a case; nothing when a metric is missing or the result is not finite. `missing`, when
/// given, receives what was missing, in words. The ratio of two variants' iteration_s is the median over the pairs of
/// steps that were measured side by side, where there are enough.
std::optional<double> evaluate(const Expression& expression, const std::vector<VariantResult>& variants,
                               std::string* missing = nullptr);

}  // namespace benchsuite
