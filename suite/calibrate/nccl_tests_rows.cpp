#include "suite/calibrate/nccl_tests_rows.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

namespace benchsuite::nccl_tests {

namespace {

constexpr double kMicro = 1e-6, kGiga = 1e9;

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\v' || c == '\f'; }

std::optional<std::int64_t> whole(std::string_view word) {
  std::int64_t value = 0;
  const auto [end, failure] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (failure != std::errc{} || end != word.data() + word.size()) return std::nullopt;
  return value;
}

/// A printed decimal with half a unit of its last digit; N/A and nan count as a number without value.
struct Printed {
  double value = 0, half = 0;
  bool absent = false;
};
std::optional<Printed> number(std::string_view word) {
  if (word == "N/A" || word == "nan" || word == "-nan" || word == "NaN") return Printed{0, 0, true};
  double value = 0;
  const auto [end, failure] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (failure != std::errc{} || end != word.data() + word.size() || !std::isfinite(value)) return std::nullopt;
  const std::size_t point = word.find('.');
  if (word.find_first_of("eE") != std::string_view::npos) return Printed{value, std::abs(value) * 0.5, false};
  const double unit = point == std::string_view::npos ? 1 : std::pow(10.0, -double(word.size() - point - 1));
  return Printed{value, unit / 2, false};
}

bool is_date(std::string_view word) {
  return word.size() >= 10 && word[4] == '-' && word[7] == '-' && whole(word.substr(0, 4));
}
bool is_clock(std::string_view word) { return word.size() >= 8 && word[2] == ':' && word[5] == ':'; }

/// The half (out of place or in place) that starts at `at`: time algbw busbw wrong.
std::optional<std::array<Printed, 4>> half(const std::vector<std::string_view>& tokens, std::size_t at) {
  std::array<Printed, 4> out;
  for (std::size_t i = 0; i < 4; ++i) {
    const auto value = number(tokens[at + i]);
    if (!value) return std::nullopt;
    out[i] = *value;
  }
  return out;
}

std::array<double, 6> bounds(const std::array<Printed, 4>& h) {
  return {(h[0].value - h[0].half) * kMicro, (h[0].value + h[0].half) * kMicro, (h[1].value - h[1].half) * kGiga,
          (h[1].value + h[1].half) * kGiga,  (h[2].value - h[2].half) * kGiga,  (h[2].value + h[2].half) * kGiga};
}

/// What one half of a row leaves of the ratio busbw / algbw: bounds by the printed digits.
struct Ratio {
  double low = 0, high = std::numeric_limits<double>::infinity();

  /// Narrows by one half. Rates below 10 units of their last digit say too little. `exact`: algbw is size / time, with
  /// more digits than it was printed with; else only the printed rates count, with a unit to spare.
  void narrow(const std::array<double, 6>& b, std::int64_t size, bool exact) {
    const double bytes = static_cast<double>(size), unit = b[5] - b[4];
    if (b[0] <= 0 || b[2] <= 0 || b[4] <= 0 || b[4] + b[5] < 20 * unit) return;
    if (exact) {
      low = std::max(low, b[4] / std::min(b[3], bytes / b[0]));
      high = std::min(high, b[5] / std::max(b[2], bytes / b[1]));
    } else {
      low = std::max(low, (b[4] - unit / 2) / (b[3] + unit / 2));
      high = std::min(high, (b[5] + unit / 2) / (b[2] - unit / 2));
    }
  }
};

}  // namespace

std::vector<std::string_view> tokens_of(std::string_view line) {
  std::vector<std::string_view> out;
  for (std::size_t at = 0; at < line.size();) {
    while (at < line.size() && is_space(line[at])) ++at;
    std::size_t end = at;
    while (end < line.size() && !is_space(line[end])) ++end;
    if (end > at) out.push_back(line.substr(at, end - at));
    at = end;
  }
  return out;
}

std::string cleaned(std::string_view line) {
  std::string out;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\x1b' && i + 1 < line.size() && line[i + 1] == '[') {
      for (i += 2; i < line.size() && !(line[i] >= '@' && line[i] <= '~');) ++i;
      continue;
    }
    if (line[i] == '\r') {  // a progress line that was overwritten
      if (i + 1 < line.size()) out.clear();
      continue;
    }
    out += line[i];
  }
  std::size_t start = 0;
  while (start < out.size() && is_space(out[start])) ++start;
  if (start < out.size() && out[start] == '[') {  // mpirun --tag-output: [job,rank]<stdout>:
    const std::size_t end = out.find(">:", start);
    const std::size_t open = out.find("]<", start);
    if (end != std::string::npos && open != std::string::npos && open < end && end - start < 40)
      return out.substr(end + 2);
  }
  std::size_t digits = start;
  while (digits < out.size() && out[digits] >= '0' && out[digits] <= '9') ++digits;
  if (digits > start && digits < out.size() && out[digits] == ':' && digits + 1 < out.size() &&
      is_space(out[digits + 1]))
    return out.substr(digits + 1);  // srun --label
  return out;
}

std::optional<Columns> read_heading(const std::vector<std::string_view>& tokens) {
  std::vector<std::string_view> names = tokens;
  if (!names.empty() && names.front() == "#") names.erase(names.begin());
  if (names.size() < 6 || names[0] != "size" || names[1] != "count" || names[2] != "type") return std::nullopt;
  const auto has = [&](std::string_view name) { return std::find(names.begin(), names.end(), name) != names.end(); };
  if (!has("time") || !has("busbw")) return std::nullopt;
  return Columns{has("redop"), has("root"), has("i_min")};
}

bool looks_like_row(const std::vector<std::string_view>& tokens) {
  return tokens.size() >= 6 && whole(tokens[0]) && whole(tokens[1]) && *whole(tokens[0]) >= 0;
}

std::optional<RawRow> read_row(std::vector<std::string_view> tokens, const std::optional<Columns>& columns) {
  if (tokens.size() >= 2 && is_clock(tokens.back()) && is_date(tokens[tokens.size() - 2]))
    tokens.resize(tokens.size() - 2);
  if (!looks_like_row(tokens)) return std::nullopt;
  RawRow out;
  out.row.size = *whole(tokens[0]);
  out.row.count = *whole(tokens[1]);
  constexpr std::int64_t kMost = std::int64_t{1} << 56;  // no buffer is larger, and products of it stay whole numbers
  if (out.row.size > kMost || out.row.count < 0 || out.row.count > kMost) return std::nullopt;
  out.type = tokens[2];
  if (number(out.type)) return std::nullopt;
  std::size_t at = 3;
  if (!number(tokens[at])) {
    out.redop = tokens[at] == "none" || tokens[at] == "-" ? "" : std::string(tokens[at]);
    ++at;
  }
  // Behind the words stand one or two halves of four numbers, or of eight with per-iteration columns, and perhaps a
  // root.
  std::size_t rest = tokens.size() - at;
  if (rest % 4 == 1) {
    const auto root = whole(tokens[at]);
    if (!root) return std::nullopt;
    out.root = static_cast<int>(*root);
    ++at;
    --rest;
  }
  const std::size_t width = rest == 16 || (rest == 8 && columns && columns->per_iteration) ? 8 : 4;
  if (rest != width && rest != 2 * width) return std::nullopt;
  const auto first = half(tokens, at);
  if (!first || (*first)[0].absent) return std::nullopt;
  const auto b = bounds(*first);
  out.row.out_of_place_s = (*first)[0].value * kMicro;
  out.row.busbw = (*first)[2].value * kGiga;
  // `error` of the old layout is a deviation ("2e-06"), `#wrong` a whole count.
  if (const auto wrong = whole(tokens[at + 3])) out.row.wrong = *wrong;
  std::tie(out.time_low, out.time_high, out.algbw_low, out.algbw_high, out.busbw_low, out.busbw_high) =
      std::tie(b[0], b[1], b[2], b[3], b[4], b[5]);
  if (rest == 2 * width) {
    const auto second = half(tokens, at + width);
    if (second && !(*second)[0].absent) {
      out.row.in_place_s = (*second)[0].value * kMicro;
      out.in_place_bounds.push_back(bounds(*second));
    }
  }
  return out;
}

int element_size(std::string_view type) {
  if (type == "double" || type == "int64" || type == "uint64") return 8;
  if (type == "float" || type == "int32" || type == "uint32" || type == "int") return 4;
  if (type == "half" || type == "bfloat16" || type == "fp16" || type == "bf16") return 2;
  if (type == "int8" || type == "uint8" || type == "char" || type.starts_with("f8") || type.starts_with("fp8") ||
      type.starts_with("float8"))
    return 1;
  return 0;
}

void classify(CollectiveTable& table, const std::vector<RawRow>& rows, const std::string& named, int header_ranks) {
  // size / (count x element size), by the largest row: small counts are rounded.
  std::int64_t multiple = 0;
  Ratio exact, loose;
  std::int64_t largest = 0;
  for (const RawRow& raw : rows) {
    const std::int64_t bytes = raw.row.count * element_size(raw.type);
    if (bytes > 0 && raw.row.size >= largest && raw.row.size % bytes == 0) {
      largest = raw.row.size;
      multiple = raw.row.size / bytes;
    }
    std::vector<std::array<double, 6>> halves = raw.in_place_bounds;
    halves.push_back({raw.time_low, raw.time_high, raw.algbw_low, raw.algbw_high, raw.busbw_low, raw.busbw_high});
    for (const auto& b : halves) {
      exact.narrow(b, raw.row.size, true);
      loose.narrow(b, raw.row.size, false);
    }
  }
  // Tables that were edited or averaged contradict themselves in the last digit.
  const auto [low, high] = exact.low <= exact.high ? exact : loose;
  const RawRow& any = rows.front();
  const bool reduces = !any.redop.empty(), rooted = any.root >= 0;
  auto& ops = table.op_candidates;
  if (!named.empty())
    ops = {named};
  else if (multiple > 1)
    ops = rooted    ? std::vector<std::string>{"gather", "scatter"}
          : reduces ? std::vector<std::string>{"reduce_scatter"}
                    : std::vector<std::string>{"all_gather", "alltoall"};
  else
    ops = rooted ? std::vector<std::string>{reduces ? "reduce" : "broadcast"}
                 : std::vector<std::string>{reduces ? "all_reduce" : "send"};

  if (header_ranks > 0) {
    table.ranks_low = table.ranks_high = header_ranks;
    return;
  }
  if (multiple > 1) {
    table.ranks_low = table.ranks_high = static_cast<int>(std::min<std::int64_t>(multiple, 1 << 24));
    return;
  }
  if (low <= 0 || !(low <= high)) return;
  // n of 2 (n - 1) / n or (n - 1) / n: n = whole / (whole - ratio).
  const double top = ops.front() == "all_reduce" ? 2 : ops.front() == "send" || rooted ? 0 : 1;
  if (top == 0 || low >= top) return;
  const double least = top / (top - low);
  const double most = high < top ? top / (top - high) : static_cast<double>(1 << 24);
  table.ranks_low = std::max(2, static_cast<int>(std::ceil(least - 1e-9)));
  table.ranks_high = static_cast<int>(std::floor(std::min(most, static_cast<double>(1 << 24)) + 1e-9));
  if (table.ranks_high < table.ranks_low) table.ranks_low = table.ranks_high = 0;
}

}  // namespace benchsuite::nccl_tests
