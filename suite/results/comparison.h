// What changed between two results, as plain data. suite/compare/compare.h makes it, suite/report/compare_render.h shows it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "suite/results/run.h"

namespace benchsuite {

enum class Change : std::uint8_t {
  same,     ///< within the effect floor, or not to be told from noise
  better,
  worse,
  changed,  ///< beyond floor and noise, of a metric that is neither good nor bad
  unclear,  ///< not enough samples to tell
  missing   ///< one side has no value
};

struct MetricChange {
  std::string name, unit;
  std::optional<double> from, to;
  double relative = 0;         ///< to / from - 1
  double noise = 0;            ///< relative scaled MAD of the noisier side; 0: exact
  double floor = 0;            ///< relative change below which nobody would act
  std::size_t from_samples = 1, to_samples = 1;
  bool exact = true;           ///< both sides are simulated or counted: n = 1, no noise
  std::optional<double> p;     ///< Mann-Whitney, where both sides have enough samples
  Change change = Change::same;
  bool gates = false;
  std::string note;            ///< why it is unclear or missing
};

/// to / from of the step of two variants of one run. Measured side by side, so pair by pair.
struct StepRatio {
  double ratio = 1;
  std::size_t pairs = 1;
  std::optional<double> low, high, confidence;  ///< none where the steps are exact
  std::string note;                             ///< how it was made, or why there is no interval
};

struct VariantComparison {
  std::string case_id, from, to;  ///< labels
  std::vector<MetricChange> metrics;
  std::optional<Waterfall> waterfall;
  std::optional<StepRatio> ratio;
};

/// An expectation that is judged otherwise than before.
struct VerdictChange {
  std::string case_id, id, check;  ///< id and title of the expectation
  Verdict from = Verdict::pass, to = Verdict::pass;
  bool worse = false;
};

struct Comparison {
  std::string kind;       ///< "two runs", "two variants of one run", "predicted against measured", "two hardware profiles"
  std::string from, to;   ///< what A and B are
  std::vector<VariantComparison> variants;
  std::vector<VerdictChange> verdicts;
  std::vector<std::string> only_from, only_to;  ///< CASE/VARIANT that the other side doesn't have
  std::vector<std::string> environment;         ///< what differs, one line each
  std::vector<std::string> notes;
  std::string verdict;    ///< one sentence
  int exit_code = 0;
};

}  // namespace benchsuite
