// Numbers and text as people read them: three significant digits, sensible units, sums that add up, safe escapes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "suite/results/run.h"

namespace benchsuite {

/// `value` with `digits` significant digits and no exponent between 1e-5 and 1e15; "–" when it is not finite.
std::string significant(double value, int digits = 3);

/// Seconds with the unit that suits: "21.5 s", "312 ms", "43.1 µs", "7.00 ns".
std::string format_seconds(double seconds, int digits = 3);

/// Bytes in binary units: "80.0 MiB".
std::string format_bytes(double bytes, int digits = 3);

/// A share of one as percent: 0.242 is "24.2 %".
std::string format_percent(double share, int digits = 3);

/// FLOPs: "159 TFLOP".
std::string format_flops(double flops);

/// A value of a check in its unit: "s" and "bytes" get a prefix, "x" and "1" follow the number or vanish.
std::string format_in_unit(double value, std::string_view unit, int digits = 3);

/// "1.20 – 1.40 ×", "≥ 1.20", "≤ 80 GiB", "= 5"; empty when both sides are open.
std::string format_range(std::optional<double> low, std::optional<double> high, std::string_view unit, int digits = 3);

/// Digits (3 to 12) at which the value of a check differs in print from every bound that it differs from in fact.
int digits_to_tell_apart(const CheckResult& check);

/// One unit and number of decimals for a group of durations that is shown as a sum.
struct TimeScale {
  std::string_view unit;  ///< "s", "ms", "µs"
  double per_second = 1;  ///< units in a second
  int decimals = 0;

  std::string text(std::int64_t ticks, bool sign = false) const;  ///< `ticks` are units of the last decimal
  std::int64_t ticks(double seconds) const;
};
/// The scale in which `difference` has at least three significant digits.
TimeScale time_scale(double difference);

/// `parts` in whole ticks of `per_unit` each such that they add up to `total` exactly; each is off by less than one
/// tick (largest remainder). `total` has to be within parts.size() ticks of the sum of the parts.
std::vector<std::int64_t> round_to_sum(const std::vector<double>& parts, double ticks_per_unit, std::int64_t total);

/// A waterfall as shown: everything in ticks of one scale; from + parts = to exactly.
struct WaterfallView {
  struct Row {
    std::string name;
    std::int64_t ticks = 0;  ///< printed
    double seconds = 0;      ///< drawn
    std::string explanation;
  };
  TimeScale scale;
  std::int64_t from = 0, to = 0;
  std::vector<Row> rows;
};
/// Parts that don't add up to the difference get a last row that says so.
WaterfallView view_of(const Waterfall& waterfall);
/// The rows that print as zero, joined by commas: pictures name them on one line.
std::string unchanged_parts(const WaterfallView& view);

/// Shares of the step by category in tenths of a percent: they add up to 1000 exactly (or are all 0 for an empty one).
std::array<std::int64_t, kCategories> permille_of(const Breakdown& breakdown);

/// What the categories are called in a legend, in the order in which bars stack them.
struct CategoryStyle {
  Category category;
  std::string_view title;
  std::string_view meaning;
};
const std::array<CategoryStyle, kCategories>& category_styles();

/// Control characters become spaces (a title can't move the cursor or break a table row); tabs and newlines too.
std::string one_line(std::string_view text);
std::string html_escape(std::string_view text);
/// One cell of a Markdown table, or running text: no markup of its own, no line break.
std::string markdown_escape(std::string_view text);

/// Code points, which is columns for the letters that we print.
std::size_t columns(std::string_view text);
std::string pad_right(std::string_view text, std::size_t width);
std::string pad_left(std::string_view text, std::size_t width);
/// At most `width` columns; "…" ends what was cut.
std::string clip(std::string_view text, std::size_t width);
/// Lines of at most `width` columns, broken at spaces.
std::vector<std::string> wrap(std::string_view text, std::size_t width);

std::string shell_quote(std::string_view word);
/// The command line that made the run, quoted for a shell; the program is called `benchsuite` wherever it lay, and need
/// not be in argv.
std::string reproduce_line(const Run& run);

/// "TP4 PP4 DP1, micro-batch 4, m = 8, sequence parallel, recompute full uniform 1, unfused attention".
std::string layout_line(const Json& layout);
/// "gpt, 40 layers, hidden 5120, 40 heads, sequence 2048, vocabulary 51200".
std::string model_line(const Json& model);

/// The layouts whose steps are the same work: model, hardware, stack and layout but for recompute. For each variant the
/// step time over that of the fastest variant of its group that fits (or of all, if none fits); nullopt without a step.
std::vector<std::optional<double>> step_ratios(const CaseResult& result);

/// What is sent by `kind` on the rank that is furthest from its formula: when the two agree there, they agree everywhere.
/// Null where nothing is sent and no formula speaks of it. An entry without a formula comes first.
const SentBytes* furthest_from_formula(const VariantResult& variant, std::string_view kind);

/// The environment as name and text, nested names joined by dots; empty for null.
std::vector<std::pair<std::string, std::string>> environment_lines(const Json& environment);

/// Whether it is known where its step went: not of a training, which has no timeline.
bool has_timeline(const VariantResult& variant);
bool has_timeline(const CaseResult& result);

/// Mean seconds of one category.
double mean_seconds(const VariantResult& variant, Category category);

/// Worst status of the cases; NOREF for a run without any.
Status worst_status(const Run& run);
/// "14 cases: 10 PASS, 1 WARN, 1 FAIL, 2 SKIP, 0 ERROR" ("1 case: ..."): these five always, others when there are any.
std::string count_line(const Run& run);

/// How often a value was measured, and how far the measurements lie apart.
struct Sampling {
  std::size_t n = 0;             ///< 0 without a value; 1 for one exact replay
  std::optional<double> spread;  ///< (max - min) / median of the step times; nullopt below two samples
};
/// Of a variant's step.
Sampling sampling_of(const VariantResult& variant);
/// Of a check: the fewest samples and the widest spread of the variants that its metric names.
Sampling sampling_of(const CheckResult& check, const CaseResult& result);
/// "exact" for device sim, "2.31 %", or "–" where one sample says nothing.
std::string format_spread(const Sampling& sampling, std::string_view device);

/// Measured against what the source says: relative to the target or the only allowed value ("+1.2 %"); without either,
/// relative to the bound that is left; "" for a value in a range of which no point is the expected one.
std::string format_delta(const CheckResult& check);

/// A check that needs a person: gating and not PASS, or without a value.
bool needs_attention(const CheckResult& check);
/// "got 1.62 ×, expected 1.10 – 1.50 ×, 8.00 % above".
std::string failure_text(const CheckResult& check);

}  // namespace benchsuite
