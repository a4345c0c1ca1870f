#include "suite/environment/version.h"

#include <fmt/format.h>

#include "benchsuite_commit.h"
#include "suite/cases/case.h"
#include "suite/expectations/expected.h"
#include "suite/report/result_json.h"

#ifndef BENCHSUITE_BUILD_TYPE
#define BENCHSUITE_BUILD_TYPE "unknown"
#endif

namespace benchsuite {

std::string engine_commit() { return BENCHSUITE_COMMIT; }
std::string build_type() { return BENCHSUITE_BUILD_TYPE; }

std::string version_text() {
  return fmt::format(
      "benchsuite {} (engine {})\n"
      "build:   {}, compiler {}\n"
      "devices: sim, cpu\n"
      "schemas: case {}, expected {}, result {}\n",
      kSuiteVersion, engine_commit(), BENCHSUITE_BUILD_TYPE, __VERSION__, kCaseSchemaVersion, kExpectedSchemaVersion,
      kResultSchemaVersion);
}

}  // namespace benchsuite
