#include "suite/expectations/expression.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "suite/expectations/metric_value.h"
#include "suite/results/statistics.h"

namespace benchsuite {

namespace {

struct Word {
  const char* name;
  Expression::Kind kind;
  std::size_t least, most;  ///< operands
};

constexpr Word kWords[] = {
    {"ratio", Expression::Kind::ratio, 2, 2}, {"diff", Expression::Kind::diff, 2, 2},
    {"sum", Expression::Kind::sum, 2, 99},    {"product", Expression::Kind::product, 2, 99},
    {"min", Expression::Kind::min, 2, 99},    {"max", Expression::Kind::max, 2, 99},
};

Expression read_leaf(const Json& json, const std::string& file, const std::string& key,
                     std::vector<Violation>& problems) {
  Expression leaf;
  if (json.is_number()) {
    leaf.number = json.get<double>();
  } else {
    leaf.kind = Expression::Kind::metric;
    leaf.metric = json.get<std::string>();
    const std::string wrong = why_not_a_metric(leaf.metric);
    if (!wrong.empty()) problems.push_back({file, key, leaf.metric, "not a metric", wrong});
  }
  return leaf;
}

bool is_leaf(const Json& json) { return json.is_number() || json.is_string(); }

}  // namespace

namespace {

/// A tree deeper than any formula is refused before it is deep enough to exhaust the stack.
constexpr int kDeepest = 32;

Expression read_tree(const Json& json, const std::string& file, const std::string& key, int depth,
                     std::vector<Violation>& problems) {
  if (depth > kDeepest) {
    problems.push_back({file, key, "", "nested too deeply", "32 levels are allowed"});
    return {};
  }
  if (is_leaf(json)) return read_leaf(json, file, key, problems);
  if (json.is_object() && json.size() == 1) {
    const std::string word = json.begin().key();
    const Json& value = json.begin().value();
    if (word == "value" && is_leaf(value)) return read_leaf(value, file, key, problems);
    for (const Word& known : kWords) {
      if (word != known.name) continue;
      if (!value.is_array() || value.size() < known.least || value.size() > known.most) {
        problems.push_back({file, key + "." + word, value.dump(),
                            known.most == 2 ? "needs a list of two" : "needs a list of at least two",
                            "write {\"" + word + "\": [A, B]}"});
        return {};
      }
      Expression tree;
      tree.kind = known.kind;
      for (const Json& operand : value)
        tree.operands.push_back(read_tree(operand, file, key + "." + word, depth + 1, problems));
      return tree;
    }
  }
  problems.push_back({file, key, json.dump(), "not an expression",
                      "write {\"value\": \"variant.metric\"}, {\"ratio\": [A, B]} or diff, sum, product, min, max"});
  return {};
}

}  // namespace

Expression read_expression(const Json& json, const std::string& file, const std::string& key,
                           std::vector<Violation>& problems) {
  return read_tree(json, file, key, 0, problems);
}

std::string to_string(const Expression& expression) {
  if (expression.kind == Expression::Kind::metric) return expression.metric;
  if (expression.kind == Expression::Kind::number) return fmt::format("{}", expression.number);
  const auto operand = [&](std::size_t i) {
    const Expression& child = expression.operands[i];
    const bool simple =
        child.operands.empty() || child.kind == Expression::Kind::min || child.kind == Expression::Kind::max;
    return simple ? to_string(child) : fmt::format("({})", to_string(child));
  };
  std::string text;
  const char* between = ", ";
  switch (expression.kind) {
    case Expression::Kind::ratio:
      between = " / ";
      break;
    case Expression::Kind::diff:
      between = " - ";
      break;
    case Expression::Kind::sum:
      between = " + ";
      break;
    case Expression::Kind::product:
      between = " x ";
      break;
    default:
      break;
  }
  for (std::size_t i = 0; i < expression.operands.size(); ++i) text += (i == 0 ? "" : between) + operand(i);
  if (expression.kind == Expression::Kind::min) return fmt::format("min({})", text);
  if (expression.kind == Expression::Kind::max) return fmt::format("max({})", text);
  return text;
}

std::set<std::string> variants_of(const Expression& expression) {
  std::set<std::string> found;
  if (expression.kind == Expression::Kind::metric) found.insert(parse_metric(expression.metric).variant);
  for (const Expression& operand : expression.operands) found.merge(variants_of(operand));
  return found;
}

std::string why_not_in_layout(const Expression& expression, const std::vector<VariantResult>& variants) {
  if (expression.kind == Expression::Kind::metric) {
    const MetricPath path = parse_metric(expression.metric);
    const auto variant = std::find_if(variants.begin(), variants.end(),
                                      [&](const VariantResult& candidate) { return candidate.id == path.variant; });
    return variant == variants.end() ? "" : why_not_in_layout(*variant, path);
  }
  for (const Expression& operand : expression.operands) {
    if (std::string why = why_not_in_layout(operand, variants); !why.empty()) return why;
  }
  return "";
}

namespace {

/// The paired ratio of two steps; nothing for anything else, or without enough pairs.
std::optional<double> paired_steps(const Expression& ratio, const std::vector<VariantResult>& variants) {
  if (ratio.kind != Expression::Kind::ratio || ratio.operands.size() != 2) return std::nullopt;
  const VariantResult* sides[2] = {};
  for (std::size_t i = 0; i < 2; ++i) {
    if (ratio.operands[i].kind != Expression::Kind::metric) return std::nullopt;
    const MetricPath path = parse_metric(ratio.operands[i].metric);
    if (path.metric != "iteration_s") return std::nullopt;
    for (const VariantResult& variant : variants) {
      if (variant.id == path.variant && variant.status == Status::pass) sides[i] = &variant;
    }
    if (!sides[i]) return std::nullopt;
  }
  const auto pairs = paired_ratio(sides[1]->step_samples_s, sides[0]->step_samples_s);
  return pairs ? std::optional(pairs->median) : std::nullopt;
}

}  // namespace

std::optional<double> evaluate(const Expression& expression, const std::vector<VariantResult>& variants,
                               std::string* missing) {
  const auto finite = [&](double value) -> std::optional<double> {
    if (std::isfinite(value)) return value;
    if (missing && missing->empty()) *missing = to_string(expression) + " is not a finite number";
    return std::nullopt;
  };
  if (expression.kind == Expression::Kind::number) return finite(expression.number);
  if (expression.kind == Expression::Kind::metric) {
    const MetricPath path = parse_metric(expression.metric);
    for (const VariantResult& variant : variants) {
      if (variant.id != path.variant) continue;
      const bool measured = variant.status != Status::error && variant.status != Status::skip &&
                            variant.status != Status::timeout && variant.status != Status::aborted;
      if (const auto value = measured ? metric_value(variant, path) : std::nullopt) return finite(*value);
    }
    if (missing && missing->empty()) *missing = "no value for " + expression.metric;
    return std::nullopt;
  }
  if (const auto paired = paired_steps(expression, variants)) return finite(*paired);
  double result = 0;
  for (std::size_t i = 0; i < expression.operands.size(); ++i) {
    const auto value = evaluate(expression.operands[i], variants, missing);
    if (!value) return std::nullopt;
    if (i == 0) {
      result = *value;
      continue;
    }
    switch (expression.kind) {
      case Expression::Kind::ratio:
        result /= *value;
        break;
      case Expression::Kind::diff:
        result -= *value;
        break;
      case Expression::Kind::sum:
        result += *value;
        break;
      case Expression::Kind::product:
        result *= *value;
        break;
      case Expression::Kind::min:
        result = std::min(result, *value);
        break;
      case Expression::Kind::max:
        result = std::max(result, *value);
        break;
      default:
        break;
    }
  }
  return finite(result);
}

}  // namespace benchsuite
