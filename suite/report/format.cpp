#include "suite/report/format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace benchsuite {
namespace {

struct Prefix {
  double size;
  std::string_view unit;
};

/// The largest prefix in which the rounded number is at least one.
std::string with_prefix(double value, std::initializer_list<Prefix> prefixes, int digits) {
  if (!std::isfinite(value)) return "–";
  const double half_digit = 1 - 0.5 * std::pow(10.0, -digits);
  for (const Prefix& prefix : prefixes) {
    if (std::abs(value) >= prefix.size * half_digit) {
      return fmt::format("{} {}", significant(value / prefix.size, digits), prefix.unit);
    }
  }
  const Prefix& last = *(prefixes.end() - 1);
  return fmt::format("{} {}", significant(value / last.size, digits), last.unit);
}

}  // namespace

std::string significant(double value, int digits) {
  if (!std::isfinite(value)) return "–";
  if (value == 0) return "0";
  const double magnitude = std::abs(value);
  if (magnitude >= 1e15 || magnitude < 1e-5) return fmt::format("{:.{}e}", value, digits - 1);
  int exponent = static_cast<int>(std::floor(std::log10(magnitude)));
  // 9.996 has three digits as 10.0, not as 10.00.
  const double unit = std::pow(10.0, digits - 1 - exponent);
  if (std::round(magnitude * unit) >= std::pow(10.0, digits)) ++exponent;
  const int decimals = digits - 1 - exponent;
  if (decimals >= 0) return fmt::format("{:.{}f}", value, decimals);
  const double step = std::pow(10.0, -decimals);
  return fmt::format("{:.0f}", std::round(value / step) * step);
}

std::string format_seconds(double seconds, int digits) {
  if (seconds == 0) return "0 s";
  return with_prefix(seconds, {{1, "s"}, {1e-3, "ms"}, {1e-6, "µs"}, {1e-9, "ns"}}, digits);
}

std::string format_bytes(double bytes, int digits) {
  if (bytes == 0) return "0 B";
  if (std::abs(bytes) < 1024 && bytes == std::floor(bytes)) return fmt::format("{:.0f} B", bytes);
  return with_prefix(bytes, {{0x1p40, "TiB"}, {0x1p30, "GiB"}, {0x1p20, "MiB"}, {0x1p10, "KiB"}, {1, "B"}}, digits);
}

std::string format_percent(double share, int digits) {
  return std::isfinite(share) ? significant(share * 100, digits) + " %" : "–";
}

std::string format_flops(double flops) {
  return with_prefix(flops, {{1e18, "EFLOP"}, {1e15, "PFLOP"}, {1e12, "TFLOP"}, {1e9, "GFLOP"}, {1, "FLOP"}}, 3);
}

std::string format_in_unit(double value, std::string_view unit, int digits) {
  if (!std::isfinite(value)) return "–";
  if (unit == "s") return format_seconds(value, digits);
  if (unit == "bytes" || unit == "B") return format_bytes(value, digits);
  if (unit == "x" || unit == "×") return significant(value, digits) + " ×";
  if (unit == "%") return significant(value, digits) + " %";
  if (unit.empty() || unit == "1") return significant(value, digits);
  return fmt::format("{} {}", significant(value, digits), unit);
}

std::string format_range(std::optional<double> low, std::optional<double> high, std::string_view unit, int digits) {
  if (low && high) {
    const std::string from = format_in_unit(*low, unit, digits), to = format_in_unit(*high, unit, digits);
    if (*low == *high) return "= " + to;
    // The unit once, where both sides have the same.
    const auto space_from = from.rfind(' '), space_to = to.rfind(' ');
    if (space_from != std::string::npos && space_to != std::string::npos &&
        from.substr(space_from) == to.substr(space_to)) {
      return fmt::format("{} – {}", from.substr(0, space_from), to);
    }
    return fmt::format("{} – {}", from, to);
  }
  if (low) return "≥ " + format_in_unit(*low, unit, digits);
  if (high) return "≤ " + format_in_unit(*high, unit, digits);
  return "";
}

int digits_to_tell_apart(const CheckResult& check) {
  if (!check.value) return 3;
  for (int digits = 3; digits < 12; ++digits) {
    bool apart = true;
    for (const auto& bound : {check.pass_low, check.pass_high, check.warn_low, check.warn_high}) {
      if (bound && *bound != *check.value &&
          format_in_unit(*bound, check.unit, digits) == format_in_unit(*check.value, check.unit, digits)) {
        apart = false;
      }
    }
    if (apart) return digits;
  }
  return 12;
}

std::string TimeScale::text(std::int64_t ticks, bool sign) const {
  const double value = static_cast<double>(ticks) / std::pow(10.0, decimals);
  const std::string magnitude = fmt::format("{:.{}f} {}", std::abs(value), decimals, unit);
  if (ticks < 0) return "−" + magnitude;
  return sign && ticks > 0 ? "+" + magnitude : magnitude;
}

std::int64_t TimeScale::ticks(double seconds) const {
  return std::llround(seconds * per_second * std::pow(10.0, decimals));
}

TimeScale time_scale(double difference) {
  const double magnitude = std::abs(difference);
  TimeScale scale = magnitude >= 0.9995 ? TimeScale{"s", 1, 0} : TimeScale{"ms", 1e3, 0};
  if (magnitude < 0.9995e-3) scale = {"µs", 1e6, 0};
  const double shown = magnitude * scale.per_second;
  scale.decimals = shown >= 99.95 ? 0 : shown >= 9.995 ? 1 : shown >= 0.9995 ? 2 : 3;
  return scale;
}

std::vector<std::int64_t> round_to_sum(const std::vector<double>& parts, double ticks_per_unit, std::int64_t total) {
  std::vector<std::int64_t> rounded(parts.size());
  std::vector<double> remainder(parts.size());
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const double exact = parts[i] * ticks_per_unit;
    rounded[i] = static_cast<std::int64_t>(std::floor(exact));
    remainder[i] = exact - std::floor(exact);
    sum += rounded[i];
  }
  std::vector<std::size_t> order(parts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return remainder[a] > remainder[b]; });
  for (std::size_t i = 0; i < order.size() && sum < total; ++i, ++sum) ++rounded[order[i]];
  for (std::size_t i = order.size(); i > 0 && sum > total; --i, --sum) --rounded[order[i - 1]];
  CHECK(parts.empty() || sum == total) << "the parts add up to " << sum << " ticks, not to " << total;
  return rounded;
}

WaterfallView view_of(const Waterfall& waterfall) {
  WaterfallView view;
  const double difference = waterfall.to_s - waterfall.from_s;
  view.scale = time_scale(difference);
  view.from = view.scale.ticks(waterfall.from_s);
  view.to = view.scale.ticks(waterfall.to_s);
  std::vector<double> parts;
  for (const Waterfall::Part& part : waterfall.parts) {
    view.rows.push_back({part.name, 0, part.seconds, part.explanation});
    parts.push_back(part.seconds);
  }
  const double rest = difference - std::accumulate(parts.begin(), parts.end(), 0.0);
  // Parts are differences of picosecond counts: beyond rounding of doubles a rest is a defect, and is shown.
  if (std::abs(rest) > 1e-9 * std::max(std::abs(waterfall.from_s), std::abs(waterfall.to_s))) {
    view.rows.push_back({"not explained", 0, rest, "the parts don't add up to the difference; please report this"});
    parts.push_back(rest);
  }
  const std::vector<std::int64_t> rounded =
      round_to_sum(parts, view.scale.per_second * std::pow(10.0, view.scale.decimals), view.to - view.from);
  for (std::size_t i = 0; i < rounded.size(); ++i) view.rows[i].ticks = rounded[i];
  return view;
}

std::string unchanged_parts(const WaterfallView& view) {
  std::string names;
  for (const WaterfallView::Row& row : view.rows) {
    if (row.ticks == 0) names.append(names.empty() ? "" : ", ").append(row.name);
  }
  return names;
}

std::array<std::int64_t, kCategories> permille_of(const Breakdown& breakdown) {
  std::array<std::int64_t, kCategories> shares{};
  const Picoseconds total = std::accumulate(breakdown.time.begin(), breakdown.time.end(), Picoseconds{0});
  if (total <= 0) return shares;
  std::vector<double> parts;
  for (Picoseconds time : breakdown.time) parts.push_back(static_cast<double>(time) / static_cast<double>(total));
  const std::vector<std::int64_t> rounded = round_to_sum(parts, 1000, 1000);
  std::copy(rounded.begin(), rounded.end(), shares.begin());
  return shares;
}

const std::array<CategoryStyle, kCategories>& category_styles() {
  static constexpr std::array<CategoryStyle, kCategories> styles{{
      {Category::forward, "forward", "forward compute"},
      {Category::backward, "backward", "backward compute"},
      {Category::recompute, "recompute", "forward compute run again for the backward pass"},
      {Category::optimizer, "optimizer", "gradient norm, clipping and AdamW"},
      {Category::tensor, "tensor comm", "tensor-parallel collectives that compute waits for"},
      {Category::tensor_recompute, "recomputed comm", "tensor-parallel collectives run again by the recomputation"},
      {Category::pipeline, "pipeline comm", "transfer of activations and gradients between stages, not hidden"},
      {Category::data, "data comm", "gradient reductions and parameter gathers, copies around them included, not hidden"},
      {Category::embedding, "embedding comm", "all-reduce of the tied embedding's gradient, not hidden"},
      {Category::global, "global comm", "norm and loss over all ranks, not hidden"},
      {Category::bubble, "bubble", "waiting for another stage, or nothing to do"},
  }};
  return styles;
}

}  // namespace benchsuite
