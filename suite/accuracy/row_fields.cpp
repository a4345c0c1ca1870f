#include "suite/accuracy/row_fields.h"

#include <fmt/format.h>

#include "suite/accuracy/published_row.h"

namespace benchsuite {

namespace {

const Json* stated(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::string named(const std::string& dotted, const Json& found) { return fmt::format("{} = {}", dotted, found.dump()); }

}  // namespace

std::int64_t count_of(const std::string& dotted, const Json& found) {
  const Json holder = {{"value", found}};
  const auto number = PublishedRow::integer(holder, "value");
  if (!number || *number < 1 || *number > kMostOfACount) {
    throw Unmapped{fmt::format("{} is no whole number from 1 to {}", named(dotted, found), kMostOfACount)};
  }
  return *number;
}

std::optional<bool> flag_of(const std::string& dotted, const Json& found) {
  if (found.is_null()) return std::nullopt;
  if (!found.is_boolean()) throw Unmapped{named(dotted, found) + " is neither true nor false"};
  return found.get<bool>();
}

std::optional<std::int64_t> count_in(const Json& object, const std::string& part, const char* key) {
  const Json* found = stated(object, key);
  if (!found) return std::nullopt;
  return count_of(part + "." + key, *found);
}

std::optional<double> number_in(const Json& object, const std::string& part, const char* key) {
  const Json* found = stated(object, key);
  if (!found) return std::nullopt;
  const auto number = PublishedRow::number(object, key);
  if (!number) throw Unmapped{named(part + "." + key, *found) + " is no number"};
  return number;
}

std::optional<std::string> text_in(const Json& object, const std::string& part, const char* key) {
  const Json* found = stated(object, key);
  if (!found) return std::nullopt;
  if (!found->is_string()) throw Unmapped{named(part + "." + key, *found) + " is no text"};
  return found->get<std::string>();
}

}  // namespace benchsuite
