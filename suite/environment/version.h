// What this build is.
#pragma once

#include <string>

namespace benchsuite {

inline constexpr const char* kSuiteVersion = "0.1.0";

/// Commit of the engine, "unknown" when the build didn't know it.
std::string engine_commit();

/// CMake's build type: "Release".
std::string build_type();

/// The text of --version: suite, commit, compiler, devices, schema versions.
std::string version_text();

}  // namespace benchsuite
