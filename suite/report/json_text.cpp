#include "suite/report/json_text.h"

#include <array>
#include <charconv>

namespace benchsuite {
namespace {

/// Scalars, and lists of numbers: what is no longer than a glance.
bool stays_on_one_line(const Json& value) {
  if (!value.is_array()) return !value.is_object() || value.empty();
  for (const Json& item : value) {
    if (item.is_structured() || item.is_string() || item.is_binary()) return false;
  }
  return true;
}

std::string scalar(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace

Json json_gap(std::size_t index) { return Json::binary({}, index); }

void write_json(const Json& value, std::size_t indent, std::string& out, const FillGap& fill) {
  if (value.is_binary()) {
    fill(value.get_binary().subtype(), out);
    return;
  }
  if (stays_on_one_line(value)) {
    out += scalar(value);
    return;
  }
  const std::string inner(indent + 2, ' ');
  const bool object = value.is_object();
  out += object ? "{\n" : "[\n";
  bool first = true;
  for (auto item = value.begin(); item != value.end(); ++item) {
    if (!first) out += ",\n";
    first = false;
    out += inner;
    if (object) out += scalar(Json(item.key())) + ": ";
    write_json(*item, indent + 2, out, fill);
  }
  out.append("\n").append(indent, ' ').append(object ? "}" : "]");
}

void write_microseconds(std::int64_t picoseconds, std::string& out) {
  constexpr std::int64_t kPerMicrosecond = 1'000'000, kShortest = 100;  // below, JSON writers use an exponent
  constexpr std::int64_t kExact = std::int64_t{1} << 53;                // above, not every picosecond is a double
  if ((picoseconds < kShortest && picoseconds != 0) || picoseconds > kExact) {
    out += scalar(Json(static_cast<double>(picoseconds) / kPerMicrosecond));
    return;
  }
  std::array<char, 32> digits;
  char* end = std::to_chars(digits.data(), digits.data() + digits.size(), picoseconds / kPerMicrosecond).ptr;
  *end++ = '.';
  std::int64_t rest = picoseconds % kPerMicrosecond;
  do {
    constexpr std::int64_t kFirstDigit = kPerMicrosecond / 10;
    *end++ = static_cast<char>('0' + rest / kFirstDigit);
    rest = rest % kFirstDigit * 10;
  } while (rest != 0);
  out.append(digits.data(), end);
}

}  // namespace benchsuite
