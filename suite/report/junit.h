// junit.xml: what continuous-integration servers read. One <testsuite> per case, one <testcase> per variant (its step)
// and per expectation that gates; claims never judge and are no tests, they stand in <system-out>.
//
// PASS, WARN, XFAIL, IMPROVED  -> passed; a WARN says so in <system-out> of its test
// FAIL, XPASS                  -> <failure type=reason message>
// ERROR, TIMEOUT, ABORTED, a missing metric -> <error>
// SKIP, NOREF                  -> <skipped message>
// A case whose status no test of it carries gets a test named "verdict", so that no failure is lost.
//
// The elements and attributes are those common to Ant, Surefire and Jenkins: tests/scripts/junit.xsd.
#pragma once

#include <string>

#include "suite/results/run.h"

namespace benchsuite {

std::string junit_report(const Run& run);

}  // namespace benchsuite
