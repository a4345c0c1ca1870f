// What a run ran on: facts of the machine, the build and the environment, each by its exact name.
//
// Environment variables are kept by an allow-list of exact names, never by prefix and never the whole environment. An
// NCCL_ variable that is not on the list is recorded as "set", without its value.
//
//   {"build.commit": "...", "host.cpu": "...", "gpu.0.name": "...", "variable.OMP_NUM_THREADS": "8",
//    "variable.NCCL_MY_OWN": "set", "unreadable": "host.governor"}
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/json_reader.h"

namespace benchsuite {

/// The names of environment variables whose values are kept.
std::span<const std::string_view> allowed_variables();

/// Flat: name -> text or number, in a fixed order. Facts that can't be read are listed under "unreadable", never made up.
/// `environment` is a null-terminated list NAME=VALUE (environ).
Json capture_environment(const char* const* environment);
/// Of this process.
Json capture_environment();

/// The series a measurement belongs to: "fnv1a64:..." over what changes performance on `device`. A simulated step depends
/// on no machine, so all hosts share "sim"; otherwise GPUs, driver, CPU and tuning variables enter, host names don't.
std::string system_fingerprint(const Json& environment, std::string_view device);

/// Lines "name: before -> after" for what differs; what only one side has shows as "absent".
std::vector<std::string> environment_difference(const Json& before, const Json& after);

}  // namespace benchsuite
