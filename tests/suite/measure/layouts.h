// Layouts that recorded and replayed steps are compared on.
#pragma once

#include <string>
#include <vector>

#include "engine/device/sim/hardware.h"
#include "engine/train/config.h"

namespace benchsuite {

/// cases/hardware/NAME.json.
HardwareProfile profile(const std::string& name);
/// Eight small layers on one rank.
TrainConfig tiny();
/// GPT-13B, TP4 x PP4, eight micro-batches of four.
TrainConfig gpt_13b();
/// What only some software does, one thing at a time and all together, under every recompute; context parallelism; listed stages.
std::vector<TrainConfig> layouts_of_some_software();
/// Every recompute and attention kernel with and without sequence parallelism on four shapes of pipeline, and
/// layouts_of_some_software.
std::vector<TrainConfig> layouts();
/// ZeRO stages with and without parameters that stay whole, grouped queries whose width is no multiple of h, both families.
std::vector<TrainConfig> sharded_layouts();

}  // namespace benchsuite
