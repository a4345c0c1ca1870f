// Where the memory of a stage goes: bytes by purpose at the peak, saved activations by term with their formulas.
#pragma once

#include "engine/program/program.h"
#include "engine/train/config.h"
#include "suite/results/run.h"

namespace benchsuite {

/// Memory of the rank that recorded `program`, a rank of pipeline stage `stage`.
StageMemory measure_memory(const TrainConfig& config, std::int64_t stage, const Program& program);

/// Bytes the allocator must reserve on that rank: arenas with their holes, and what the stack adds.
double reserved_bytes(const TrainConfig& config, const Program& program);

}  // namespace benchsuite
