#include "suite/run/run_case.h"

#include <algorithm>
#include <chrono>

#include "suite/expectations/tracked_metrics.h"
#include "suite/expectations/verdict.h"
#include "suite/measure/waterfall.h"

namespace benchsuite {

namespace {

/// A variant that a waterfall can explain.
const VariantResult* find(const CaseResult& result, const std::string& id) {
  for (const VariantResult& variant : result.variants) {
    if (variant.id == id && variant.status == Status::pass && has_breakdown(variant)) return &variant;
  }
  return nullptr;
}

Json variant_event(const CaseResult& result, const VariantResult& variant) {
  return {{"event", "variant_finished"},
          {"case", result.id},
          {"variant", variant.id},
          {"status", name_of(variant.status)},
          {"reason_code", variant.reason_code},
          {"reason", variant.reason},
          {"iteration_s", variant.iteration_s},
          {"peak_memory_gib", variant.peak_memory_gib}};
}

std::string time_now() {
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return iso_utc(std::chrono::duration_cast<std::chrono::seconds>(since).count());
}

/// Results in the order of the case; what is in `kept` is not run again.
std::vector<VariantResult> measure(const SelectedCase& selected, std::vector<VariantResult> kept,
                                   const RunOptions& options, const std::atomic<int>& signal, const CaseResult& result,
                                   const RunPlaces& places) {
  ResolvedCase rest = selected.resolved;
  const auto is_kept = [&](const std::string& id) {
    return std::any_of(kept.begin(), kept.end(), [&](const VariantResult& variant) { return variant.id == id; });
  };
  std::erase_if(rest.variants, [&](const ResolvedVariant& variant) { return is_kept(variant.id); });
  std::vector<VariantResult> measured;
  if (!rest.variants.empty()) {
    std::size_t left = rest.variants.size();
    bool complete = true;
    measured = run_variants(
        rest, options, StopWatch(options.timeout_s, signal),
        [&](const VariantResult& variant) {
          complete = complete && ran_to_its_end(variant);
          // What events tell is on disk before; but behind the last variant the file of the case follows at once.
          if (--left > 0 || !complete) places.parts.write(result, variant);
          places.events.append(variant_event(result, variant));
          places.screen.variant(variant);
        },
        [&](std::size_t finished) { places.screen.waiting(finished + kept.size()); });
  }
  measured.insert(measured.end(), std::make_move_iterator(kept.begin()), std::make_move_iterator(kept.end()));
  std::vector<VariantResult> ordered;
  for (const ResolvedVariant& variant : selected.resolved.variants) {
    ordered.push_back(std::move(*std::find_if(measured.begin(), measured.end(), [&](const VariantResult& found) {
      return found.id == variant.id;
    })));
  }
  return ordered;
}

}  // namespace

CaseResult blank(const SelectedCase& selected) {
  CaseResult result;
  result.id = selected.resolved.source.id;
  result.title = selected.resolved.source.title;
  result.case_hash = selected.resolved.hash;
  result.method_note = selected.resolved.method_note;
  return result;
}

CaseResult run_case(const SelectedCase& selected, const RunOptions& options, const std::atomic<int>& signal,
                    const RunPlaces& places) {
  const auto begin = std::chrono::steady_clock::now();
  CaseResult result = blank(selected);
  const std::vector<ResolvedVariant>& variants = selected.resolved.variants;
  places.screen.start(result, variants.size(), name_of(options.device));
  for (const std::string& note : selected.resolved.notes) places.screen.note(note);
  places.events.append({{"event", "case_started"},
                        {"time", time_now()},
                        {"case", result.id},
                        {"case_hash", result.case_hash},
                        {"variants", variants.size()}});
  std::vector<VariantResult> kept;
  for (const ResolvedVariant& variant : variants) {
    if (auto found = places.parts.variant(result, variant.id)) {
      places.screen.variant(*found, false);
      kept.push_back(std::move(*found));
    }
  }
  result.variants = measure(selected, std::move(kept), options, signal, result, places);
  for (const ComparisonSpec& comparison : selected.resolved.source.comparisons) {
    const VariantResult* from = find(result, comparison.from);
    const VariantResult* to = find(result, comparison.to);
    if (from && to) result.waterfalls.push_back(waterfall_between(comparison.id, *from, *to));
  }
  const JudgeContext context{std::string(name_of(options.device)), selected.as_written, selected.partial};
  judge_case(result, selected.expected ? &*selected.expected : nullptr, context);
  result.elapsed_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  places.parts.write(result);
  places.events.append({{"event", "case_finished"},
                        {"time", time_now()},
                        {"case", result.id},
                        {"status", name_of(result.status)},
                        {"reason_code", result.reason_code},
                        {"reason", result.reason}});
  places.screen.finish(result, places.reproduce);
  return result;
}

}  // namespace benchsuite
