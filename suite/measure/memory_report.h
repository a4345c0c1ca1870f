// Where the memory of a stage goes: bytes by purpose and by term at the peak, saved activations at their high-water mark, each
// with its formula.
#pragma once

#include "engine/program/program.h"
#include "engine/train/config.h"
#include "suite/results/run.h"

namespace benchsuite {

struct MeasuredMemory {
  StageMemory stage;
  double reserved_bytes = 0;  ///< what the allocator reserves, holes included, and what the stack adds
  bool fits = true;
};

/// Memory of the rank that recorded `program`, a rank of pipeline stage `stage`, on a device of `capacity` bytes.
MeasuredMemory measure_memory(const TrainConfig& config, std::int64_t stage, const Program& program, std::int64_t capacity,
                              int gpus_per_node);

}  // namespace benchsuite
