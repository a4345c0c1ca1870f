#include "engine/core/error.h"

#include <cstring>

namespace benchsuite {

std::string to_string(const Violation& violation) {
  std::string text = violation.file;
  if (!violation.key.empty()) {
    if (!text.empty()) text += ": ";
    text += violation.key;
    if (!violation.value.empty()) text += " = " + violation.value;
  }
  text += ": " + violation.problem;
  if (!violation.remedy.empty()) text += "; " + violation.remedy;
  return text;
}

namespace {

std::string join(const std::vector<Violation>& violations) {
  std::string text;
  for (const Violation& violation : violations) {
    if (!text.empty()) text += '\n';
    text += to_string(violation);
  }
  return text;
}

/// The path from the source root on, so that messages do not carry the build machine's folders.
const char* short_path(const char* file) {
  for (const char* root : {"/tests/", "/engine/", "/suite/"}) {
    if (const char* found = std::strstr(file, root)) return found + 1;
  }
  return file;
}

}  // namespace

Error::Error(std::vector<Violation> violations)
    : std::runtime_error(join(violations)), kind_(Kind::config), violations_(std::move(violations)) {}

CheckFailure::CheckFailure(const char* file, int line, const char* expression) {
  context_ << short_path(file) << ':' << line << ": check failed: " << expression << ": ";
}

CheckFailure::~CheckFailure() noexcept(false) { throw Error(Error::Kind::internal, context_.str()); }

}  // namespace benchsuite
