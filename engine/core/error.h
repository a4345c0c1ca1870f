// The one exception type, the CHECK macro that throws it, and checked arithmetic.
//
//   CHECK(group.size() > 1) << "group of rank " << rank;
//
// A failed check throws Error with file:line, the expression and the streamed context. User mistakes
// (a bad case file, an impossible layout) are collected as Violations and thrown together as one Error
// of kind `config`, so that a person sees all of them at once.
#pragma once

#include <cstdint>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace benchsuite {

/// One thing wrong with what the user gave us.
struct Violation {
  std::string file;     ///< file it came from, or "--set" / "command line"
  std::string key;      ///< dotted key, e.g. "layout.tp"
  std::string value;    ///< the offending value as written
  std::string problem;  ///< what is wrong
  std::string remedy;   ///< what to do about it
};

/// "file: key = value: problem; remedy" on one line.
std::string to_string(const Violation& violation);

class Error : public std::runtime_error {
 public:
  enum class Kind : std::uint8_t {
    internal,  ///< a failed CHECK: a defect, or an engine used wrongly
    config,    ///< bad flags, files or layouts; violations() lists each
    io,        ///< a file that can't be read or written
    run,       ///< a run that broke: dead peer, mismatched ranks, deadlock
    unavailable  ///< a device that this machine or build does not have
  };

  Error(Kind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}

  /// A config error that carries every violation; what() joins them, one a line.
  explicit Error(std::vector<Violation> violations);

  Kind kind() const { return kind_; }
  const std::vector<Violation>& violations() const { return violations_; }

 private:
  Kind kind_;
  std::vector<Violation> violations_;
};

/// Collects the streamed context of a failed CHECK and throws at the end of the statement.
class CheckFailure {
 public:
  CheckFailure(const char* file, int line, const char* expression);
  ~CheckFailure() noexcept(false);
  CheckFailure(const CheckFailure&) = delete;
  CheckFailure& operator=(const CheckFailure&) = delete;

  template <class T>
  CheckFailure& operator<<(const T& value) {
    context_ << value;
    return *this;
  }

 private:
  std::ostringstream context_;
};

#define CHECK(condition)   \
  if (condition) [[likely]] { \
  } else                   \
    ::benchsuite::CheckFailure(__FILE__, __LINE__, #condition)

/// a / b where b must divide a; throws otherwise.
template <class T>
constexpr T div_exact(T a, T b) {
  CHECK(b != 0 && a % b == 0) << a << " is not a multiple of " << b;
  return a / b;
}

template <class T>
constexpr T div_ceil(T a, T b) {
  return (a + b - 1) / b;
}

template <class T>
constexpr T round_up(T a, T multiple) {
  return div_ceil(a, multiple) * multiple;
}

/// An integer conversion that throws instead of losing value.
template <class To, class From>
constexpr To narrow(From value) {
  CHECK(std::in_range<To>(value)) << value << " does not fit";
  return static_cast<To>(value);
}

}  // namespace benchsuite
