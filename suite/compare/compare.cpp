#include "suite/compare/compare.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <cmath>

#include "engine/core/json_reader.h"
#include "suite/environment/environment.h"
#include "suite/expectations/tracked_metrics.h"
#include "suite/measure/waterfall.h"
#include "suite/results/outcome.h"
#include "suite/results/statistics.h"

namespace benchsuite {

namespace {

constexpr double kSignificance = 0.05;

[[noreturn]] void refuse(const char* key, const std::string& value, const std::string& problem,
                         const std::string& remedy) {
  throw Error({Violation{"compare", key, value, problem, remedy}});
}

double relative_noise(const std::vector<double>& samples) {
  if (samples.size() < 2) return 0;
  const double middle = median(samples);
  return middle != 0 ? scaled_mad(samples) / std::abs(middle) : 0;
}

Change direction(const TrackedMetric& metric, double relative) {
  if (metric.better == Better::neither) return Change::changed;
  return (relative > 0) == (metric.better == Better::higher) ? Change::better : Change::worse;
}

/// Whether what was measured settles the question, and if so whether it says "noise".
void weigh_samples(const VariantResult& from, bool from_exact, const VariantResult& to, bool to_exact,
                   MetricChange& change) {
  const std::vector<double>& a = from.step_samples_s;
  const std::vector<double>& b = to.step_samples_s;
  change.exact = false;
  change.from_samples = from_exact ? 1 : a.size();
  change.to_samples = to_exact ? 1 : b.size();
  for (const auto& [exact, samples] : {std::pair{from_exact, &a}, std::pair{to_exact, &b}}) {
    if (exact || samples->size() >= kEnoughSamples) continue;
    change.change = Change::unclear;
    change.note =
        fmt::format("not enough samples: {} of a measured side, {} are needed", samples->size(), kEnoughSamples);
  }
  change.noise = std::max(from_exact ? 0 : relative_noise(a), to_exact ? 0 : relative_noise(b));
  if (change.change == Change::unclear) return;
  if (!from_exact && !to_exact) {
    change.p = mann_whitney_p(a, b);
    if (!change.p || *change.p >= kSignificance) change.change = Change::same;
    return;
  }
  if (std::abs(change.relative) <= 3 * change.noise) change.change = Change::same;
}

std::optional<StepRatio> paired(const VariantResult& from, const VariantResult& to, bool exact) {
  if (!(from.iteration_s > 0) || !(to.iteration_s > 0)) return std::nullopt;
  StepRatio ratio;
  ratio.ratio = to.iteration_s / from.iteration_s;
  if (exact) {
    ratio.note = "both steps are simulated: n = 1, exact";
  } else if (const auto pairs = paired_ratio(from.step_samples_s, to.step_samples_s)) {
    ratio = {pairs->median, pairs->pairs, pairs->low, pairs->high, pairs->confidence,
             "median of the ratios of steps measured side by side; the interval is of order statistics"};
  } else {
    ratio.note = fmt::format("not enough samples for an interval: {} and {} steps, {} pairs are needed",
                             from.step_samples_s.size(), to.step_samples_s.size(), kEnoughSamples);
  }
  return ratio;
}

const CaseResult* find_case(const Run& run, const std::string& id) {
  const auto at =
      std::find_if(run.cases.begin(), run.cases.end(), [&](const CaseResult& entry) { return entry.id == id; });
  return at == run.cases.end() ? nullptr : &*at;
}

const VariantResult* find_variant(const CaseResult& result, const std::string& id) {
  const auto at = std::find_if(result.variants.begin(), result.variants.end(),
                               [&](const VariantResult& variant) { return variant.id == id; });
  return at == result.variants.end() ? nullptr : &*at;
}

const VariantResult& need_variant(const CaseResult& result, const char* flag, const std::string& id) {
  if (const VariantResult* found = find_variant(result, id)) return *found;
  std::vector<std::string> known;
  for (const VariantResult& variant : result.variants) known.push_back(variant.id);
  const std::string guess = did_you_mean(id, known);
  refuse(flag, id, "case " + result.id + " has no such variant",
         guess.empty() ? fmt::format("choose from {}", fmt::join(known, ", ")) : "did you mean \"" + guess + "\"?");
}

const CaseResult& need_case(const Run& run, const CompareOptions& options) {
  if (options.only_case.empty() && run.cases.size() == 1) return run.cases.front();
  if (const CaseResult* found = find_case(run, options.only_case)) return *found;
  std::vector<std::string> known;
  for (const CaseResult& entry : run.cases) known.push_back(entry.id);
  refuse("--case", options.only_case, "the run has no such case",
         fmt::format("choose from {}", fmt::join(known, ", ")));
}

VariantComparison compare_pair(const std::string& case_id, const VariantResult& from, bool from_exact,
                               std::string from_label, const VariantResult& to, bool to_exact, std::string to_label) {
  VariantComparison pair;
  pair.case_id = case_id;
  pair.from = std::move(from_label);
  pair.to = std::move(to_label);
  for (const TrackedMetric& metric : tracked_metrics()) {
    MetricChange change = compare_metric(metric.name, from, from_exact, to, to_exact);
    if (change.from || change.to) pair.metrics.push_back(std::move(change));
  }
  if (pair.metrics.empty()) {  // neither side was measured
    pair.metrics.push_back(compare_metric("iteration_s", from, from_exact, to, to_exact));
  }
  if (has_breakdown(from) && has_breakdown(to)) {
    pair.waterfall = waterfall_between(pair.from + " to " + pair.to, from, to);
    pair.waterfall->from = pair.from;
    pair.waterfall->to = pair.to;
  }
  return pair;
}

int rank_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::missing: return 3;
    case Verdict::fail: return 2;
    case Verdict::warn:
    case Verdict::noref: return 1;
    default: return 0;
  }
}

void compare_verdicts(const CaseResult& from, const CaseResult& to, std::vector<VerdictChange>& changes) {
  for (const CheckResult& check : to.checks) {
    const auto before = std::find_if(from.checks.begin(), from.checks.end(),
                                     [&](const CheckResult& other) { return other.id == check.id; });
    if (before == from.checks.end() || before->verdict == check.verdict) continue;
    changes.push_back({to.id, check.id, title_of(check), before->verdict, check.verdict,
                       check.gates && rank_of(check.verdict) > std::max(1, rank_of(before->verdict))});
  }
}

void refuse_different(const CaseResult& from, const CaseResult& to, const CompareOptions& options, Comparison& result) {
  if (from.case_hash == to.case_hash || options.other_hardware) return;
  if (!options.force) {
    refuse("case_hash", from.id, fmt::format("the two are different cases: {} and {}", from.case_hash, to.case_hash),
           "compare runs of one configuration, or say --force");
  }
  result.notes.push_back(fmt::format("{}: the configurations differ ({} and {}); compared because of --force", from.id,
                                     from.case_hash, to.case_hash));
}

/// The sentence and the exit code.
void conclude(Comparison& result) {
  std::size_t worse = 0, better = 0, missing = 0, unclear = 0, decided = 0;
  std::string first_worse, first_better, first_missing;
  for (const VariantComparison& pair : result.variants) {
    for (const MetricChange& change : pair.metrics) {
      if (!change.gates) continue;
      const std::string what = fmt::format("{} of {}/{}", change.name, pair.case_id, pair.to);
      if (change.change == Change::missing && missing++ == 0) first_missing = what;
      const std::string moved = change.floor == 0 ? what : fmt::format("{} by {:+.2f} %", what, change.relative * 100);
      if (change.change == Change::worse && worse++ == 0) first_worse = moved;
      if (change.change == Change::better && better++ == 0) first_better = moved;
      unclear += change.change == Change::unclear ? 1u : 0u;
      decided += change.change != Change::unclear && change.change != Change::missing ? 1u : 0u;
    }
  }
  for (const VerdictChange& change : result.verdicts) {
    if (!change.worse) continue;
    if (worse++ == 0) first_worse = fmt::format("expectation \"{}\" of {}", change.check, change.case_id);
  }
  const auto more = [](std::size_t count) {
    return count > 1 ? fmt::format(" (and {} more)", count - 1) : std::string();
  };
  if (missing > 0) {
    result.exit_code = kExitError;
    result.verdict = "INCOMPLETE: one side has no " + first_missing + more(missing);
  } else if (worse > 0) {
    result.exit_code = kExitFail;
    result.verdict = "WORSE: " + first_worse + more(worse);
  } else if (decided == 0) {
    result.exit_code = kExitNothing;
    result.verdict =
        unclear > 0 ? "UNDECIDED: not enough samples" : "NOTHING TO COMPARE: the two have no variant in common";
  } else {
    result.exit_code = kExitPass;
    result.verdict = better > 0 ? "BETTER: " + first_better + more(better)
                                : fmt::format("SAME: {} gating metrics within noise and effect floor", decided);
  }
  if (unclear > 0 && decided > 0) result.verdict += fmt::format("; {} undecided for want of samples", unclear);
}

bool is_exact(const Run& run) { return run.device == "sim"; }

std::string describe(const Run& run) {
  return fmt::format("{} ({}, engine {})", run.run_id, run.device, run.engine_commit);
}

}  // namespace

MetricChange compare_metric(const std::string& name, const VariantResult& from, bool from_exact,
                            const VariantResult& to, bool to_exact) {
  const TrackedMetric* metric = find_tracked(name);
  CHECK(metric != nullptr) << name;
  MetricChange change;
  change.name = metric->name;
  change.unit = metric->unit;
  change.floor = metric->floor;
  change.gates = metric->gates;
  change.from = tracked_value(from, *metric);
  change.to = tracked_value(to, *metric);
  if (!change.from || !change.to) {
    const VariantResult& without = change.from ? to : from;
    change.change = Change::missing;
    change.note = fmt::format("{} has no value ({}{}{})", change.from ? "B" : "A", name_of(without.status),
                              without.reason_code.empty() ? "" : ", ", without.reason_code);
    return change;
  }
  const double a = *change.from, b = *change.to;
  change.relative = a != 0 ? b / a - 1 : (b == 0 ? 0 : (b > 0 ? 1 : -1));
  change.change = std::abs(change.relative) > metric->floor ? direction(*metric, b - a) : Change::same;
  if (metric->follows_step && !(from_exact && to_exact)) weigh_samples(from, from_exact, to, to_exact, change);
  return change;
}

Comparison compare_runs(const Run& from, const Run& to, const CompareOptions& options) {
  Comparison result;
  result.kind = options.other_hardware       ? "two hardware profiles"
                : from.device != to.device ? (is_exact(from) ? "predicted against measured" : "two devices")
                                             : "two runs";
  result.from = describe(from);
  result.to = describe(to);
  if (!options.only_case.empty()) {
    need_case(from, options);
    need_case(to, options);
  }
  if (from.environment.is_object() && to.environment.is_object()) {
    result.environment = environment_difference(from.environment, to.environment);
  }
  const auto wanted = [&](const std::string& id) {
    return options.variants.empty() ||
           std::any_of(options.variants.begin(), options.variants.end(),
                       [&](const auto& glob) { return ::fnmatch(glob.c_str(), id.c_str(), 0) == 0; });
  };
  const auto list_missing = [&](const Run& has, const Run& lacks, std::vector<std::string>& names) {
    for (const CaseResult& entry : has.cases) {
      if (!options.only_case.empty() && entry.id != options.only_case) continue;
      const CaseResult* other = find_case(lacks, entry.id);
      for (const VariantResult& variant : entry.variants) {
        if (wanted(variant.id) && !(other && find_variant(*other, variant.id)))
          names.push_back(entry.id + "/" + variant.id);
      }
    }
  };
  if (!options.from.empty()) {  // one variant of each
    const CaseResult& a = need_case(from, options);
    const CaseResult& b = need_case(to, options);
    if (a.id == b.id) refuse_different(a, b, options, result);
    result.variants.push_back(compare_pair(b.id, need_variant(a, "--from", options.from), is_exact(from),
                                           "A " + options.from, need_variant(b, "--to", options.to), is_exact(to),
                                           "B " + options.to));
    conclude(result);
    return result;
  }
  for (const CaseResult& after : to.cases) {
    if (!options.only_case.empty() && after.id != options.only_case) continue;
    const CaseResult* before = find_case(from, after.id);
    if (!before) continue;
    refuse_different(*before, after, options, result);
    for (const VariantResult& variant : after.variants) {
      const VariantResult* old = find_variant(*before, variant.id);
      if (!old || !wanted(variant.id)) continue;
      result.variants.push_back(compare_pair(after.id, *old, is_exact(from), "A " + variant.id, variant, is_exact(to),
                                             "B " + variant.id));
      if (from.device == to.device) continue;
      // A device that measures no timeline or trains nothing has no such figure (or 0): that is no finding.
      std::erase_if(result.variants.back().metrics, [](const MetricChange& change) {
        return change.name != "iteration_s" && (!change.from || !change.to || (*change.from == 0) != (*change.to == 0));
      });
    }
    if (from.device == to.device && !options.other_hardware) compare_verdicts(*before, after, result.verdicts);
  }
  list_missing(from, to, result.only_from);
  list_missing(to, from, result.only_to);
  if (is_exact(from) && is_exact(to)) result.notes.emplace_back("Both sides are simulated: n = 1, exact, noise 0.");
  conclude(result);
  return result;
}

Comparison compare_variants(const Run& run, const CompareOptions& options) {
  Comparison result;
  result.kind = "two variants of one run";
  const CaseResult& entry = need_case(run, options);
  const VariantResult& from = need_variant(entry, "--from", options.from);
  const VariantResult& to = need_variant(entry, "--to", options.to);
  if (from.id == to.id) refuse("--to", to.id, "is the variant it is compared with", "name another variant");
  result.from = fmt::format("{} of {}", from.id, describe(run));
  result.to = fmt::format("{} of the same run", to.id);
  const bool exact = is_exact(run);
  result.variants.push_back(compare_pair(entry.id, from, exact, from.id, to, exact, to.id));
  VariantComparison& pair = result.variants.back();
  pair.ratio = paired(from, to, exact);
  for (MetricChange& change : pair.metrics) {  // memory that is traded for time is a choice as long as it fits
    if (change.name == "peak_memory_gib") change.gates = false;
  }
  if (exact) result.notes.emplace_back("Both sides are simulated: n = 1, exact, noise 0.");
  conclude(result);
  return result;
}

}  // namespace benchsuite
